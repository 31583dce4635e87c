//! Append: assigns an offset, and asks the file's servers for its size if it is not known here.

use tokio::time::Instant;
use weft_meta::Append;
use weft_net::{Reply, Served};
use weft_proto::coord::{AppendReply, AppendRequest};
use weft_proto::{Code, Failure, Kind};

use crate::failure;
use crate::limits::APPEND_TRIES;
use crate::meta::MetaService;
use crate::metrics::Stage;

impl MetaService {
    pub(in crate::meta) async fn append(&self, call: Served) {
        let started = Instant::now();
        let request = match call.request::<AppendRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        // A client that has not come back yet may still write at an offset from an earlier
        // incarnation.
        if !self.wait_for_holders(request.file, &call.reply).await {
            return;
        }
        match self.offset(call.peer.client, &request).await {
            Ok(offset) => call.reply.done(&AppendReply { offset }),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics
            .stage(Kind::Append, Stage::Total, started.elapsed());
    }

    /// Waits until clients of an earlier incarnation have reasserted what they hold of a file;
    /// false when the caller is gone.
    pub(in crate::meta) async fn wait_for_holders(&self, file: u64, reply: &Reply) -> bool {
        if !self.namespace.may_be_held(file) {
            return true;
        }
        tokio::select! {
            biased;
            () = reply.gone() => false,
            () = self.recovered.wait() => true,
        }
    }

    async fn offset(&self, client: u64, request: &AppendRequest) -> Result<u64, Failure> {
        let unavailable =
            |reason: String| Failure::new(Code::Unavailable, format!("{reason}; try again"));
        for _ in 0..APPEND_TRIES {
            let append = self.namespace.append(client, request);
            match append.map_err(|e| failure::of_meta(&e))? {
                Append::At(offset) => return Ok(offset),
                Append::Truncating => {
                    let pending = self.namespace.pending_truncate(request.file);
                    if let Some(number) = pending.map_err(|e| failure::of_meta(&e))? {
                        self.run_intent(number, 1, "try again").await?;
                    }
                }
                Append::Ask { layout, turn } => {
                    self.learn_servers();
                    let size = self
                        .servers
                        .lengths(request.file, &layout)
                        .await
                        .map(|l| l.size);
                    let size = size.map_err(unavailable)?;
                    let offset = self.namespace.append_after(client, request, size, turn);
                    if let Some(offset) = offset.map_err(|e| failure::of_meta(&e))? {
                        return Ok(offset);
                    }
                }
            }
        }
        Err(Failure::new(
            Code::Busy,
            "its size changes too often to append to it; try again",
        ))
    }
}
