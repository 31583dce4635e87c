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
    asked_outcome: AtomicBool,
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
            ended: Vec::new(),
        }
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
    /// `abort`: it is the coordinator, and never
    /// will if it has not.
    pub(crate) async fn has_taken_effect(
        &self,
        server: ServerId,
        abort: bool,
    ) -> Result<Option<Stamp>, CallError> {
        self.asked_outcome.store(true, Ordering::Relaxed);
        let connection = self.volume.server_connection(server).await?;
        let request = OutcomeRequest {
            operation: self.number,
            abort,
        };
        let (reply, stamp) = connection.call_stamped(&request).await?;
        Ok(reply.committed.then_some(stamp))
    }

    /// Whether a commit was not answered, so that the outcome was asked for.
    pub(crate) fn has_asked_outcome(&self) -> bool {
        self.asked_outcome.load(Ordering::Relaxed)
    }

    /// Has the coordinator decide. `None`: the operation is not decided and never will be.
    pub(crate) async fn decide(&self) -> Result<Option<Stamp>, CallError> {
        let lost = match self.settle(self.coordinator(), Step::Commit).await {
            Ok((true, stamp)) => return Ok(Some(stamp)),
            Ok((false, _)) => return Ok(None),
            Err(error @ CallError::Failed(_)) => return Err(error),
            Err(lost) => lost,
        };
        let deadline = Instant::now() + OPERATION_TIMEOUT;
        loop {
            match self.has_taken_effect(self.coordinator(), true).await {
                Ok(outcome) => return Ok(outcome),
                Err(_) if Instant::now() >= deadline => return Err(lost),
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
            runtime.spawn(async move {
                let ends = servers
                    .iter()
                    .map(|server| end(&volume, *server, number, Vec::new()));
                join_all(ends).await;
            });
        } else if volume.shared.ended_operations.add(&servers, number) {
            runtime.spawn(async move {
                sleep(END_DELAY).await;
                let ended = &volume.shared.ended_operations;
                let ends = ended.servers().into_iter().map(async |server| {
                    let along = ended.take(server);
                    end(&volume, server, 0, along.operations()).await;
                    along.delivered();
                });
                join_all(ends).await;
            });
        }
    }
}

/// Ends operations. A server that is lost ends what it knows of them by itself.
async fn end(volume: &Volume, server: ServerId, operation: u64, ended: Vec<u64>) {
    let Ok(connection) = volume.server_connection(server).await else {
        return;
    };
    let request = SettleRequest {
        operation,
        step: Step::End.into(),
        ended,
    };
    let _ = connection.call(&request).await;
}
