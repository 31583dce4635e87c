//! Hands each call to the method that serves its kind.

use std::sync::Arc;

use weft_net::Served;
use weft_proto::meta::{
    ListClientsReply, ListClientsRequest, MakeDirectoryReply, MakeDirectoryRequest, ServerMapReply,
    ServerMapRequest, StatReply,
};
use weft_proto::session::Role;
use weft_proto::{Code, Failure, Kind};

use super::MetaService;
use crate::failure::unsupported;

impl MetaService {
    pub(crate) async fn serve(self: Arc<Self>, call: Served) {
        let stale = call.kind == Kind::Reassert && !self.sessions.note_reassert(&call.peer);
        if stale || self.sessions.is_superseded(&call.peer) {
            let reason = "its client has replaced this connection by a later one";
            return call.reply.fail(&Failure::new(Code::Cancelled, reason));
        }
        if let Err(failure) = self.rollback.check(call.kind) {
            return call.reply.fail(&failure);
        }
        self.answer_kind(call).await;
    }

    async fn answer_kind(self: Arc<Self>, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let now = self.env.clock.now();
        match call.kind {
            Kind::Attach => self.attach(call).await,
            Kind::Report => self.report(call).await,
            Kind::Detach => self.detach(call).await,
            Kind::Delegate => {
                self.answer(call, |r| n.delegate(now, client, r)).await;
                // What it took back may be waited for.
                self.watchers.holder_answered();
            }
            Kind::ChangeNames => self.change_names(call).await,
            Kind::Reassert => self.reassert(call).await,
            Kind::SyncNamespace => self.sync_namespace(call).await,
            Kind::Stat => self.answer(call, |r| n.stat(r)).await,
            Kind::SetAttributes => self.answer(call, |r| n.set_attributes(now, r)).await,
            Kind::MakeDirectory => {
                let make = |r: &MakeDirectoryRequest| {
                    let StatReply { attributes } = n.make_directory(now, r)?;
                    let leased = r.lease && n.lease(client, attributes.id)?;
                    Ok(MakeDirectoryReply { attributes, leased })
                };
                self.answer(call, make).await;
            }
            Kind::MakeLink => self.answer(call, |r| n.make_link(now, r)).await,
            Kind::MakeNode => self.answer(call, |r| n.make_node(now, r)).await,
            Kind::Link => self.answer(call, |r| n.link(now, r)).await,
            Kind::Unlink => self.answer(call, |r| n.unlink(now, r)).await,
            Kind::RemoveDirectory => self.answer(call, |r| n.remove_directory(now, r)).await,
            Kind::Rename => self.answer(call, |r| n.rename(now, r)).await,
            Kind::List => self.answer(call, |r| n.list(r)).await,
            Kind::ReadLink => self.answer(call, |r| n.read_link(r)).await,
            Kind::GetXattr => self.answer(call, |r| n.get_xattr(r)).await,
            Kind::SetXattr => self.answer(call, |r| n.set_xattr(now, r)).await,
            Kind::ListXattr => self.answer(call, |r| n.list_xattr(r)).await,
            Kind::RemoveXattr => self.answer(call, |r| n.remove_xattr(now, r)).await,
            Kind::ServerMap => {
                let map = |_: &ServerMapRequest| {
                    let rolled_back = self.rollback.is_found();
                    Ok(ServerMapReply {
                        rolled_back,
                        ..n.server_map(now)?
                    })
                };
                self.answer(call, map).await;
            }
            Kind::ListClients => {
                let clients = |_: &ListClientsRequest| {
                    Ok(ListClientsReply {
                        clients: self.sessions.others(client),
                    })
                };
                self.answer(call, clients).await;
            }
            Kind::Heartbeat if call.peer.role == Role::IoServer => self.heartbeat(call).await,
            Kind::ChangeReplicas if call.peer.role == Role::IoServer => {
                self.change_replicas(call).await;
            }
            Kind::JoinServer => self.join_server(call).await,
            Kind::LeaveServer => self.leave_server(call).await,
            Kind::AcceptRollback => self.accept_rollback(call).await,
            Kind::Truncate => self.truncate(call).await,
            Kind::MakeCheckpoint => self.make_checkpoint(call).await,
            Kind::RemoveCheckpoint => self.remove_checkpoint(call).await,
            Kind::RollBack => self.roll_back(call).await,
            Kind::ListParity => self.answer(call, |r| n.list_parity(r)).await,
            Kind::BeginCoding => self.begin_coding(call).await,
            Kind::EndCoding => self.answer(call, |r| n.end_coding(r)).await,
            Kind::FindCoding => self.answer(call, |r| n.find_coding(r)).await,
            Kind::ListCheckpoints => self.answer(call, |r| n.list_checkpoints(r)).await,
            Kind::ListFileCheckpoints => self.answer(call, |r| n.list_file_checkpoints(r)).await,
            Kind::CheckNamespace => self.check_namespace(call).await,
            Kind::ListFiles => self.answer(call, |r| n.list_files(r)).await,
            Kind::RepairNamespace => self.repair_namespace(call).await,
            Kind::AdoptFile => self.adopt_file(call).await,
            Kind::NamesOf => self.names_of(call).await,
            Kind::SetQuota => self.set_quota(call).await,
            Kind::ListQuotas => self.answer(call, |r| n.list_quotas(r)).await,
            Kind::QuotasOf => self.answer(call, |r| n.quotas_of(r)).await,
            Kind::StoreInline => self.store_inline(call).await,
            Kind::Spill => self.spill_for(call).await,
            Kind::Lock => self.lock(call).await,
            Kind::TestLock => self.test_lock(call),
            Kind::Watch => self.watch(call).await,
            Kind::Append => self.append(call).await,
            _ => unsupported(call, "the metadata service"),
        }
    }
}
