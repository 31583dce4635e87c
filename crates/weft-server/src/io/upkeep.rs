//! Free space that goes back to the host.

use weft_proto::Failure;
use weft_proto::upkeep::{TrimReply, TrimRequest};

use super::IoService;
use crate::failure;

impl IoService {
    pub(super) async fn trim(&self, _: TrimRequest) -> Result<TrimReply, Failure> {
        let trimmed = self.store.trim().await;
        let trimmed = trimmed.map_err(|e| failure::of_store(&e))?;
        Ok(TrimReply {
            bytes: trimmed.bytes,
            held: trimmed.held,
            used: self.store.usage().used,
        })
    }
}
