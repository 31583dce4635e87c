//! The upkeep of servers: their scrubs and disks.

use weft_layout::ServerId;

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

    /// How far the scrub of a server is and what it found: one request.
    pub async fn scrub_status(&self, server: ServerId) -> Result<ScrubStatusReply, Error> {
        let request = ScrubStatusRequest {};
        self.io("scrub", server, &request, Repeat::Safe).await
    }
}
