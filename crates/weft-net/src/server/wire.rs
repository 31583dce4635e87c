//! What all calls of a connection share: the table of those in flight, their windows and the way
//! out.
//!
//! A call is in the table from its request until its last reply frame *leaves*. So what waits to be
//! sent is bounded by the calls a client may have in flight, even if it never reads; and a client
//! that has seen the last frame finds the place free.
//!
//! As on the client's side, nothing that may wake a service is sent, credited or dropped under the
//! table's lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use weft_proto::limits::{self, window_cost};
use weft_proto::session::Credit;
use weft_proto::{Flags, Header, Kind, prost::Message as _};

use super::{Bounds, Chunk};
use crate::queue::{Lane, Leaving, Message, SendQueue, Sender};
use crate::window::shared_part;

pub(super) struct Wire {
    pub(super) queue: SendQueue,
    bounds: Bounds,
    reply_window: u32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// In order: when the connection ends, they learn it in the order they began.
    open: BTreeMap<u64, Open>,
    /// Sum of the shared parts of the open calls' windows.
    shared: u64,
    /// Sum of the open calls' bodies.
    bodies: u64,
}

struct Open {
    /// Where its payload goes; nowhere after its end or a cancel.
    payload: Option<mpsc::UnboundedSender<Chunk>>,
    outstanding: u64,
    body: u64,
    flow: Arc<Flow>,
}

impl Open {
    /// What its service learns by, to be told without the table's lock.
    fn give_up(&mut self) -> (Arc<Flow>, Option<mpsc::UnboundedSender<Chunk>>) {
        (self.flow.clone(), self.payload.take())
    }
}

/// Whether a call's reply may go on.
pub(super) struct Flow {
    pub(super) room: Semaphore,
    cancelled: AtomicBool,
    long: AtomicBool,
    taken: AtomicU64,
}

impl Flow {
    /// The call is to have a task of its own.
    pub(super) fn becomes_long(&self) {
        self.long.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_long(&self) -> bool {
        self.long.load(Ordering::Relaxed)
    }

    pub(super) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Window of the reply that the client has given back.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.room.close();
    }
}

