//! Advice of clients: what they will read, and what they no longer need.

use weft_layout::CellOffset;
use weft_proto::Failure;
use weft_proto::io::{Advice, AdviseReply, AdviseRequest};

use crate::failure;
use crate::io::IoService;

impl IoService {
    pub(in crate::io) async fn advise(
        &self,
        request: AdviseRequest,
    ) -> Result<AdviseReply, Failure> {
        let job = self.unbounded_job(&request.access)?;
        let checkpoint = job.checkpoint;
        let ranges = match job.computed_ranges() {
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
                // Hints without effect.
                Advice::Release | Advice::Unknown => Ok(0),
            };
            bytes += done.map_err(|e| failure::of_store(&e))?;
        }
        Ok(AdviseReply { bytes })
    }
}
