//! What the connected clients may hold in this server's memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::collective::ClientRoundMemory;
use crate::limits::{CLIENT_READ_BUDGET, CLIENT_STAGING_MEMORY};

/// The connected clients, by id.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<u64, ClientState>>);

struct ClientState {
    connections: usize,
    read_budget: Arc<Semaphore>,
    round_memory: Arc<ClientRoundMemory>,
    staging_memory: Arc<Semaphore>,
}

impl Clients {
    /// A client has opened a connection.
    pub(super) fn opened(&self, client: u64) {
        self.0
            .lock()
            .entry(client)
            .or_insert_with(|| ClientState {
                connections: 0,
                read_budget: new_read_budget(),
                round_memory: Arc::default(),
                staging_memory: Arc::new(Semaphore::new(CLIENT_STAGING_MEMORY)),
            })
            .connections += 1;
    }

    /// A connection of a client has ended; the last one takes the client's budgets with it. Returns
    /// whether it was the last.
    pub(super) fn closed(&self, client: u64) -> bool {
        let mut clients = self.0.lock();
        let Some(state) = clients.get_mut(&client) else {
            return false;
        };
        state.connections -= 1;
        let last = state.connections == 0;
        if last {
            clients.remove(&client);
        }
        last
    }

    /// Whether the client has a connection.
    pub(super) fn is_connected(&self, client: u64) -> bool {
        self.0.lock().contains_key(&client)
    }

    /// Memory for bytes of the client that are staged; `None` if it has none left.
    pub(super) fn staging_memory(&self, client: u64, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let clients = self.0.lock();
        let memory = clients.get(&client)?.staging_memory.clone();
        memory
            .try_acquire_many_owned(u32::try_from(bytes).ok()?)
            .ok()
    }

    /// The budget that the client's read jobs and copies share. A call of a client that is gone
    /// gets a budget of its own.
    pub(super) fn read_budget(&self, client: u64) -> Arc<Semaphore> {
        let clients = self.0.lock();
        let state = clients.get(&client);
        state.map_or_else(new_read_budget, |state| state.read_budget.clone())
    }

    /// The memory that the rounds of the client's collectives share. A call of a client that is
    /// gone gets memory of its own.
    pub(super) fn round_memory(&self, client: u64) -> Arc<ClientRoundMemory> {
        let clients = self.0.lock();
        let state = clients.get(&client);
        state
            .map(|state| state.round_memory.clone())
            .unwrap_or_default()
    }
}

fn new_read_budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CLIENT_READ_BUDGET))
}
