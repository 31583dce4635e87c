//! Keeps files that are being written within the quotas of their payers, in rounds: servers report
//! sizes, and get the limits up to which files may grow. `docs/design/0011-quotas.md` says by how
//! much a quota can be exceeded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use weft_layout::ServerId;
use weft_meta::{GrowingFile, GrowingFiles};
use weft_proto::io::Grid;
use weft_proto::limits::GROWTH_BATCH_MAX;
use weft_proto::meta::ServerState;
use weft_proto::quota::{GrowthLimit, LimitGrowthReply, LimitGrowthRequest};

use crate::limits::{
    GROWTH_ATTACH_MARGIN, GROWTH_ATTACH_TIMEOUT, GROWTH_FREED_DELAY, GROWTH_ROUND_INTERVAL,
    GROWTH_ROUND_TIMEOUT,
};
use crate::meta::MetaService;
use crate::meta::servers::FileLengths;
use crate::tasks::stopped;

/// What servers do with limits of files that a request does not name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherLimits {
    Keep,
    Remove,
}

impl MetaService {
    /// Runs rounds until the node stops; they are empty while there is no quota.
    pub(in crate::meta) async fn limit_growth(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        loop {
            self.growth_round().await;
            tokio::select! {
                biased;
                () = &mut stop => return,
                // Many removals share one round.
                () = self.freed.notified() => tokio::time::sleep(GROWTH_FREED_DELAY).await,
                () = tokio::time::sleep(GROWTH_ROUND_INTERVAL) => {}
            }
        }
    }

    /// One round, if there are quotas, or limits of earlier rounds. Until clients have reasserted
    /// their open files, the limits of the previous incarnation stay.
    async fn growth_round(&self) {
        let mut lease = self.limiting.lock().await;
        let (limited, bounded) = (lease.is_held(), self.namespace.limits_growth());
        if !limited && !bounded {
            return;
        }
        let recovering = self.namespace.recovering() && bounded;
        let growing = match bounded.then(|| self.namespace.growing()) {
            None => GrowingFiles::default(),
            Some(Ok(growing)) => growing,
            Some(Err(error)) => {
                tracing::error!(%error, "cannot list the growing files");
                return;
            }
        };
        if growing.files.is_empty() && !limited {
            self.namespace.note_growth(&growing, &[]);
            return;
        }
        self.learn_servers();
        let grown = self.grown(&growing, GROWTH_ROUND_TIMEOUT).await;
        self.namespace.note_growth(&growing, &grown.all());
        let limits = requests(&growing.files, Some(&grown.limits(&growing)));
        let others = if recovering {
            OtherLimits::Keep
        } else {
            OtherLimits::Remove
        };
        let answered = self.ask_growth(limits, others, GROWTH_ROUND_TIMEOUT).await;
        if recovering || !growing.files.is_empty() {
            lease.renew();
        } else {
            let mut servers = self.servers.known().into_iter();
            if servers.all(|server| answered.iter().any(|(other, ..)| *other == server)) {
                lease.end();
            }
        }
    }

    /// Limits a file that was just attached for writing, or is about to get cells, if its payer has
    /// little quota left. Returns when its servers have the limit.
    pub(in crate::meta) async fn limit_attached(&self, file: u64) {
        if !self.namespace.limits_growth() {
            return;
        }
        let mut lease = self.limiting.lock().await;
        let growing = match self.namespace.growing_soon(file, GROWTH_ATTACH_MARGIN) {
            Ok(growing) if growing.files.is_empty() => return,
            Ok(growing) => growing,
            Err(error) => {
                tracing::error!(%error, file, "cannot find out whether the file may grow");
                return;
            }
        };
        self.learn_servers();
        let grown = self.grown(&growing, GROWTH_ATTACH_TIMEOUT).await;
        let limits = requests(&growing.files, Some(&grown.limits(&growing)));
        lease.renew();
        self.ask_growth(limits, OtherLimits::Keep, GROWTH_ATTACH_TIMEOUT)
            .await;
        lease.renew_for_attach();
    }

    /// The lengths of the files now, by the servers that answer; otherwise as they are charged.
    async fn grown(&self, growing: &GrowingFiles, time_limit: Duration) -> Grown {
        let files = &growing.files;
        let mut grown = Grown {
            files: vec![FileLengths::default(); files.len()],
            others: HashMap::new(),
        };
        let asked = self.ask_growth(requests(files, None), OtherLimits::Keep, time_limit);
        for (server, places, reply) in asked.await {
            for (number, place) in places.into_iter().enumerate() {
                let lengths = &mut grown.files[place];
                let reported = |of: &[u64]| of.get(number).copied().unwrap_or(0);
                lengths.size = lengths.size.max(reported(&reply.sizes));
                lengths.others = lengths.others.saturating_add(reported(&reply.others));
                grown
                    .others
                    .insert((place, server), reported(&reply.others));
            }
        }
        for (place, (lengths, file)) in grown.files.iter_mut().zip(files).enumerate() {
            lengths.size = lengths.size.max(file.charged - file.fork_bytes);
            let mut servers = file.layout.servers_in_use().iter();
            if servers.any(|server| !grown.others.contains_key(&(place, *server))) {
                lengths.others = lengths.others.max(file.fork_bytes);
            }
        }
        grown
    }

