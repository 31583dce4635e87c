//! Sends changes from the primary to the other replicas.

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;
use weft_net::CallError;
use weft_proto::replica::{ApplyRequest, Change};
use weft_proto::{Code, Failure};
use weft_store::{StoreError, Timestamp};

use super::state::{Replicas, Target};
use crate::limits::REPLICA_WAIT;

/// Who has applied a change, and who has refused it.
#[derive(Default)]
pub(super) struct Sent {
    applied: Vec<u32>,
    refused: Vec<(u32, Failure)>,
}

enum Outcome {
    Applied,
    Refused(Failure),
    /// The change need not wait for it any more.
    Gone,
}

impl Replicas {
    /// Sends a change to all replicas that get changes. On return all that are in sync have applied
    /// or refused it.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`]; [`StoreError::NoSpace`] if the only backup in sync is full;
    /// [`StoreError::Unacknowledged`].
    pub(super) async fn send(
        &self,
        change: Change,
        payload: Vec<Bytes>,
        time: Timestamp,
    ) -> Result<Sent, StoreError> {
        let (term, targets) = self.targets()?;
        let mut sent = Sent::default();
        if targets.is_empty() {
            return Ok(sent);
        }
        let request = ApplyRequest {
            term,
            change: Some(change),
            time: time.0,
            bytes: payload.iter().map(|b| b.len() as u64).sum(),
        };
        let required = targets.iter().filter(|t| t.required).count();
        let outcomes = targets
            .iter()
            .map(async |target| (target, self.send_to(target, &request, &payload).await));
        for (target, outcome) in join_all(outcomes).await {
            match outcome? {
                Outcome::Applied => sent.applied.push(target.number),
                Outcome::Refused(failure)
                    if failure.code() == Code::NoSpace && target.required && required == 1 =>
                {
                    // Replicas that catch up may have it, and this one will not.
                    for other in targets.iter().filter(|t| !t.required) {
                        self.suspect(other.number, "a change was taken back");
                    }
                    return Err(StoreError::NoSpace {
                        needed: request.bytes,
                        available: 0,
                    });
                }
                Outcome::Refused(failure) => sent.refused.push((target.number, failure)),
                Outcome::Gone => {}
            }
        }
        Ok(sent)
    }

    async fn send_to(
        &self,
        target: &Target,
        request: &ApplyRequest,
        payload: &[Bytes],
    ) -> Result<Outcome, StoreError> {
        let began = Instant::now();
        let mut sending = std::pin::pin!(send_once(target, request, payload.to_vec()));
        let mut changes = self.changes();
        let mut done = false;
        loop {
            changes.mark_unchanged();
            if target.required {
                if !self.is_required(target.number)? {
                    return Ok(Outcome::Gone);
                }
            } else if self.part(target.number) == super::state::Part::Away {
                return Ok(Outcome::Gone);
            }
            tokio::select! {
                biased;
                answer = &mut sending, if !done => {
                    match answer {
                        Ok(()) => {
                            self.answered(target.number, began);
                            return Ok(Outcome::Applied);
                        }
                        Err(CallError::Failed(failure)) if failure.code() == Code::StaleMap => {
                            // A higher term is in force, or the backup was started again.
                            self.suspect(target.number, &failure.message);
                        }
                        Err(CallError::Failed(failure)) if failure.code() != Code::Busy => {
                            return Ok(Outcome::Refused(failure));
                        }
                        Err(error) => self.suspect(target.number, &error.to_string()),
                    }
                    done = true;
                }
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(began + REPLICA_WAIT) => {
                    return Err(StoreError::Unacknowledged {
                        seconds: REPLICA_WAIT.as_secs(),
                    });
                }
            }
        }
    }
}

impl Sent {
    /// Compares what the replicas did with what this one did: those that did otherwise have other
    /// bytes now, and must be made equal.
    pub(super) fn settle<T, E>(&self, replicas: &Replicas, own: &Result<T, E>) {
        let others = if own.is_ok() {
            self.refused
                .iter()
                .map(|(n, f)| (*n, f.message.as_str()))
                .collect()
        } else {
            let applied = self.applied.iter();
            applied
                .map(|n| (*n, "the primary failed to make a change that it has made"))
                .collect::<Vec<_>>()
        };
        for (number, reason) in others {
            replicas.suspect(number, reason);
        }
    }
}

async fn send_once(
    target: &Target,
    request: &ApplyRequest,
    payload: Vec<Bytes>,
) -> Result<(), CallError> {
    let (connection, _) = target.link.connection().await?;
    if request.bytes == 0 {
        return connection.call(request).await.map(drop);
    }
    let outgoing = connection.send(request, payload, true).await?;
    outgoing.reply().await.map(drop)
}
