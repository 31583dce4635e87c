//! The upkeep of servers: their scrubs and disks.

use weft_layout::ServerId;
use weft_proto::meta::AcceptRollbackRequest;

use crate::volume::Repeat;
use crate::{Error, Volume};

pub use weft_proto::upkeep::{
    DiskCondition, DiskReport, DisksReply, DisksRequest, ScrubFault, ScrubFinding, ScrubRequest,
    ScrubState, ScrubStatusReply, ScrubStatusRequest,
};

impl Volume {
    /// Starts, continues or stops the scrub of a server: one request. It goes on in the background whatever becomes of this client.
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

    /// Takes a server, or the metadata service (`None`), in although its store is older than what it said before; whether it was
    /// refused until now. One request.
    pub async fn accept_rollback(&self, server: Option<ServerId>) -> Result<bool, Error> {
        let request = AcceptRollbackRequest {
            server: server.map(|id| id.0),
        };
        let what = "accept an older store";
        let reply = self.meta(what, &request, Repeat::Safe).await?;
        Ok(reply.refused)
    }

    /// How far the scrub of a server is and what it found: one request.
    pub async fn scrub_status(&self, server: ServerId) -> Result<ScrubStatusReply, Error> {
        let request = ScrubStatusRequest {};
        self.io("scrub", server, &request, Repeat::Safe).await
    }
}
