//! The calls of clients and servers about operations with a claim.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};
use weft_layout::{FileId, ServerId};
use weft_net::{CallError, Peer};
use weft_proto::order::{
    Claim as ClaimMessage, ClaimReply, ClaimRequest, ForceCautionReply, ForceCautionRequest,
    OutcomeReply, OutcomeRequest, SettleReply, SettleRequest, Step,
};
use weft_proto::{Code, Failure};

use super::extents::Extents;
use super::operations::{Commit, Effect, Granted, Operation};
use super::schedule::Mode;
use crate::failure;
use crate::io::IoService;
use crate::io::job::file_id;
use crate::limits::{
    CHECKPOINT_WRITERS_TIMEOUT, CLAIM_CHECK_INTERVAL, CLAIM_PATIENCE, OUTCOME_INTERVAL,
    OUTCOME_TIMEOUT,
};

/// An operation that asks for a claim on a file.
pub(in crate::io) struct Asking {
    pub(in crate::io) client: u64,
    pub(in crate::io) claim: ClaimMessage,
    pub(in crate::io) file: FileId,
    pub(in crate::io) mode: Mode,
    pub(in crate::io) extents: Extents,
}

impl IoService {
    /// Claims a place for an operation that lives in its call. It ends with the claim.
    pub(in crate::io) async fn claim_alone(&self, asking: &Asking) -> Result<Granted, Failure> {
        check(&asking.claim)?;
        self.end_all(&asking.claim.ended, asking.client).await;
        let id = asking.claim.operation;
        let (file, mode, extents) = (asking.file, asking.mode, &asking.extents);
        let gated = mode == Mode::Exclusive;
        self.wait_for_claim(id, file, mode, extents, gated).await
    }

    /// Registers an operation that other servers take part in, and claims its place. Returns
    /// whether the claim was granted.
    pub(in crate::io) async fn begin(
        &self,
        asking: Asking,
        effect: Effect,
    ) -> Result<bool, Failure> {
        check(&asking.claim)?;
        let Asking {
            client,
            claim,
            file,
            mode,
            extents,
        } = asking;
        self.end_all(&claim.ended, client).await;
        let (id, coordinator) = (claim.operation, claim.coordinator);
        let operation = Operation::new(id, client, coordinator, file, mode, extents, effect);
        let connected = || self.clients.is_connected(client);
        let operation = self.operations.add(operation, connected)?;
        let granted = self.claim_for(&operation, claim.wait).await?;
        self.tell_of_claim(&operation, granted).await;
        Ok(granted)
    }

    /// Tells the sharers of a change that will take effect in its turn: while it has its claim
    /// nobody gets names in order.
    async fn tell_of_claim(&self, operation: &Operation, granted: bool) {
        if granted && operation.mode == Mode::Exclusive {
            self.tell_of_claimed(operation.file, &operation.extents)
                .await;
        }
    }

    /// The operation of this number, if it is in progress and this client's.
    fn operation_of(&self, id: u64, peer: &Peer) -> Option<Arc<Operation>> {
        let operation = self.operations.get(id);
        operation.filter(|operation| operation.client == peer.client)
    }

    async fn claim_for(&self, operation: &Arc<Operation>, wait: bool) -> Result<bool, Failure> {
        let (id, file) = (operation.id, operation.file);
        let (mode, extents) = (operation.mode, &operation.extents);
        let gated = operation.gated;
        let granted = if wait {
            // A claim that it still has would be in its own way.
            operation.give_back().await;
            let granted = self.wait_for_claim(id, file, mode, extents, gated);
            Some(granted.await?)
        } else {
            self.try_claim(id, file, mode, extents, gated)
        };
        let Some(granted) = granted else {
            if operation.mode == Mode::Exclusive {
                self.announce_claimed(file, extents);
            }
            return Ok(false);
        };
        if operation.grant(granted).await {
            return Ok(true);
        }
        Err(Failure::new(Code::Cancelled, "the operation has ended"))
    }

