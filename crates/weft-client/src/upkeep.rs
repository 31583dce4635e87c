//! The upkeep of servers: their scrubs and disks.

use weft_layout::{FileId, ServerId};
use weft_proto::addressed::CleanRequest;
use weft_proto::meta::{AcceptRollbackRequest, LeaveServerRequest};
use weft_proto::parity::FindCodingRequest;

use crate::volume::Repeat;
use crate::{Error, Volume};

pub use weft_proto::addressed::CleanReply;
pub use weft_proto::meta::{JoinServerReply, JoinServerRequest};
pub use weft_proto::parity::ParityState;
pub use weft_proto::upkeep::{
    AcceptLossesReply, AcceptLossesRequest, DiskCondition, DiskReport, DisksReply, DisksRequest,
    LossesReply, LossesRequest, ScrubFault, ScrubFinding, ScrubRequest, ScrubState,
    ScrubStatusReply, ScrubStatusRequest, TrimReply, TrimRequest,
};

/// How a replica leaves its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The server has one replica less.
    Final,
    /// Another one joins first and takes its place.
    Succeeded,
    /// It stays after all.
    Cancelled,
}

impl Volume {
    /// How a file with parity is coded; `None`: it has none. One request.
    pub async fn parity_of(&self, file: FileId) -> Result<Option<ParityState>, Error> {
        let request = FindCodingRequest { file: file.0 };
        let what = "find the parity of a file";
        Ok(self.meta(what, &request, Repeat::Safe).await?.state)
    }

    /// Starts, continues or stops the scrub of a server: one request. It goes on in the background
    /// whatever becomes of this client.
    pub async fn scrub(
        &self,
        server: ServerId,
        request: ScrubRequest,
    ) -> Result<ScrubStatusReply, Error> {
        self.io("scrub", server, &request, Repeat::Safe).await
    }

    /// The disks of a server and how they are: one request.
    pub async fn disks(&self, server: ServerId) -> Result<DisksReply, Error> {
        self.io("disks", server, &DisksRequest {}, Repeat::Safe)
            .await
    }

    /// Takes a server, or the metadata service (`None`), in although its store is older than what
    /// it said before; whether it was refused until now. One request.
    pub async fn accept_rollback(&self, server: Option<ServerId>) -> Result<bool, Error> {
        let request = AcceptRollbackRequest {
            server: server.map(|id| id.0),
        };
        let what = "accept an older store";
        let reply = self.meta(what, &request, Repeat::Safe).await?;
        Ok(reply.refused)
    }

    /// Lets a store become a server of the volume, or a replica of one, durably. A store that has
    /// joined gets the same answer again. One request.
    pub async fn join_server(&self, request: JoinServerRequest) -> Result<JoinServerReply, Error> {
        self.meta("join the volume", &request, Repeat::Safe).await
    }

    /// Lets a replica leave its server as soon as all that stay are in sync, or stay after all.
    /// Returns whether it has left already. One request.
    pub async fn leave_server(
        &self,
        server: ServerId,
        replica: u32,
        departure: Departure,
    ) -> Result<bool, Error> {
        let request = LeaveServerRequest {
            server: server.0,
            replica,
            stay: departure == Departure::Cancelled,
            succeeded: departure == Departure::Succeeded,
        };
        let what = match departure {
            Departure::Cancelled => "keep a replica",
            Departure::Succeeded => "drain a replica",
            Departure::Final => "remove a replica",
        };
        let reply = self.meta(what, &request, Repeat::Safe).await?;
        Ok(reply.left)
    }

    /// Gives the free space of a server back to its host: one request, answered when it is done.
    pub async fn trim(&self, server: ServerId) -> Result<TrimReply, Error> {
        self.io("trim", server, &TrimRequest {}, Repeat::Safe).await
    }

    /// What the cleaner of a server found and removed of addressed chunks; with `run`, by a pass
    /// that this call waits for. One request.
    pub async fn clean(&self, server: ServerId, run: bool) -> Result<CleanReply, Error> {
        let request = CleanRequest { run };
        self.io("clean", server, &request, Repeat::Safe).await
    }

    /// How much is lost of what a server stored: one request.
    pub async fn losses(&self, server: ServerId) -> Result<LossesReply, Error> {
        self.io("losses", server, &LossesRequest {}, Repeat::Safe)
            .await
    }

    /// Makes zeros of what is lost of a file on a server, and shows what is not proven: one
    /// request.
    pub async fn accept_losses(
        &self,
        server: ServerId,
        file: FileId,
    ) -> Result<AcceptLossesReply, Error> {
        let request = AcceptLossesRequest {
            file: file.0,
            all_unproven: false,
        };
        self.io("accept losses", server, &request, Repeat::Safe)
            .await
    }

    /// Shows what is not proven of all files on a server: one request.
    pub async fn accept_unproven(&self, server: ServerId) -> Result<AcceptLossesReply, Error> {
        let request = AcceptLossesRequest {
            file: 0,
            all_unproven: true,
        };
        self.io("accept losses", server, &request, Repeat::Safe)
            .await
    }

    /// How far the scrub of a server is and what it found: one request.
    pub async fn scrub_status(&self, server: ServerId) -> Result<ScrubStatusReply, Error> {
        let request = ScrubStatusRequest {};
        self.io("scrub", server, &request, Repeat::Safe).await
    }
}
