//! Cautious operations: each is atomic, and all of them happen in one order on all servers
//! (`docs/design/0031-order.md`).
//!
//! What touches one server is claimed, done and over in one call. A change of several servers is
//! staged on all of them at once, decided by the coordinator, and then takes effect on the others.
//! A read claims its bytes on all of them and gives the claims back when it has them. If a claim is
//! refused because of another operation, the claims are asked for again one server at a time, in
//! the order of the servers' numbers, so that operations never wait for each other in a circle.

use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep};
use weft_layout::{Request, ServerId, ServerSlot};
use weft_net::CallError;
use weft_proto::order::{Claim, Step};
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, Retry as RetryClass};

use super::read::{Moved, ReadOutcome};
use super::span::{Durability, Sink};
use crate::limits::{OPERATION_BACKOFF, OPERATION_TIMEOUT, OPERATION_TRIES};
use crate::scheduled::note_scheduled;
use crate::turn::Turn;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// What a server says of a change with a claim.
pub(crate) struct Staged {
    pub(crate) bytes: u64,
    pub(crate) granted: bool,
    pub(crate) stamp: Stamp,
}

/// Whether an operation goes on.
enum Tried<T> {
    Done(T),
    /// Another operation, or a lost connection, was in the way, and nothing was changed.
    Again(Option<CallError>),
}

/// Whether a read that failed like this may succeed when it is repeated.
fn passes(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Cancelled | Code::Unavailable | Code::StaleMap
    )
}

/// Whether a call of an operation that failed like this, and changed nothing, may succeed when the
/// operation is tried again.
pub(super) fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Failed(failure) => matches!(failure.code(), Code::Busy | Code::Cancelled),
        CallError::Lost { .. } => true,
        CallError::Connect(_) | CallError::Protocol { .. } => false,
    }
}

fn unsupported(what: String, server: ServerId) -> Error {
    let message =
        format!("server {server} is of an older version, which has no cautious operations");
    Error::Refused {
        what,
        code: Code::Unsupported,
        errno: Code::Unsupported.errno(),
        retry: RetryClass::Never,
        message,
    }
}

impl OpenView {
    fn server_at(&self, slot: ServerSlot) -> ServerId {
        self.file.0.layout.servers()[slot.0 as usize]
    }

    pub(super) fn turn(&self, slots: &[ServerSlot]) -> Turn {
        let servers = slots.iter().map(|slot| self.server_at(*slot)).collect();
        Turn::begin(&self.file.0.volume, servers, slots.len() == 1)
    }

    /// Reads of these slots what `request` touches, all of it as it was at one moment.
    pub(super) async fn read_in_order(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        memory: &mut impl Sink,
    ) -> Result<Moved, Error> {
        if slots.is_empty() {
            return Ok(Moved::default());
        }
        let mut last = None;
        for attempt in 0..OPERATION_TRIES {
            if attempt > 0 {
                sleep(OPERATION_BACKOFF * attempt).await;
            }
            match self.try_read(request, slots, memory, attempt > 0).await {
                Err(error) if passes(&error) => last = Some(error),
                result => return result,
            }
        }
        Err(last.unwrap_or_else(|| self.too_slow()))
    }

    /// The claims may have ended before all bytes were there.
    fn too_slow(&self) -> Error {
        let what = "the read took so long that operations that waited for it went on; what was read may be a mixture";
        let failure = Failure::new(Code::Busy, what);
        Error::of_call(self.what("read"), CallError::Failed(failure))
    }

    async fn try_read(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        memory: &mut impl Sink,
        waits: bool,
    ) -> Result<Moved, Error> {
        if slots.len() == 1 || !waits {
            let turn = self.turn(slots);
            let claim = turn.claim(slots.len() == 1);
            match self.read_slots(request, slots, memory, Some(claim)).await? {
                ReadOutcome::Moved(moved) if turn.was_kept().await => {
                    turn.note_done();
                    return Ok(moved);
                }
                ReadOutcome::Moved(_) => return Err(self.too_slow()),
                ReadOutcome::Refused(slot) if slots.len() == 1 => {
                    let server = self.server_at(slot);
                    return Err(unsupported(self.what("read"), server));
                }
                ReadOutcome::Refused(_) => {}
            }
        }
        let turn = self.turn(slots);
        let mut in_order = slots.to_vec();
        in_order.sort_unstable_by_key(|slot| self.server_at(*slot));
        let mut all = Moved::default();
        for slot in in_order {
            let claim = turn.claim(true);
            match self
                .read_slots(request, &[slot], memory, Some(claim))
                .await?
            {
                ReadOutcome::Moved(moved) => all.add(moved),
                ReadOutcome::Refused(slot) => {
                    return Err(unsupported(self.what("read"), self.server_at(slot)));
                }
            }
        }
        if turn.was_kept().await {
            turn.note_done();
            Ok(all)
        } else {
            Err(self.too_slow())
        }
    }

