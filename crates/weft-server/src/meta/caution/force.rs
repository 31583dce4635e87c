//! What the service does about files that applications share.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use tokio::time::timeout;
use weft_layout::{Layout, ServerId};
use weft_proto::meta::Attributes;
use weft_proto::order::ForceCautionRequest;

use crate::limits::{FORCE_CAUTION_TIMEOUT, FORCED_BATCH_FILES};
use crate::meta::MetaService;

impl MetaService {
    /// Whether operations on a file that a client has just attached must be cautious. Returns when
    /// its servers refuse others.
    pub(in crate::meta) async fn force_caution(&self, attributes: &Attributes) -> bool {
        let file = attributes.id;
        if !self.is_shared(file) {
            return false;
        }
        let layout = attributes.layout.as_ref().map(Layout::try_from);
        let Some(Ok(layout)) = layout else {
            return false;
        };
        let servers = layout.servers_in_use().to_vec();
        tracing::info!(
            file,
            "caution is forced: two applications have the file open, and one writes it"
        );
        self.forced.add(file, servers.clone());
        self.learn_servers();
        let files = servers.into_iter().map(|server| (server, vec![file]));
        self.tell_servers(files.collect(), true).await;
        true
    }

    /// Whether clients of two applications have a file open, and one of them for writing. A client
    /// that names no application counts as one of any.
    fn is_shared(&self, file: u64) -> bool {
        if !self.sessions.has_applications() {
            return false;
        }
        let holders = self.namespace.holders(file);
        let applications = holders
            .iter()
            .filter_map(|(client, _)| self.sessions.application(*client));
        let applications: BTreeSet<String> = applications.collect();
        applications.len() > 1 && holders.iter().any(|(_, writes)| *writes)
    }

    /// Repeats to the servers which files have forced caution, and releases those that are no
    /// longer shared.
    pub(in crate::meta) async fn renew_caution(&self) {
        let all = self.forced.files();
        if all.is_empty() {
            return;
        }
        let (mut shared, mut others) = (BTreeMap::new(), BTreeMap::new());
        for file in all {
            let is_shared = self.is_shared(file);
            let servers = self.forced.servers(file, is_shared);
            let by_server = if is_shared { &mut shared } else { &mut others };
            for server in servers {
                by_server.entry(server).or_insert_with(Vec::new).push(file);
            }
        }
        self.tell_servers(others, false).await;
        self.tell_servers(shared, true).await;
    }

    async fn tell_servers(&self, files: BTreeMap<ServerId, Vec<u64>>, forced: bool) {
        let calls = files.into_iter().map(async |(server, files)| {
            for batch in files.chunks(FORCED_BATCH_FILES) {
                let request = ForceCautionRequest {
                    files: batch.to_vec(),
                    forced,
                };
                let asked = self.servers.ask(server, "force caution", &request);
                match timeout(FORCE_CAUTION_TIMEOUT, asked).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(refusal)) => {
                        tracing::debug!(reason = %refusal.reason, "a server is told later");
                    }
                    Err(_) => tracing::debug!(%server, "a server is told later: no answer"),
                }
            }
        });
        join_all(calls).await;
    }
}
