//! The process, and the choice of what it does next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{ConnectOptions, Error, Volume};

use super::super::known::Known;
use super::super::shared::Shared;
use super::super::slot::Maker;
use super::super::turn::{Turn, Want};
use crate::canary::Canary;
use crate::client::connect;
use crate::state::{is_of_a_fault, now};

/// Things that a process does at once.
const LANES: u64 = 2;
/// A process dies before a step up to this one.
const STEPS_MAX: usize = 2500;
/// Directories that a process makes, and all together.
const OWN_DIRECTORIES: usize = 16;
const ALL_DIRECTORIES: usize = 120;

/// A process of a client.
pub(in crate::ahead) struct Life {
    pub(super) shared: Shared,
    pub(super) by: Maker,
    pub(super) volume: Volume,
    pub(super) known: Arc<Known>,
    /// Another connection, for a defect.
    pub(super) beside: Option<Volume>,
}

/// Lives until it is ended, or until everything is done.
pub(in crate::ahead) async fn live(
    shared: Shared,
    client: usize,
    mut options: ConnectOptions,
) -> Result<(), String> {
    options.lazy = true;
    let by = shared.names().processes().born(client);
    let seed = shared.plan.seed ^ by.life << 32 ^ (client as u64) << 48 ^ 0xa4ead;
    let mut rng = SmallRng::seed_from_u64(seed);
    let steps = match shared.plan.canary {
        // Whoever dies cannot be asked anyway.
        Some(Canary::DeafHolder) => usize::MAX,
        _ => rng.random_range(0..STEPS_MAX),
    };
    let dying = DiesAt {
        work: Box::pin(work(shared.clone(), by, options, rng)),
        shared,
        client,
        steps,
    };
    dying.await
}

async fn work(
    shared: Shared,
    by: Maker,
    options: ConnectOptions,
    mut rng: SmallRng,
) -> Result<(), String> {
    let volume = connect(options.clone()).await;
    let beside = match shared.plan.canary {
        Some(Canary::SyncBesideReports) => Some(connect(options).await),
        _ => None,
    };
    let known = Arc::new(Known::default());
    let (refusing, unleasing) = (shared.clone(), known.clone());
    volume.on_refused(move |refused| {
        for change in refused {
            let name = String::from_utf8_lossy(&change.name);
            let place = (change.directory, &name[..]);
            refusing.names().refused(by, place, &change.reason);
        }
    });
    volume.on_unleased(move |directory| unleasing.forget(directory));
    let deaf = shared.plan.canary == Some(Canary::DeafHolder);
    tokio::spawn(follow(volume.clone(), known.clone(), deaf));
    let life = Life {
        shared,
        by,
        volume,
        known,
        beside,
    };
    let lanes = (0..LANES).map(|_| SmallRng::from_rng(&mut rng));
    let lanes: Vec<_> = lanes.collect();
    join_all(lanes.into_iter().map(|rng| life.lane(rng))).await;
    std::future::pending().await
}

/// Follows what other clients change, as a mount does.
async fn follow(volume: Volume, known: Arc<Known>, deaf: bool) {
    let mut watch = volume.watch();
    loop {
        let changed = watch.next().await;
        known.changed(&changed, watch.is_live());
        if deaf && watch.is_live() {
            return;
        }
    }
}