    /// Makes a change of these slots, all of it at one moment. `stage` sends one server its part.
    pub(crate) async fn change_in_order<F>(
        &self,
        doing: &str,
        slots: &[ServerSlot],
        durability: Durability,
        stage: impl Fn(ServerSlot, Claim) -> F,
    ) -> Result<u64, Error>
    where
        F: Future<Output = Result<Staged, CallError>>,
    {
        if slots.is_empty() {
            return Ok(0);
        }
        let what = |server: ServerId| format!("{} on server {server}", self.what(doing));
        let path = &self.file.0.path;
        let of_call = |server, error| Error::of_write(what(server), path, error);
        if let [slot] = slots {
            let server = self.server_at(*slot);
            let turn = self.turn(slots);
            let staged = stage(*slot, turn.claim(true)).await;
            let staged = staged.map_err(|error| of_call(server, error))?;
            if !staged.granted {
                return Err(unsupported(what(server), server));
            }
            self.file.note_acknowledged(server, &staged.stamp);
            return Ok(staged.bytes);
        }
        let mut last = None;
        for attempt in 0..OPERATION_TRIES {
            if attempt > 0 {
                sleep(OPERATION_BACKOFF * attempt).await;
            }
            let turn = self.turn(slots);
            match self.try_change(&turn, slots, &stage, &of_call).await? {
                Tried::Done(bytes) => {
                    // A server that has lost the connection, or was killed, may not have synced.
                    if durability == Durability::Power && turn.has_asked_outcome() {
                        self.file.sync().await?;
                    }
                    return Ok(bytes);
                }
                Tried::Again(error) => last = error,
            }
        }
        let server = self.server_at(slots[0]);
        let error = last.unwrap_or_else(|| {
            let what =
                format!("other operations came in between {OPERATION_TRIES} times; try again");
            CallError::Failed(Failure::new(Code::Busy, what))
        });
        // Whatever was lost: nothing has taken effect.
        Err(match Error::of_call(self.what(doing), error) {
            Error::MayHaveHappened { what, source } => Error::Refused {
                what: format!("{what} on server {server}"),
                code: Code::Unavailable,
                errno: Code::Unavailable.errno(),
                retry: RetryClass::Later,
                message: format!("{source}; nothing was changed"),
            },
            other => other,
        })
    }

    async fn try_change<F>(
        &self,
        turn: &Turn,
        slots: &[ServerSlot],
        stage: &impl Fn(ServerSlot, Claim) -> F,
        of_call: &impl Fn(ServerId, CallError) -> Error,
    ) -> Result<Tried<u64>, Error>
    where
        F: Future<Output = Result<Staged, CallError>>,
    {
        let staged = slots.iter().map(|slot| stage(*slot, turn.claim(false)));
        let (mut bytes, mut granted) = (0, Vec::new());
        let mut failed = None;
        for (slot, staged) in slots.iter().zip(join_all(staged).await) {
            match staged {
                Ok(staged) => {
                    bytes += staged.bytes;
                    granted.extend(staged.granted.then_some(*slot));
                }
                Err(error) => failed = Some((*slot, error)),
            }
        }
        if let Some((slot, error)) = failed {
            return self.give_up(self.server_at(slot), error, of_call).await;
        }
        if granted.len() < slots.len() {
            let back = granted
                .iter()
                .map(|slot| turn.settle(self.server_at(*slot), Step::GiveBack));
            let given = try_join_all(back).await;
            let claimed = match given {
                Ok(_) => turn.claim_in_turn(0).await,
                Err(error) => Err(error),
            };
            match claimed {
                Ok(true) => {}
                Ok(false) => return Ok(Tried::Again(None)),
                Err(error) => return self.give_up(turn.coordinator(), error, of_call).await,
            }
        }
        note_scheduled();
        let coordinator = turn.coordinator();
        let decided = turn.decide().await;
        let Some(stamp) = decided.map_err(|error| of_call(coordinator, error))? else {
            return Ok(Tried::Again(None));
        };
        self.file.note_acknowledged(coordinator, &stamp);
        let others = slots
            .iter()
            .filter(|slot| self.server_at(**slot) != coordinator);
        let applied = others.map(|slot| self.apply(turn, *slot, stage));
        let applied = join_all(applied).await;
        for (server, result) in applied {
            let stamp = result.map_err(|error| of_call(server, error))?;
            self.file.note_acknowledged(server, &stamp);
        }
        turn.note_done();
        Ok(Tried::Done(bytes))
    }

    /// Whether a try that changed nothing is worth another one.
    async fn give_up(
        &self,
        server: ServerId,
        error: CallError,
        of_call: &impl Fn(ServerId, CallError) -> Error,
    ) -> Result<Tried<u64>, Error> {
        if is_passing(&error) || self.file.0.volume.may_retry(&error, Repeat::Safe).await {
            return Ok(Tried::Again(Some(error)));
        }
        Err(of_call(server, error))
    }

    /// Lets a decided change take effect on one server, whatever happens to that meanwhile.
    async fn apply<F>(
        &self,
        turn: &Turn,
        slot: ServerSlot,
        stage: &impl Fn(ServerSlot, Claim) -> F,
    ) -> (ServerId, Result<Stamp, CallError>)
    where
        F: Future<Output = Result<Staged, CallError>>,
    {
        let server = self.server_at(slot);
        let deadline = Instant::now() + OPERATION_TIMEOUT;
        loop {
            let result = match turn.settle(server, Step::Commit).await {
                Ok((true, stamp)) => return (server, Ok(stamp)),
                // It ended the operation by itself, or was restarted and has lost it.
                Ok((false, _)) => match turn.has_taken_effect(server, false).await {
                    Ok(Some(stamp)) => return (server, Ok(stamp)),
                    Ok(None) => stage(slot, turn.claim(true)).await.map(drop),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                // A server that has just started may not be ready, or may have another address.
                let passes = match &error {
                    CallError::Failed(failure)
                        if matches!(failure.code(), Code::StaleMap | Code::Unavailable) =>
                    {
                        true
                    }
                    CallError::Failed(_) => is_passing(&error),
                    _ => true,
                };
                if !passes || Instant::now() >= deadline {
                    return (server, Err(error));
                }
                let _ = self.file.0.volume.may_retry(&error, Repeat::Safe).await;
                sleep(OPERATION_BACKOFF).await;
            }
        }
    }
}
