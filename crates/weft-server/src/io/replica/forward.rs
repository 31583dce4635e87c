//! Sends changes from the primary to the other replicas.

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;
use weft_net::CallError;
use weft_proto::replica::{ApplyRequest, Change};
use weft_proto::{Code, Failure};
use weft_store::{StoreError, Timestamp};

use super::state::{Part, Replicas, Target};
use crate::limits::REPLICA_APPLY_MAX;

/// Who has applied a change, and who has refused it.
#[derive(Default)]
pub(super) struct Sent {
    applied: Vec<u32>,
    refused: Vec<(u32, Failure)>,
}

enum Outcome {
    Applied,
    Refused(Failure),
    /// The only backup in sync has no space for it.
    Full,
    /// The change need not wait for it any more.
    Gone,
}

impl Replicas {
    /// Sends a change to all replicas that get changes. On return all that are in sync have applied
    /// it. `checked`: this replica can make the change, so that one that refuses it leaves the set;
    /// otherwise the refusals are returned.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`]; [`StoreError::NoSpace`] if the only backup in sync is full.
    pub(super) async fn send(
        &self,
        change: Change,
        payload: Vec<Bytes>,
        time: Timestamp,
        checked: bool,
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
            pass: 0,
        };
        let alone = targets.iter().filter(|t| t.required).count() == 1;
        let outcomes = targets.iter().map(async |target| {
            let sending = Sending {
                target,
                alone: alone && target.required,
                checked,
            };
            let outcome = self.send_to(sending, request.clone(), &payload).await;
            (target, outcome)
        });
        for (target, outcome) in join_all(outcomes).await {
            match outcome? {
                Outcome::Applied => sent.applied.push(target.number),
                Outcome::Full => {
                    // Replicas that catch up may have it, and this one will not.
                    for other in targets.iter().filter(|t| !t.required) {
                        self.suspect_content(other.number, "a change was taken back");
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
        sending: Sending<'_>,
        mut request: ApplyRequest,
        payload: &[Bytes],
    ) -> Result<Outcome, StoreError> {
        let target = sending.target;
        let mut changes = self.changes();
        request.pass = target.pass;
        let mut asked = false;
        'send: loop {
            let began = Instant::now();
            let mut answer = std::pin::pin!(send_once(target, request.clone(), payload.to_vec()));
            let (mut done, mut late) = (false, false);
            loop {
                changes.mark_unchanged();
                let waits = self.is_required(target.number)?
                    || self.part(target.number) == Part::CatchingUp;
                if !waits {
                    return Ok(Outcome::Gone);
                }
                tokio::select! {
                    biased;
                    answered = &mut answer, if !done => {
                        done = true;
                        match answered {
                            Ok(()) => {
                                self.answered(target.number, began);
                                return Ok(Outcome::Applied);
                            }
                            Err(CallError::Failed(failure)) if failure.code() == Code::StaleMap => {
                                // The set may have changed since, and this replica may still be
                                // primary.
                                // Not `targets`: a change that has begun ends also while the
                                // primary hands over.
                                if !std::mem::replace(&mut asked, true)
                                    && self.term_as_primary()? <= request.term
                                {
                                    self.refresh().await;
                                }
                                let term = self.term_as_primary()?;
                                if term > request.term {
                                    request.term = term;
                                    asked = false;
                                    continue 'send;
                                }
                                self.suspect(target.number, &failure.message);
                            }
                            Err(CallError::Failed(failure)) if sending.is_full(&failure) => {
                                return Ok(Outcome::Full);
                            }
                            Err(CallError::Failed(failure))
                                if !sending.checked && failure.code() != Code::Busy =>
                            {
                                return Ok(Outcome::Refused(failure));
                            }
                            Err(error) => self.suspect(target.number, &error.to_string()),
                        }
                    }
                    _ = changes.changed() => {}
                    () = tokio::time::sleep_until(began + REPLICA_APPLY_MAX), if !late => {
                        late = true;
                        self.suspect(target.number, "it does not apply a change");
                    }
                }
            }
        }
    }
}

/// A change on its way to one replica.
#[derive(Clone, Copy)]
struct Sending<'a> {
    target: &'a Target,
    /// It is the only one in sync beside the primary.
    alone: bool,
    checked: bool,
}

impl Sending<'_> {
    /// Whether the change fails because the replica is full.
    fn is_full(self, failure: &Failure) -> bool {
        self.alone && failure.code() == Code::NoSpace
    }
}

impl Sent {
    /// Compares what the replicas did with what this one did. Those that did otherwise differ now:
    /// on return they are not in sync any more.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`].
    pub(super) async fn settle<T>(
        self,
        replicas: &Replicas,
        own: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let others = if own.is_ok() {
            let refused = self.refused.into_iter();
            refused.map(|(n, f)| (n, f.message)).collect::<Vec<_>>()
        } else {
            let applied = self.applied.into_iter();
            let reason = "the primary failed to make a change that it has made";
            applied.map(|n| (n, reason.to_owned())).collect()
        };
        for (number, reason) in &others {
            replicas.suspect_content(*number, reason);
        }
        for (number, _) in others {
            replicas.gone(number).await?;
        }
        own
    }
}

async fn send_once(
    target: &Target,
    request: ApplyRequest,
    payload: Vec<Bytes>,
) -> Result<(), CallError> {
    let (connection, _) = target.link.connection().await?;
    if request.bytes == 0 {
        return connection.call(&request).await.map(drop);
    }
    let outgoing = connection.send(&request, payload, true).await?;
    outgoing.reply().await.map(drop)
}