    fn try_claim(
        &self,
        id: u64,
        file: FileId,
        mode: Mode,
        extents: &Extents,
        gated: bool,
    ) -> Option<Granted> {
        let claim = self.schedules.try_claim(file, id, mode, extents)?;
        let gate = if gated {
            Some(self.gates.try_enter(file)?)
        } else {
            None
        };
        Some(Granted { claim, _gate: gate })
    }

    async fn wait_for_claim(
        &self,
        id: u64,
        file: FileId,
        mode: Mode,
        extents: &Extents,
        gated: bool,
    ) -> Result<Granted, Failure> {
        let mut claim = self.schedules.claim(file, id, mode, extents)?;
        let began = Instant::now();
        let mut announced = false;
        while timeout(CLAIM_CHECK_INTERVAL, claim.granted())
            .await
            .is_err()
        {
            if mode == Mode::Exclusive && !std::mem::replace(&mut announced, true) {
                self.announce_claimed(file, extents);
            }
            // An operation on several servers waits for a silent one twice as long in all, not on
            // each of them.
            let age = if began.elapsed() >= CLAIM_PATIENCE {
                CLAIM_PATIENCE
            } else {
                2 * CLAIM_PATIENCE
            };
            for silent in claim.revoke_older(age) {
                if let Some(silent) = self.operations.get(silent) {
                    tracing::warn!(client = silent.client, operation = %format_args!("{:016x}", silent.id), "an operation is ended: its client is silent, and another one waits");
                    self.resolve(&silent).await;
                }
            }
        }
        let gate = if gated {
            Some(self.gates.enter(file).await)
        } else {
            None
        };
        Ok(Granted { claim, _gate: gate })
    }

    /// A claim for an operation whose bytes are staged, or of a whole file.
    pub(in crate::io) async fn claim(
        &self,
        request: ClaimRequest,
        peer: &Peer,
    ) -> Result<ClaimReply, Failure> {
        let claim = request.claim;
        if request.file != 0 {
            let asking = Asking {
                client: peer.client,
                claim,
                file: file_id(request.file)?,
                mode: Mode::Exclusive,
                extents: Extents::Whole,
            };
            let granted = self.begin(asking, Effect::Nothing).await?;
            return Ok(ClaimReply { granted });
        }
        self.end_all(&claim.ended, peer.client).await;
        let granted = match self.operation_of(claim.operation, peer) {
            Some(operation) => {
                let granted = self.claim_for(&operation, claim.wait).await?;
                self.tell_of_claim(&operation, granted).await;
                granted
            }
            None => false,
        };
        Ok(ClaimReply { granted })
    }

    pub(in crate::io) async fn settle(
        &self,
        request: SettleRequest,
        peer: &Peer,
    ) -> Result<SettleReply, Failure> {
        let step = Step::try_from(request.step);
        let step = step.map_err(|_| failure::invalid("unknown step of an operation"))?;
        self.end_all(&request.ended, peer.client).await;
        if request.operation == 0 {
            return Ok(SettleReply { known: true });
        }
        let operation = if step == Step::End {
            let operation = self.operations.get_to_end(request.operation);
            operation.filter(|operation| operation.client == peer.client)
        } else {
            self.operation_of(request.operation, peer)
        };
        let Some(operation) = operation else {
            return Ok(SettleReply { known: false });
        };
        let known = match step {
            Step::End => {
                self.end(&operation).await;
                true
            }
            Step::GiveBack => {
                operation.give_back().await;
                true
            }
            Step::Commit => {
                let commit = self
                    .operations
                    .commit(operation, &self.store, self.now(), false);
                commit.await.map_err(|e| failure::of_store(&e))? == Commit::Done
            }
        };
        Ok(SettleReply { known })
    }

    pub(in crate::io) async fn outcome(
        &self,
        request: OutcomeRequest,
    ) -> Result<OutcomeReply, Failure> {
        let operation = if request.abort {
            self.operations.get_to_end(request.operation)
        } else {
            self.operations.get(request.operation)
        };
        if let Some(operation) = operation {
            self.resolve(&operation).await;
        }
        let known = self
            .operations
            .has_taken_effect(&self.store, request.operation);
        let committed = known.await.map_err(|e| failure::of_store(&e))?;
        Ok(OutcomeReply { committed })
    }

