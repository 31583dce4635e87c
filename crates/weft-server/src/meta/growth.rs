//! Keeps files that are being written within the quotas of who pays for them: rounds of asking the
//! servers how large they are and telling how large they may become. `docs/design/0011-quotas.md`
//! says by how much a bound is passed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use weft_layout::ServerId;
use weft_meta::{Growing, GrowingFiles};
use weft_proto::io::Grid;
use weft_proto::limits::GROWTH_BATCH_MAX;
use weft_proto::meta::ServerState;
use weft_proto::quota::{GrowthLimit, LimitGrowthReply, LimitGrowthRequest};

use super::MetaService;
use super::carry::Lengths;
use crate::io::growth::{FRESH, LASTS};
use crate::node::stopped;

/// From one round to the next.
const ROUND: Duration = Duration::from_millis(500);
/// From the moment that somebody has more left to the round that tells it.
const LINGER: Duration = Duration::from_millis(50);
/// How long a server is waited for in a round; the others' files are limited without it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same before an attach is answered: a server that is only busy must know, or more is written
/// than may be.
const ATTACH_PATIENCE: Duration = Duration::from_secs(3);
/// Whoever has less left than this is limited from the moment a file is attached: what one client
/// can write in a round.
const MARGIN: u64 = 1 << 30;

/// Up to when servers may have limits.
pub(super) struct Limited {
    lasts: Duration,
    until: Instant,
    /// One was told that does not go at once.
    attached: Option<Instant>,
}

impl Limited {
    /// They may have those of the life before. `grace`: the time that clients have to come back.
    pub(super) fn new(grace: Duration) -> Limited {
        let lasts = grace * LASTS;
        Limited {
            lasts,
            until: Instant::now() + lasts,
            attached: None,
        }
    }

    fn may_be(&self) -> bool {
        Instant::now() < self.until
    }

    fn told(&mut self) {
        self.until = Instant::now() + self.lasts;
    }

    fn taken_back(&mut self) {
        if self.attached.is_none_or(|told| told.elapsed() > FRESH) {
            self.until = Instant::now();
        }
    }
}

impl MetaService {
    /// Rounds, until the node stops; none while nobody has a bound.
    pub(super) async fn limit_growth(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        loop {
            self.growth_round().await;
            tokio::select! {
                biased;
                () = &mut stop => return,
                // What many remove one after the other makes one round.
                () = self.freed.notified() => tokio::time::sleep(LINGER).await,
                () = tokio::time::sleep(ROUND) => {}
            }
        }
    }

    /// One round, if there are bounds, or limits from before. As long as it is not known who has
    /// what open, those of the life before stay.
    async fn growth_round(&self) {
        let mut limits = self.limiting.lock().await;
        let (limited, bounded) = (limits.may_be(), self.namespace.limits_growth());
        if !limited && !bounded {
            return;
        }
        let recovering = self.namespace.recovering() && bounded;
        let growing = match bounded.then(|| self.namespace.growing()) {
            None => GrowingFiles::default(),
            Some(Ok(growing)) => growing,
            Some(Err(error)) => {
                tracing::error!(%error, "cannot look which files grow");
                return;
            }
        };
        if growing.files.is_empty() && !limited {
            self.namespace.note_growth(&growing, &[]);
            return;
        }
        self.learn_servers();
        let grown = self.grown(&growing, PATIENCE).await;
        self.namespace.note_growth(&growing, &grown.all());
        let told = requests(&growing.files, Some(&grown.limits(&growing)));
        let answered = self.ask_growth(told, recovering, PATIENCE).await;
        if recovering || !growing.files.is_empty() {
            limits.told();
        } else {
            let mut servers = self.carrier.servers().into_iter();
            if servers.all(|server| answered.iter().any(|(other, ..)| *other == server)) {
                limits.taken_back();
            }
        }
    }

    /// Limits a file that was just attached for writing, or is about to get cells, if who pays for
    /// it has little left. Returns when its servers know.
    pub(super) async fn limit_attached(&self, file: u64) {
        if !self.namespace.limits_growth() {
            return;
        }
        let mut limits = self.limiting.lock().await;
        let growing = match self.namespace.growing_soon(file, MARGIN) {
            Ok(growing) if growing.files.is_empty() => return,
            Ok(growing) => growing,
            Err(error) => {
                tracing::error!(%error, file, "cannot look whether it may grow");
                return;
            }
        };
        self.learn_servers();
        let grown = self.grown(&growing, ATTACH_PATIENCE).await;
        let told = requests(&growing.files, Some(&grown.limits(&growing)));
        limits.told();
        self.ask_growth(told, true, ATTACH_PATIENCE).await;
        limits.told();
        limits.attached = Some(Instant::now());
    }

