//! The claims of an operation on its servers (`docs/design/0031-order.md`).

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use weft_layout::ServerId;
use weft_net::CallError;
use weft_proto::order::{Claim, ClaimRequest, OutcomeRequest, SettleRequest, Step};
use weft_proto::stamp::Stamp;

use crate::Volume;
use crate::limits::{CLAIM_VALID, END_DELAY, OPERATION_BACKOFF, OPERATION_TIMEOUT};
use crate::volume::Repeat;

/// The claims of one operation. Dropped, they end everywhere: at once, and what is staged and not
/// decided is discarded; or, if the operation is done, soon.
pub(crate) struct Turn {
    volume: Volume,
    number: u64,
    servers: Vec<ServerId>,
    /// It lives in one call, which ends its claim.
    alone: bool,
    began: Instant,
    done: AtomicBool,
    /// A server was asked to commit its part.
    committing: AtomicBool,
    asked_outcome: AtomicBool,
}

/// What a server said to a commit.
pub(crate) struct Committed {
    pub(crate) server: ServerId,
    /// What it says of its changes; `None`: its part has not taken effect yet.
    pub(crate) stamp: Option<Stamp>,
}

impl Turn {
    /// An operation on these servers. `alone`: on one server, and in one call.
    pub(crate) fn begin(volume: &Volume, mut servers: Vec<ServerId>, alone: bool) -> Turn {
        servers.sort_unstable();
        Turn {
            volume: volume.clone(),
            number: volume.shared.env.random_u64() | 1,
            servers,
            alone,
            began: Instant::now(),
            done: AtomicBool::new(false),
            committing: AtomicBool::new(false),
            asked_outcome: AtomicBool::new(false),
        }
    }

    pub(crate) fn coordinator(&self) -> ServerId {
        self.servers[0]
    }

    pub(crate) fn claim(&self, wait: bool) -> Claim {
        Claim {
            operation: self.number,
            coordinator: self.coordinator().0,
            alone: self.alone,
            wait,
            ..Claim::default()
        }
    }

    /// The claim of a change, which servers decide among themselves if the client is gone.
    pub(crate) fn claim_to_change(&self, wait: bool) -> Claim {
        Claim {
            servers: self.servers_if_several(),
            ..self.claim(wait)
        }
    }

    fn servers_if_several(&self) -> Vec<u32> {
        let several = if self.alone { &[] } else { &self.servers[..] };
        several.iter().map(|server| server.0).collect()
    }