impl Wire {
    pub(super) fn new(queue: SendQueue, bounds: Bounds, reply_window: u32) -> Self {
        Wire {
            queue,
            bounds,
            reply_window,
            table: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a call; `last` says that its payload is all here.
    pub(super) fn begin(
        &self,
        id: u64,
        body: usize,
        payload: Chunk,
        last: bool,
    ) -> Result<(mpsc::UnboundedReceiver<Chunk>, Arc<Flow>), String> {
        let mut table = self.table();
        if table.open.len() >= self.bounds.calls as usize {
            return Err("the client has more calls in flight than it was granted".to_owned());
        }
        if table.open.contains_key(&id) {
            return Err("the client used a request id twice".to_owned());
        }
        table.bodies += body as u64;
        if table.bodies > u64::from(limits::BODIES_MAX) {
            return Err("the client has too many bytes of requests in flight".to_owned());
        }
        let flow = Arc::new(Flow {
            room: Semaphore::new(self.reply_window as usize),
            cancelled: AtomicBool::new(false),
            long: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        });
        let (sender, chunks) = mpsc::unbounded_channel();
        let open = Open {
            payload: Some(sender),
            outstanding: 0,
            body: body as u64,
            flow: flow.clone(),
        };
        table.open.insert(id, open);
        drop(table);
        self.data(id, payload, last);
        Ok((chunks, flow))
    }

    /// Whether the windows have room for a frame's payload, asked before memory is taken for it.
    /// That of a call which was answered meanwhile counts as a new call's: its client still counts
    /// it against the window that calls share.
    pub(super) fn admits(&self, header: &Header) -> Result<(), String> {
        let table = self.table();
        let out = table
            .open
            .get(&header.request)
            .map_or(0, |open| open.outstanding);
        let after = out + window_cost(header.payload_len as usize);
        let shared = table.shared + shared_part(after) - shared_part(out);
        self.check_shared(&table, shared)
    }

    /// A call's own window is its own; only what goes beyond can break the bound.
    fn check_shared(&self, table: &Table, shared: u64) -> Result<(), String> {
        if shared > u64::from(self.bounds.window) && shared > table.shared {
            return Err("the client sent more payload than it was granted".to_owned());
        }
        Ok(())
    }

    /// Payload of a call has arrived.
    pub(super) fn data(&self, id: u64, payload: Chunk, last: bool) {
        let cost = window_cost(payload.bytes.len());
        let mut guard = self.table();
        let table = &mut *guard;
        // Payload of a call that was answered or cancelled meanwhile goes nowhere, and so does its
        // window.
        let Some(open) = table.open.get_mut(&id) else {
            return;
        };
        let Some(sender) = open.payload.clone() else {
            return;
        };
        let (before, after) = (open.outstanding, open.outstanding + cost);
        let shared = table.shared + shared_part(after) - shared_part(before);
        debug_assert!(
            shared <= u64::from(self.bounds.window).max(table.shared),
            "it was admitted"
        );
        (open.outstanding, table.shared) = (after, shared);
        let (flow, ended) = (open.flow.clone(), open.payload.take_if(|_| last));
        drop(guard);
        if cost > 0 && sender.send(payload).is_err() {
            // The service does not want it: as good as consumed.
            self.release(id, &flow, cost);
        }
        drop(ended);
    }

    /// The service has done with payload of a call: its window is free.
    pub(super) fn release(&self, id: u64, flow: &Arc<Flow>, cost: u64) {
        let mut guard = self.table();
        let table = &mut *guard;
        // The number may belong to another call by now.
        let own = |open: &&mut Open| Arc::ptr_eq(&open.flow, flow);
        let Some(open) = table.open.get_mut(&id).filter(own) else {
            return;
        };
        let before = open.outstanding;
        open.outstanding -= cost;
        table.shared -= shared_part(before) - shared_part(open.outstanding);
        // When all its payload is here and none of the shared window is held, credit would change
        // nothing.
        let useful = open.payload.is_some() || shared_part(before) > 0;
        drop(guard);
        if useful {
            self.credit(id, cost);
        }
    }

    fn credit(&self, request: u64, cost: u64) {
        let bytes = cost as u32;
        let body = Credit { bytes, request }.encode_to_vec();
        let flags = Flags::REPLY.with(Flags::LAST);
        let message = Message::bare(Kind::Credit, flags, request, body);
        let _ = self.queue.control(Lane::Urgent, message);
    }

    /// The client can take more of a reply.
    pub(super) fn credited(&self, credit: Credit) -> Result<(), String> {
        let flow = |open: &Open| open.flow.clone();
        let Some(flow) = self.table().open.get(&credit.request).map(flow) else {
            return Ok(());
        };
        // No other task adds to it.
        let room = flow.room.available_permits() + credit.bytes as usize;
        if room > self.reply_window as usize {
            return Err("the client credits more than it was sent".to_owned());
        }
        flow.taken.fetch_add(credit.bytes.into(), Ordering::AcqRel);
        flow.room.add_permits(credit.bytes as usize);
        Ok(())
    }

    /// The client no longer wants the answer: the service is told, and answers in its own time.
    pub(super) fn cancel(&self, id: u64) {
        let given_up = self.table().open.get_mut(&id).map(Open::give_up);
        if let Some((flow, _payload)) = given_up {
            flow.cancel();
        }
    }

    /// How a reply is to be sent now.
    pub(super) fn sender(&self) -> Sender {
        Sender::of(self.table().open.len())
    }

    /// What to do when the call's last frame leaves.
    pub(super) fn leaving(self: &Arc<Self>, id: u64, flow: &Arc<Flow>) -> Leaving {
        let (wire, flow) = (self.clone(), flow.clone());
        Box::new(move || wire.end(id, &flow))
    }

    fn end(&self, id: u64, flow: &Arc<Flow>) {
        let mut table = self.table();
        let own = table
            .open
            .get(&id)
            .is_some_and(|open| Arc::ptr_eq(&open.flow, flow));
        let ended = if own { table.open.remove(&id) } else { None };
        if let Some(open) = &ended {
            table.shared -= shared_part(open.outstanding);
            table.bodies -= open.body;
        }
        drop(table);
        drop(ended);
    }

    /// The connection has ended: every call learns it.
    pub(super) fn close(&self, reason: &str) {
        let given_up: Vec<_> = self.table().open.values_mut().map(Open::give_up).collect();
        for (flow, _payload) in given_up {
            flow.cancel();
        }
        self.queue.close(reason);
    }
}
