//! Truncate: of the namespace alone, or by an intent on all servers of the file.

use std::sync::Arc;

use tokio::time::Instant;
use weft_meta::{Intent, Truncation};
use weft_net::Served;
use weft_proto::meta::{Credentials, StatReply, StatRequest, Target, TruncateRequest};
use weft_proto::{Failure, Kind};

use crate::failure;
use crate::meta::MetaService;
use crate::meta::answer::Durability;
use crate::metrics::Stage;

impl MetaService {
    /// Commits the intent, and answers when it is done. A server that is down truncates when it is
    /// back.
    pub(in crate::meta) async fn truncate(self: Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<TruncateRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let namespace = self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        let mut tries = 0;
        let truncation = loop {
            match namespace.truncate(now, &request) {
                Ok(truncation) => break truncation,
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        return call.reply.fail(&failure);
                    }
                }
            }
        };
        let result = match truncation {
            Truncation::Done(reply) => {
                self.notify_watchers();
                let durable = self.make_durable(Durability::Soon, call.peer.client, Kind::Truncate);
                durable.await.map(|()| reply)
            }
            Truncation::Pending(intent) => {
                // A task, so that it goes on when the caller is gone.
                let service = self.clone();
                let done = tokio::spawn(async move { service.run_truncate(&intent).await });
                self.freed.notify_one();
                match done.await {
                    Ok(result) => result,
                    Err(_) => return,
                }
            }
        };
        self.wait_for_leases(call.peer.client).await;
        match result {
            Ok(reply) => call.reply.done_at(&reply, &self.stamp()),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics
            .stage(Kind::Truncate, Stage::Total, started.elapsed());
    }

    async fn run_truncate(&self, intent: &Intent) -> Result<StatReply, Failure> {
        let file = intent.file().0;
        let what = "the truncation will be completed when the server is back";
        self.run_intent(intent.number(), 1, what).await?;
        let who = Credentials::default();
        let target = Target {
            at: file,
            ..Target::default()
        };
        self.namespace
            .stat(&StatRequest { who, target })
            .map_err(|e| failure::of_meta(&e))
    }
}