    /// How large the files are now, as far as their servers answer; else as they are charged.
    async fn grown(&self, growing: &GrowingFiles, patience: Duration) -> Grown {
        let files = &growing.files;
        let mut grown = Grown {
            files: vec![Lengths::default(); files.len()],
            others: HashMap::new(),
        };
        let told = self.ask_growth(requests(files, None), true, patience).await;
        for (server, places, reply) in told {
            for (number, place) in places.into_iter().enumerate() {
                let lengths = &mut grown.files[place];
                let told = |of: &[u64]| of.get(number).copied().unwrap_or(0);
                lengths.size = lengths.size.max(told(&reply.sizes));
                lengths.others = lengths.others.saturating_add(told(&reply.others));
                grown.others.insert((place, server), told(&reply.others));
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

    /// The servers that have told in this life of the service that they are there.
    fn servers_up(&self) -> BTreeSet<ServerId> {
        let map = self.namespace.server_map(self.env.clock.now());
        let servers = map.map(|map| map.servers).unwrap_or_default().into_iter();
        let up = servers.filter(|server| server.state == ServerState::Up as i32);
        up.map(|server| ServerId(server.id)).collect()
    }

    /// Calls every server that is up, also those without files where limits are replaced; answers
    /// places and what was said of them.
    async fn ask_growth(
        &self,
        mut requests: BTreeMap<ServerId, Vec<(usize, GrowthLimit)>>,
        keep: bool,
        patience: Duration,
    ) -> Vec<(ServerId, Vec<usize>, LimitGrowthReply)> {
        // Who asks one that is about to start is not answered for a while after it has started,
        // either.
        let up = self.servers_up();
        requests.retain(|server, _| up.contains(server));
        if !keep {
            for server in up {
                requests.entry(server).or_default();
            }
        }
        let calls = requests.into_iter().map(|(server, files)| async move {
            let mut told = Vec::new();
            let mut batches: Vec<_> = files.chunks(GROWTH_BATCH_MAX).collect();
            if batches.is_empty() {
                batches.push(&[]);
            }
            for (number, batch) in batches.into_iter().enumerate() {
                let request = LimitGrowthRequest {
                    files: batch.iter().map(|(_, file)| *file).collect(),
                    keep: keep || number > 0,
                };
                let places = batch.iter().map(|(place, _)| *place).collect();
                let asked = async {
                    let (connection, _) = self.carrier.link(server)?.connection().await.map_err(|e| e.to_string())?;
                    connection.call(&request).await.map_err(|e| e.to_string())
                };
                match timeout(patience, asked).await {
                    Ok(Ok(reply)) => told.push((server, places, reply)),
                    Ok(Err(reason)) => {
                        tracing::debug!(%server, %reason, "a server is not told how large files may become");
                        break;
                    }
                    Err(_) => break,
                }
            }
            told
        });
        join_all(calls).await.into_iter().flatten().collect()
    }
}

/// How large growing files are.
struct Grown {
    /// In their order.
    files: Vec<Lengths>,
    /// How long the other forks of a file are on a server that answered.
    others: HashMap<(usize, ServerId), u64>,
}

impl Grown {
    /// Files and their other forks together.
    fn all(&self) -> Vec<u64> {
        self.files.iter().map(Lengths::all).collect()
    }

    fn limits(&self, growing: &GrowingFiles) -> Limits<'_> {
        let all = growing.limits(&self.all());
        Limits { grown: self, all }
    }
}

/// How large growing files may become.
struct Limits<'g> {
    grown: &'g Grown,
    /// With their other forks.
    all: Vec<u64>,
}

impl Limits<'_> {
    /// The largest size of a file in canonical order, and how long its other forks may be on a
    /// server: what is left may all go to either.
    fn of(&self, place: usize, server: ServerId) -> (u64, u64) {
        let (all, lengths) = (self.all[place], self.grown.files[place]);
        let left = all.saturating_sub(lengths.all());
        let here = self.grown.others.get(&(place, server)).copied();
        let others = here.unwrap_or(lengths.others).saturating_add(left);
        (all.saturating_sub(lengths.others), others)
    }
}

/// What each server is asked: its files by their places in `files`.
fn requests(
    files: &[Growing],
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
