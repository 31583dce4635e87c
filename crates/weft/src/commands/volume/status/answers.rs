//! The state of every server, from the servers themselves: what the metadata service knows is
//! seconds old.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use weft_client::{Error, Server, ServerId, ServerMapReply, ServerState, Volume};
use weft_proto::Code;

use super::rows::{AddressedRow, DiskRow, LossRow};

use crate::limits::STATUS_TIMEOUT;

/// A server's answer.
pub(super) struct ServerAnswer {
    pub state: &'static str,
    pub disks: Option<Vec<DiskRow>>,
    pub losses: Option<LossRow>,
    pub addressed: Option<AddressedRow>,
}

pub(super) const UP: &str = "up";
pub(super) const DOWN: &str = "down";
pub(super) const REFUSED: &str = "refused: older copy";

/// Asks all servers of the map at once.
pub(super) async fn all(volume: &Volume, map: &ServerMapReply) -> BTreeMap<u32, ServerAnswer> {
    let answers = map.servers.iter().map(async |server| {
        let answers = tokio::time::timeout(STATUS_TIMEOUT, one(volume, server)).await;
        let silent = || ServerAnswer {
            state: "does not answer",
            disks: None,
            losses: None,
            addressed: None,
        };
        (server.id, answers.unwrap_or_else(|_| silent()))
    });
    join_all(answers).await.into_iter().collect()
}

async fn one(volume: &Volume, server: &Server) -> ServerAnswer {
    let id = ServerId(server.id);
    let disks = match volume.disks(id).await {
        Ok(disks) => disks.disks.into_iter().map(DiskRow::of).collect(),
        Err(error) => {
            return ServerAnswer {
                state: without_answer(server, &error),
                disks: None,
                losses: None,
                addressed: None,
            };
        }
    };
    let losses = volume.losses(id).await;
    let addressed = volume.clean(id, false).await;
    let refused = matches!(&losses, Err(error) if error.code() == Code::RolledBack);
    ServerAnswer {
        state: if refused { REFUSED } else { UP },
        disks: Some(disks),
        losses: losses.ok().map(LossRow::of),
        addressed: addressed.ok().and_then(AddressedRow::of),
    }
}

fn without_answer(server: &Server, error: &Error) -> &'static str {
    let known = ServerState::try_from(server.state).unwrap_or(ServerState::Unknown);
    match error {
        _ if known == ServerState::Unknown => "never seen",
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => DOWN,
        _ => "does not answer",
    }
}
