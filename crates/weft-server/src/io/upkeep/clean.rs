//! Cleaning on request, and in the background after changes.

use std::sync::{Arc, Weak};

use weft_proto::addressed::{CleanReply, CleanRequest};
use weft_proto::{Code, Failure};

use crate::failure;
use crate::io::IoService;
use crate::limits::CLEAN_TICK;

impl IoService {
    pub(in crate::io) async fn clean(&self, request: CleanRequest) -> Result<CleanReply, Failure> {
        if request.run {
            let run = self.cleaner.run(&self.store).await;
            if !run.map_err(|e| failure::of_store(&e))? {
                let what = "checkpoints or rollbacks went on during the cleaning; try again";
                return Err(Failure::new(Code::Busy, what));
            }
        }
        Ok(self.cleaner.reply(&self.store))
    }
}

/// Cleans as long as the service lives.
pub(crate) async fn clean_regularly(service: Weak<IoService>) {
    loop {
        tokio::time::sleep(CLEAN_TICK).await;
        let Some(service): Option<Arc<IoService>> = service.upgrade() else {
            return;
        };
        if !service.cleaner.is_due(&service.store) {
            continue;
        }
        let result = service.cleaner.run(&service.store).await;
        if service.cleaner.note_result(result.is_err())
            && let Err(error) = result
        {
            tracing::warn!(%error, "cannot clean up addressed chunks; it is tried again");
        }
    }
}
