//! What all tasks of one copy share: both trees, the options, buffers, and what was counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use tokio::sync::Semaphore;
use weft_client::Volume;
use weft_layout::{Layout, ServerId};
use weft_proto::Code;

use super::node::Node;
use super::options::{Options, Side};
use super::report::{Far, Tally};
use super::tree::Tree;
use crate::streams::Buffers;
use crate::terminal::{Alike, Problems, interrupt, output};

/// Bytes of a piece; pieces end at multiples of it.
pub(super) const PIECE: usize = 4 << 20;
/// Files up to this are one piece in a small buffer.
pub(super) const SMALL: usize = 256 << 10;
/// Failures for lack of a server after which a copy gives up.
const LOST_MAX: u64 = 32;
/// Failures for lack of room after which a copy gives up: a smaller file may still find some.
const FULL_MAX: u64 = 10;

/// What all tasks of a copy share.
pub(super) struct Copy {
    pub(super) from: Tree,
    pub(super) to: Tree,
    pub(super) options: Options,
    /// Owners are kept: it was requested, and this process may change them.
    pub(super) owner: bool,
    pub(super) problems: Problems,
    /// Existing files that were not to be replaced.
    pub(super) there: Alike,
    /// What failed for lack of room.
    pub(super) full: Alike,
    pub(super) tally: Tally,
    pub(super) bar: ProgressBar,
    pub(super) far: Far,
    pub(super) small: Buffers,
    pub(super) large: Buffers,
    /// For what a piece is compared with: never taken before one of `large`, so that no task waits
    /// for ever.
    pub(super) second: Buffers,
    pub(super) streams: Semaphore,
    pub(super) servers: Mutex<BTreeSet<ServerId>>,
    pub(super) lost: AtomicU64,
}

/// One thing to copy.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) node: Node,
}

impl Copy {
    /// A copy from the side of `sources` to the side of `target`.
    pub(super) fn new(
        volume: &Volume,
        sources: &[Side],
        target: &Side,
        options: Options,
        bar: ProgressBar,
    ) -> Copy {
        let tree = |weft| {
            if weft {
                Tree::Weft(volume.clone())
            } else {
                Tree::Local
            }
        };
        Copy {
            from: tree(sources.iter().any(|s| s.weft)),
            to: tree(target.weft),
            owner: options.preserve && rustix::process::geteuid().is_root(),
            problems: Problems::beside(bar.clone()),
            there: Alike::default(),
            full: Alike::default(),
            tally: Tally::default(),
            bar: bar.clone(),
            far: Far::of(bar),
            small: Buffers::new(options.small_files(), SMALL),
            large: Buffers::new(16, PIECE),
            second: Buffers::new(16, PIECE),
            streams: Semaphore::new(options.streams),
            servers: Mutex::default(),
            lost: AtomicU64::new(0),
            options,
        }
    }

    /// Reports a failure; counts it if it is for lack of a server.
    pub(super) fn note<T>(&self, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        let code = error
            .chain()
            .find_map(|e| e.downcast_ref::<weft_client::Error>());
        if code.is_some_and(|e| e.code() == Code::Unavailable) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if interrupt::of(&error).is_some() {
            // Reported once, at the end.
        } else if output::is_full(&error) {
            self.problems.say_alike(&self.full, output::error(&error));
        } else {
            self.problems.say(output::error(&error));
        }
        None
    }

    /// Says what many failures had in common.
    pub(super) fn sum_up(&self) {
        self.problems.sum_up(
            &self.there,
            "files that are there and stay as they are",
            "--force replaces them, --resume those that differ in size or time",
        );
        let go_on = self.options.go_on;
        let advice = if self.full.count() >= FULL_MAX {
            format!("the copy stopped there; make room or have the quota raised, then {go_on}")
        } else {
            format!("make room or have the quota raised, then {go_on}")
        };
        self.problems
            .sum_up(&self.full, "copies that found no room", &advice);
    }

    /// What an interrupted copy has done.
    pub(super) fn so_far(&self) -> String {
        let sync = if self.options.sync && matches!(self.to, Tree::Weft(_)) {
            " and may not survive power loss yet"
        } else {
            ""
        };
        format!(
            "{} are copied{sync}, and no file in part; directories may not have their modes and times yet. To go on: {}",
            self.tally.so_far(),
            self.options.go_on
        )
    }

    /// Whether a file belongs to this part. All names of one file belong to the same part.
    pub(super) fn is_mine(&self, job: &Job) -> bool {
        if job.node.links > 1 {
            return self.options.part.takes(&job.node.identity.1.to_le_bytes());
        }
        // The path in the volume is the same for every part; the local one need not be.
        let in_volume = matches!(self.to, Tree::Weft(_));
        let path = if in_volume { &job.to } else { &job.from };
        self.options.part.takes(path)
    }

    /// Whether servers were lost again and again.
    pub(super) fn lost_servers(&self) -> bool {
        self.lost.load(Ordering::Relaxed) >= LOST_MAX
    }

    /// Whether the copy stops before its end.
    pub(super) fn gave_up(&self) -> bool {
        self.lost_servers() || self.full.count() >= FULL_MAX
    }

    /// Notes the servers that hold data of a copied file, for the sync at the end.
    pub(super) fn note_servers(&self, layout: &Layout) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.extend(layout.servers_in_use());
    }

    /// Makes what was copied durable on the servers that got data.
    pub(super) async fn sync(&self, volume: &Volume) {
        let servers: Vec<ServerId> = self
            .servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect();
        if self.options.sync && !servers.is_empty() {
            let synced = tokio::select! {
                biased;
                _ = interrupt::asked() => return,
                synced = volume.sync(servers) => synced,
            };
            self.note(synced.map_err(|e| {
                anyhow!(e)
                    .context("what was copied is not sure to survive power loss; copy it again")
            }));
        }
    }
}