    /// It has taken effect on all of its servers, or has read all of its bytes.
    pub(crate) fn note_done(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// Whether the claims were held until now. No message until they may have been taken away; then
    /// they end.
    pub(crate) async fn was_kept(&self) -> bool {
        if self.alone || self.began.elapsed() < CLAIM_VALID {
            return true;
        }
        let ends = self
            .servers
            .iter()
            .map(|server| self.settle(*server, Step::End));
        let known = join_all(ends).await;
        known.iter().all(|end| matches!(end, Ok((true, _))))
    }

    pub(crate) async fn settle(
        &self,
        server: ServerId,
        step: Step,
    ) -> Result<(bool, Stamp), CallError> {
        let connection = self.volume.server_connection(server).await?;
        let along = self.volume.shared.ended_operations.take(server);
        let request = SettleRequest {
            operation: self.number,
            step: step.into(),
            ended: along.operations(),
        };
        let settled = connection.call_stamped(&request).await;
        along.delivered();
        let (reply, stamp) = settled?;
        Ok((reply.known, stamp))
    }

    /// Claims what is staged, or a whole file, one server after the other. False if a server does
    /// not know the operation any more.
    pub(crate) async fn claim_in_turn(&self, file: u64) -> Result<bool, CallError> {
        for server in &self.servers {
            let connection = self.volume.server_connection(*server).await?;
            let along = self.volume.shared.ended_operations.take(*server);
            let claim = Claim {
                ended: along.operations(),
                ..self.claim(true)
            };
            let reply = connection.call(&ClaimRequest { claim, file }).await;
            along.delivered();
            let reply = reply?;
            if !reply.granted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a server has let the operation take effect, and then what it says of its changes.
    pub(crate) async fn has_taken_effect(
        &self,
        server: ServerId,
    ) -> Result<Option<Stamp>, CallError> {
        self.asked_outcome.store(true, Ordering::Relaxed);
        let connection = self.volume.server_connection(server).await?;
        let request = OutcomeRequest {
            operation: self.number,
            ..OutcomeRequest::default()
        };
        let (reply, stamp) = connection.call_stamped(&request).await?;
        Ok(reply.committed.then_some(stamp))
    }

    /// Whether the operation has taken effect on any server. If not, it never will.
    async fn was_decided(&self) -> Result<bool, CallError> {
        self.asked_outcome.store(true, Ordering::Relaxed);
        let connection = self.volume.server_connection(self.coordinator()).await?;
        let request = OutcomeRequest {
            operation: self.number,
            abort: true,
            servers: self.servers_if_several(),
            hold: false,
        };
        let reply = connection.call(&request).await?;
        Ok(reply.committed || reply.decided)
    }

    /// Whether a commit was not answered, so that the outcome was asked for.
    pub(crate) fn has_asked_outcome(&self) -> bool {
        self.asked_outcome.load(Ordering::Relaxed)
    }

    /// Has all servers commit their parts, at once. The first one that does so decides the
    /// operation. `None`: none has, and none ever will.
    pub(crate) async fn commit(&self) -> Result<Option<Vec<Committed>>, CallError> {
        self.committing.store(true, Ordering::Relaxed);
        let asked = self.servers.iter();
        let asked = asked.map(|server| self.settle(*server, Step::Commit));
        let (mut commits, mut failed) = (Vec::new(), None);
        for (server, answer) in self.servers.iter().zip(join_all(asked).await) {
            let stamp = match answer {
                Ok((known, stamp)) => known.then_some(stamp),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            };
            commits.push(Committed {
                server: *server,
                stamp,
            });
        }
        if commits.iter().any(|commit| commit.stamp.is_some()) {
            return Ok(Some(commits));
        }
        let Some(failed) = failed else {
            return Ok(None);
        };
        let deadline = Instant::now() + OPERATION_TIMEOUT;
        loop {
            match self.was_decided().await {
                Ok(true) => return Ok(Some(commits)),
                Ok(false) if matches!(failed, CallError::Failed(_)) => return Err(failed),
                Ok(false) => return Ok(None),
                Err(_) if Instant::now() >= deadline => return Err(failed),
                Err(error) => {
                    // The server may have moved.
                    let _ = self.volume.may_retry(&error, Repeat::Safe).await;
                    sleep(OPERATION_BACKOFF).await;
                }
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.alone {
            return;
        }
        let (volume, number) = (self.volume.clone(), self.number);
        let servers = std::mem::take(&mut self.servers);
        let runtime = &self.volume.shared.runtime;
        if !self.done.load(Ordering::Relaxed) {
            let step = if self.committing.load(Ordering::Relaxed) {
                Step::End
            } else {
                Step::Discard
            };
            runtime.spawn(async move {
                let ends = servers
                    .iter()
                    .map(|server| end(&volume, *server, (number, step), Vec::new()));
                join_all(ends).await;
            });
        } else if volume.shared.ended_operations.add(&servers, number) {
            runtime.spawn(async move {
                sleep(END_DELAY).await;
                let ended = &volume.shared.ended_operations;
                let ends = ended.servers().into_iter().map(async |server| {
                    let along = ended.take(server);
                    end(&volume, server, (0, Step::End), along.operations()).await;
                    along.delivered();
                });
                join_all(ends).await;
            });
        }
    }
}

/// Ends operations. A server that is lost ends what it knows of them by itself.
async fn end(volume: &Volume, server: ServerId, (operation, step): (u64, Step), ended: Vec<u64>) {
    let Ok(connection) = volume.server_connection(server).await else {
        return;
    };
    let request = SettleRequest {
        operation,
        step: step.into(),
        ended,
    };
    let _ = connection.call(&request).await;
}
