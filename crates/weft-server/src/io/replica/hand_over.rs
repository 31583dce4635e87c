//! Replicas that leave while their server goes on (`docs/design/0047-servers-that-come-and-go.md`).

use tokio::time::timeout;
use weft_proto::meta::ReplicaChange;

use super::state::{Departure, Replicas, Role};
use crate::limits::{REPLICA_CHANGE_TIMEOUT, REPLICA_TICK};

impl Replicas {
    /// Lets a replica leave: all that stay are in sync.
    pub(super) async fn depart(&self, departure: Departure) {
        let server = self.me.server;
        match departure {
            Departure::Backup(number) => {
                tracing::info!(server, replica = number, "a replica leaves");
                self.change(ReplicaChange::Remove, number).await;
            }
            Departure::Own(successor) => {
                tracing::info!(server, successor, "the primary leaves");
                self.hand_over(successor).await;
            }
        }
    }

    /// Gives the primary's place away. It shows and changes nothing until it is known whether the
    /// service has done so: the successor may serve already.
    async fn hand_over(&self, successor: u32) {
        let term = self.term();
        self.step_down();
        // All in sync have the same changes then.
        if timeout(REPLICA_CHANGE_TIMEOUT, self.turns.pass())
            .await
            .is_ok()
        {
            while self.role() == Role::Primary && self.term() == term {
                let asked = self.ask(ReplicaChange::HandOver, successor).await;
                if asked.is_some() {
                    break;
                }
                tokio::time::sleep(REPLICA_TICK).await;
            }
        }
        self.resume();
    }
}
