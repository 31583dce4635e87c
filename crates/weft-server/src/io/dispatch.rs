//! Hands each call to the method that serves its kind, and checks who may ask for it.

use weft_net::Served;
use weft_proto::session::Role;
use weft_proto::upkeep::{LossesRequest, ScrubStatusRequest};
use weft_proto::{Call, Code, Failure, Kind};

use super::IoService;
use super::data::SendClient;
use super::job::walk::Callers;
use crate::failure::{self, unsupported};

impl IoService {
    pub(crate) async fn serve(&self, call: Served) {
        if let Err(failure) = self.admission.check(call.kind, self.server).await {
            return call.reply.fail(&failure);
        }
        if let Err(failure) = self.check_role(&call).await {
            return call.reply.fail(&failure);
        }
        match call.kind {
            Kind::Read => self.read(call).await,
            Kind::Write => self.write(call).await,
            // Boxed: otherwise the future of every small call is as large as these rare ones.
            Kind::CollectiveRead => Box::pin(self.collective_read(call)).await,
            Kind::CollectiveWrite => Box::pin(self.collective_write(call)).await,
            Kind::JoinedRead => Box::pin(self.joined_read(call)).await,
            Kind::JoinedWrite => Box::pin(self.joined_write(call)).await,
            Kind::CopyRange => {
                let budget = self.clients.read_budget(call.peer.client);
                let copy = async |r| self.copy_range(r, &budget).await;
                Box::pin(self.change(call, copy)).await;
            }
            Kind::SendRange => {
                let budget = self.clients.read_budget(call.peer.client);
                let client = SendClient::new(budget, call.reply.caller());
                Box::pin(answer(call, async |r| self.send_range(r, &client).await)).await;
            }
            Kind::TakeOffset => {
                Box::pin(self.change(call, async |r| self.take_offset(r).await)).await;
            }
            Kind::Claim => {
                let peer = call.peer.clone();
                answer(call, async |r| self.claim(r, &peer).await).await;
            }
            Kind::Settle => {
                let peer = call.peer.clone();
                self.change(call, async |r| self.settle(r, &peer).await)
                    .await;
            }
            Kind::NameChunks => {
                let peer = call.peer.clone();
                Box::pin(self.change(call, async |r| self.name_chunks(r, &peer).await)).await;
            }
            Kind::ReadNames => {
                let (peer, callers) = (call.peer.clone(), Callers::of([call.reply.caller()]));
                let names = async |r| self.read_names(r, &peer, &callers).await;
                Box::pin(answer(call, names)).await;
            }
            Kind::Callbacks => Box::pin(self.callbacks(call)).await,
            Kind::Beacon
            | Kind::Apply
            | Kind::ReplicaFiles
            | Kind::ReplicaParts
            | Kind::ReplicaRead
            | Kind::ReplicaScrub
            | Kind::ConfirmRead => {
                Box::pin(self.serve_replica(call)).await;
            }
            Kind::Outcome => self.change(call, async |r| self.outcome(r).await).await,
            Kind::Pointer => self.change(call, async |r| self.pointer(r).await).await,
            Kind::Sync => answer(call, async |r| self.sync(r).await).await,
            Kind::CellStatus => answer(call, async |r| self.cell_status(r).await).await,
            Kind::CreateFork => self.change(call, async |r| self.create_fork(r).await).await,
            Kind::RemoveFork => self.change(call, async |r| self.remove_fork(r).await).await,
            Kind::DataRuns => answer(call, async |r| self.data_runs(r).await).await,
            Kind::Advise => answer(call, async |r| self.advise(r).await).await,
            Kind::ReadPiece | Kind::CodeCells | Kind::Clean | Kind::Trim | Kind::Disks => {
                Box::pin(self.serve_upkeep(call)).await;
            }
            Kind::Losses => answer(call, async |_: LossesRequest| self.losses()).await,
            Kind::AcceptLosses => answer(call, async |r| self.accept_losses(r).await).await,
            Kind::Scrub => answer(call, async |r| Ok(self.scrub(r))).await,
            Kind::ScrubStatus => {
                let status = async |_: ScrubStatusRequest| Ok(self.scrub_status());
                answer(call, status).await;
            }
            Kind::ListCells => answer(call, async |r| self.list_cells(r).await).await,
            Kind::ListKept => answer(call, async |r| self.list_kept(r)).await,
            Kind::WhichDeleted => answer(call, async |r| Ok(self.which_deleted(&r))).await,
            Kind::CheckStore => answer(call, async |r| self.check_store(r).await).await,
            Kind::ClearRange => {
                let peer = call.peer.clone();
                self.change(call, async |r| self.clear_range(r, &peer).await)
                    .await;
            }
            Kind::ExtendCells => {
                self.change(call, async |r| self.extend_cells(r).await)
                    .await;
            }
            Kind::TruncateCells => {
                answer_service(call, async |r| self.truncate_cells(r).await).await;
            }
            Kind::Checkpoint => answer_service(call, async |r| self.checkpoint(r).await).await,
            Kind::LimitGrowth => answer_service(call, async |r| self.limit_growth(r).await).await,
            Kind::Rollback => answer_service(call, async |r| self.rollback(r).await).await,
            Kind::DropCheckpoint => {
                answer_service(call, async |r| self.drop_checkpoint(r).await).await;
            }
            Kind::ForceCaution => answer_service(call, async |r| self.force_caution(r).await).await,
            Kind::DeleteCells => answer_service(call, async |r| self.delete_cells(r).await).await,
            _ => unsupported(call, "an I/O server"),
        }
    }