    pub(in crate::io) async fn force_caution(
        &self,
        request: ForceCautionRequest,
    ) -> Result<ForceCautionReply, Failure> {
        let files: Result<Vec<FileId>, Failure> =
            request.files.iter().map(|file| file_id(*file)).collect();
        let new = self.forced.set(&files?, request.forced, Instant::now());
        // Reckless writes that are under way end first; those that take longer are let be.
        let deadline = Instant::now() + CHECKPOINT_WRITERS_TIMEOUT;
        let _ = self.gates.close(&new, deadline).await;
        Ok(ForceCautionReply {})
    }

    /// Ends an operation. Of a client that gives up its coordinator may have decided.
    async fn end(&self, operation: &Arc<Operation>) {
        if operation.gated && !operation.is_committed().await {
            self.resolve(operation).await;
        } else {
            self.operations.end(operation).await;
        }
    }

    /// Ends operations of a client.
    async fn end_all(&self, ended: &[u64], client: u64) {
        for id in ended {
            if let Some(operation) = self.operations.get(*id)
                && operation.client == client
            {
                self.end(&operation).await;
            }
        }
    }

    /// Ends the operations of a client that has left.
    pub(in crate::io) async fn resolve_client(&self, client: u64) {
        let operations = self.operations.of_client(client);
        let resolved = operations.iter().map(|operation| self.resolve(operation));
        futures_util::future::join_all(resolved).await;
    }

    /// Ends an operation whose client is gone or silent: it takes effect if its coordinator has
    /// decided so.
    async fn resolve(&self, operation: &Arc<Operation>) {
        if operation.gated
            && !operation.is_committed().await
            && operation.coordinator != self.server
            && self.was_decided(operation).await
        {
            let commit = self
                .operations
                .commit(operation.clone(), &self.store, self.now(), true);
            let failed = match commit.await {
                Ok(Commit::Done) => None,
                Ok(Commit::Unknown) => Some("it has no claim".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = failed {
                tracing::error!(operation = %format_args!("{:016x}", operation.id), %error, "a decided operation could not take effect on this server");
            }
        }
        self.operations.end(operation).await;
    }

    async fn was_decided(&self, operation: &Operation) -> bool {
        let deadline = Instant::now() + OUTCOME_TIMEOUT;
        let id = operation.id;
        loop {
            match self.ask_outcome(operation).await {
                Ok(reply) => return reply.committed,
                Err(error) if Instant::now() >= deadline => {
                    tracing::error!(operation = %format_args!("{id:016x}"), coordinator = operation.coordinator, error = %error.message, "an operation of a client that left is discarded here: its coordinator cannot be asked");
                    return false;
                }
                Err(_) => sleep(OUTCOME_INTERVAL).await,
            }
        }
    }

    async fn ask_outcome(&self, operation: &Operation) -> Result<OutcomeReply, Failure> {
        let coordinator = ServerId(operation.coordinator);
        let connection = self.peers.connection(coordinator).await?;
        let request = OutcomeRequest {
            operation: operation.id,
            abort: true,
        };
        let asked = timeout(OUTCOME_TIMEOUT, connection.call(&request)).await;
        match asked {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(CallError::Failed(failure))) => Err(failure),
            Ok(Err(error)) => Err(Failure::new(Code::Unavailable, error.to_string())),
            Err(_) => Err(Failure::new(Code::Unavailable, "no answer")),
        }
    }
}

fn check(claim: &ClaimMessage) -> Result<(), Failure> {
    if claim.operation == 0 {
        return Err(failure::invalid("an operation's number is not 0"));
    }
    if claim.alone && !claim.wait {
        return Err(failure::invalid(
            "an operation that is alone waits for its turn",
        ));
    }
    Ok(())
}
