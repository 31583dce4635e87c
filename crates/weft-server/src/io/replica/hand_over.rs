//! Replicas that leave while their server goes on (`docs/design/0047-servers-that-come-and-go.md`).

use tokio::time::timeout;
use weft_proto::meta::ReplicaChange;

use super::state::{Departure, Replicas, Role};
use crate::limits::{REPLICA_CHANGE_TIMEOUT, REPLICA_TICK};

impl Replicas {
    /// Lets a replica leave: all that stay are in sync, in this term.
    pub(super) async fn depart(&self, term: u64, departure: Departure) {
        let server = self.me.server;
        match departure {
            Departure::Backup(number) => {
                tracing::info!(server, replica = number, "a replica leaves");
                self.ask(term, ReplicaChange::Remove, number).await;
            }
            Departure::Own(successor) => {
                tracing::info!(server, successor, "the primary leaves");
                self.hand_over(term, successor).await;
            }
        }
    }

    /// Gives the primary's place away. It shows and changes nothing until it is known whether the
    /// service has done so: the successor may serve already.
    async fn hand_over(&self, term: u64, successor: u32) {
        // Not if the service is away: nobody would serve.
        if self.refresh().await.is_none() {
            return;
        }
        self.step_down();
        // All in sync have the same changes then.
        let ended = timeout(REPLICA_CHANGE_TIMEOUT, self.turns.pass()).await;
        while ended.is_ok() && self.role() == Role::Primary && self.term() == term {
            let asked = self.ask(term, ReplicaChange::HandOver, successor).await;
            if asked.is_some() {
                break;
            }
            tokio::time::sleep(REPLICA_TICK).await;
        }
        self.resume();
    }
}