    /// Refuses what this replica of the server must not do.
    async fn check_role(&self, call: &Served) -> Result<(), Failure> {
        match (call.kind, self.replicas()) {
            // They describe this process alone; a read looks for itself: a backup answers some.
            (Kind::Disks | Kind::ScrubStatus | Kind::Losses | Kind::Read, _) => Ok(()),
            (
                Kind::Beacon
                | Kind::Apply
                | Kind::ReplicaFiles
                | Kind::ReplicaParts
                | Kind::ReplicaRead
                | Kind::ReplicaScrub
                | Kind::ConfirmRead,
                _,
            ) => {
                if call.peer.role == Role::IoServer {
                    return Ok(());
                }
                let what = "replicas of a server answer this to one another only";
                Err(Failure::new(Code::Permission, what))
            }
            (_, Some(replicas)) => replicas.admit().await,
            (_, None) => Ok(()),
        }
    }

    /// Serves a call about parity, or about space that nothing needs.
    async fn serve_upkeep(&self, call: Served) {
        match call.kind {
            Kind::ReadPiece => answer(call, async |r| self.read_piece(r).await).await,
            Kind::CodeCells => answer(call, async |r| self.code_cells(r).await).await,
            Kind::Trim => answer(call, async |r| self.trim(r).await).await,
            Kind::Disks => answer(call, async |r| Ok(self.disks(r))).await,
            _ => answer(call, async |r| self.clean(r).await).await,
        }
    }

    /// Serves a call of another replica of the server.
    async fn serve_replica(&self, call: Served) {
        match call.kind {
            Kind::Beacon => answer(call, async |r| self.beacon(&r)).await,
            Kind::ReplicaFiles => answer(call, async |r| self.replica_files(r).await).await,
            Kind::ReplicaParts => answer(call, async |r| self.replica_parts(r).await).await,
            Kind::ReplicaRead => answer(call, async |r| self.replica_read(r).await).await,
            Kind::ReplicaScrub => answer(call, async |r| self.replica_scrub(r).await).await,
            Kind::ConfirmRead => answer(call, async |r| self.confirm_read(r).await).await,
            _ => self.apply(call).await,
        }
    }

    /// Serves a call without payload that changes something: its reply carries the position of the
    /// change.
    async fn change<C: Call>(
        &self,
        call: Served,
        work: impl AsyncFnOnce(C) -> Result<C::Reply, Failure>,
    ) {
        let request = match call.request::<C>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        match work(request).await {
            Ok(reply) => call.reply.done_at(&reply, &self.stamp()),
            Err(failure) => call.reply.fail(&failure),
        }
    }
}

/// Serves a call without payload.
async fn answer<C: Call>(call: Served, work: impl AsyncFnOnce(C) -> Result<C::Reply, Failure>) {
    let request = match call.request::<C>() {
        Ok(request) => request,
        Err(e) => return call.reply.fail(&failure::of_frame(&e)),
    };
    match work(request).await {
        Ok(reply) => call.reply.done(&reply),
        Err(failure) => call.reply.fail(&failure),
    }
}

/// The same for a call that only the metadata service may make.
async fn answer_service<C: Call>(
    call: Served,
    work: impl AsyncFnOnce(C) -> Result<C::Reply, Failure>,
) {
    if call.peer.role == Role::MetaService {
        return answer(call, work).await;
    }
    let what = format!("{} comes from the metadata service only", call.kind.name());
    call.reply.fail(&Failure::new(Code::Permission, what));
}
