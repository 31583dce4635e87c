//! Advice of clients: what they will read, and what they are done with.

use weft_layout::CellOffset;
use weft_proto::Failure;
use weft_proto::io::{Advice, AdviseReply, AdviseRequest};

use super::IoService;
use crate::failure;

impl IoService {
    pub(super) async fn advise(&self, request: AdviseRequest) -> Result<AdviseReply, Failure> {
        let job = self.unbounded_job(&request.access)?;
        let checkpoint = (job.checkpoint != 0).then_some(job.checkpoint);
        let ranges = match job.worked_out() {
            Some(ranges) => ranges,
            None => self.job(&request.access)?.first_ranges()?,
        };
        let mut bytes = 0;
        for (key, range) in ranges {
            let (at, length) = (CellOffset(range.start), range.end - range.start);
            let done = match request.advice() {
                Advice::Fetch => self.store.prefetch(&key, checkpoint, at, length).await,
                Advice::Release if checkpoint.is_none() => {
                    let done = self.store.release(&key, at, length).await;
                    done.map(|()| 0)
                }
                // A hint that means nothing here.
                Advice::Release | Advice::Unknown => Ok(0),
            };
            bytes += done.map_err(|e| failure::of_store(&e))?;
        }
        Ok(AdviseReply { bytes })
    }
}