    /// The servers that have sent a heartbeat to this incarnation of the service.
    fn servers_up(&self) -> BTreeSet<ServerId> {
        let map = self.namespace.server_map(self.env.clock.now());
        let servers = map.map(|map| map.servers).unwrap_or_default().into_iter();
        let up = servers.filter(|server| server.state == ServerState::Up as i32);
        up.map(|server| ServerId(server.id)).collect()
    }

    /// Asks the servers of the files that are up; if other limits are removed, all servers that
    /// are up. Returns the places in `files` and the reply of each call.
    async fn ask_growth(
        &self,
        mut requests: BTreeMap<ServerId, Vec<(usize, GrowthLimit)>>,
        others: OtherLimits,
        time_limit: Duration,
    ) -> Vec<(ServerId, Vec<usize>, LimitGrowthReply)> {
        // A call to a server that is starting would be answered only some time after its start.
        let up = self.servers_up();
        requests.retain(|server, _| up.contains(server));
        if others == OtherLimits::Remove {
            for server in up {
                requests.entry(server).or_default();
            }
        }
        let calls = requests.into_iter().map(|(server, files)| async move {
            let mut replies = Vec::new();
            let mut batches: Vec<_> = files.chunks(GROWTH_BATCH_MAX).collect();
            if batches.is_empty() {
                batches.push(&[]);
            }
            for (number, batch) in batches.into_iter().enumerate() {
                let request = LimitGrowthRequest {
                    files: batch.iter().map(|(_, file)| *file).collect(),
                    keep: others == OtherLimits::Keep || number > 0,
                };
                let places = batch.iter().map(|(place, _)| *place).collect();
                let asked = async {
                    let (connection, _) = self.servers.link(server)?.connection().await.map_err(|e| e.to_string())?;
                    connection.call(&request).await.map_err(|e| e.to_string())
                };
                match timeout(time_limit, asked).await {
                    Ok(Ok(reply)) => replies.push((server, places, reply)),
                    Ok(Err(reason)) => {
                        tracing::debug!(%server, %reason, "a server does not get the growth limits");
                        break;
                    }
                    Err(_) => break,
                }
            }
            replies
        });
        join_all(calls).await.into_iter().flatten().collect()
    }
}

/// The lengths of growing files.
struct Grown {
    /// In the order of the request.
    files: Vec<FileLengths>,
    /// The length of a file's other forks on a server that answered, by place and server.
    others: HashMap<(usize, ServerId), u64>,
}

impl Grown {
    /// The bytes of each file, other forks included.
    fn all(&self) -> Vec<u64> {
        self.files.iter().map(FileLengths::all).collect()
    }

    fn limits(&self, growing: &GrowingFiles) -> Limits<'_> {
        let all = growing.limits(&self.all());
        Limits { grown: self, all }
    }
}

/// How far growing files may grow.
struct Limits<'g> {
    grown: &'g Grown,
    /// Bytes of each file, other forks included.
    all: Vec<u64>,
}

impl Limits<'_> {
    /// The limit of a file's size in canonical order, and of its other forks on a server: either
    /// may use all that is left.
    fn of(&self, place: usize, server: ServerId) -> (u64, u64) {
        let (all, lengths) = (self.all[place], self.grown.files[place]);
        let left = all.saturating_sub(lengths.all());
        let here = self.grown.others.get(&(place, server)).copied();
        let others = here.unwrap_or(lengths.others).saturating_add(left);
        (all.saturating_sub(lengths.others), others)
    }
}

/// The request to each server: its files, with their places in `files`.
fn requests(
    files: &[GrowingFile],
    limits: Option<&Limits<'_>>,
) -> BTreeMap<ServerId, Vec<(usize, GrowthLimit)>> {
    let mut requests: BTreeMap<ServerId, Vec<_>> = BTreeMap::new();
    for (place, growing) in files.iter().enumerate() {
        for server in growing.layout.servers_in_use() {
            let (limit, others) = limits.map(|limits| limits.of(place, *server)).unzip();
            let limit = GrowthLimit {
                file: growing.file,
                grid: Grid::from(&growing.layout.grid()),
                limit,
                others,
            };
            requests.entry(*server).or_default().push((place, limit));
        }
    }
    requests
}