impl Life {
    async fn lane(&self, mut rng: SmallRng) {
        loop {
            self.calm_down().await;
            let more = self
                .shared
                .names()
                .processes()
                .take_operation(self.by.client);
            if !more && self.shared.names().processes().finish(self.by.client) {
                self.shared.state.lock().busy -= 1;
            }
            if more {
                self.operation(&mut rng).await;
            } else if self.is_done() {
                break;
            } else {
                self.see_something(&mut rng).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let pause = rng.random_range(0..15);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    fn is_done(&self) -> bool {
        let disturbed = self.shared.names().processes().is_disturbed(self.by.client);
        !disturbed && self.shared.state.lock().is_quiet()
    }

    /// After a fault is repaired: everything is reported over a sound connection.
    async fn calm_down(&self) {
        let disturbance = self
            .shared
            .names()
            .processes()
            .disturbance_of(self.by.client);
        let Some(disturbance) = disturbance else {
            return;
        };
        let begun = now();
        self.volume.catch_up().await;
        let asked = self.volume.stat("/ahead").await;
        if asked.is_ok() && self.known.is_live() {
            self.caught_up(begun);
            let mut names = self.shared.names();
            names.processes().calm(self.by.client, disturbance);
        }
    }

    async fn operation(&self, rng: &mut SmallRng) {
        if self.enter_contest(rng).await {
            return;
        }
        match rng.random_range(0..100) {
            0..=44 => self.make_file(rng).await,
            45..=50 => self.make_directory(rng).await,
            51..=52 => self.open_contest(rng).await,
            53..=67 => self.remove(rng).await,
            68..=71 => self.rename(rng).await,
            72..=81 => self.set_mode(rng).await,
            82..=86 => self.overwrite(rng).await,
            87..=90 => self.sync(rng).await,
            91..=94 => tokio::time::sleep(Duration::from_millis(rng.random_range(0..300))).await,
            _ => self.see_something(rng).await,
        }
    }

    /// Perhaps dies now, while what a sync did not cover is not reported.
    pub(super) async fn die_after_sync(&self, rng: &mut SmallRng) {
        let deaf = self.shared.plan.canary == Some(Canary::DeafHolder);
        if rng.random_ratio(1, 8) && !deaf && !self.shared.state.lock().is_quiet() {
            self.shared.doom(self.by.client);
            std::future::pending::<()>().await;
        }
    }

    /// A turn to change a name, mostly in a directory of this process.
    pub(super) fn take_turn(&self, want: Want, rng: &mut SmallRng) -> Option<Turn> {
        let own = rng.random_ratio(24, 25);
        self.shared
            .names()
            .take_turn(self.by, (want, own), rng, now())
    }

    /// Whether this process may make another directory, and whether in the root.
    pub(super) fn may_make_directory(&self) -> (bool, bool) {
        let (own, all) = self.shared.names().directories_of(self.by);
        (own < OWN_DIRECTORIES && all < ALL_DIRECTORIES, own < 4)
    }

    pub(super) fn caught_up(&self, begun: u64) {
        self.shared.names().caught_up(self.by, begun, now());
    }

    /// Counts what came of a call of this turn, which has reported all earlier changes. `None`: it
    /// failed.
    pub(super) fn answered<T>(
        &self,
        turn: &Turn,
        kind: &'static str,
        begun: u64,
        result: Result<T, Error>,
    ) -> Option<T> {
        let value = self.done(turn, kind, result)?;
        self.caught_up(begun);
        Some(value)
    }

    /// As [`Life::answered`], of an operation that need not report earlier changes.
    pub(super) fn done<T>(
        &self,
        turn: &Turn,
        kind: &'static str,
        result: Result<T, Error>,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                self.shared.state.lock().count(kind, &Ok(()));
                Some(value)
            }
            Err(error) => {
                if !is_of_a_fault(&error) {
                    let what = format!("{kind} failed: {error}");
                    self.shared.names().contradicted(turn, &what);
                }
                let mut state = self.shared.state.lock();
                state.outcome.operations.entry(kind).or_default().failed += 1;
                None
            }
        }
    }

    pub(super) fn counted(&self, kind: &'static str) {
        self.shared.state.lock().count(kind, &Ok(()));
    }
}

/// Work that stops for ever before one of its steps, whatever that waits for, unless everything is
/// done before.
struct DiesAt<F> {
    work: Pin<Box<F>>,
    shared: Shared,
    client: usize,
    steps: usize,
}

impl<F: Future> Future for DiesAt<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.steps == 0 {
            if !self.shared.state.lock().is_quiet() {
                self.shared.doom(self.client);
                return Poll::Pending;
            }
        } else {
            self.steps -= 1;
        }
        self.work.as_mut().poll(context)
    }
}
