//! What all tasks of one copy share: both trees, the options, buffers, and what was counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weft_client::Volume;
use weft_layout::{Layout, ServerId};
use weft_proto::Code;

use super::node::Node;
use super::options::{Options, TreePath};
use super::report::{CopyProgress, RecordDigest};
use super::tree::Tree;
use crate::limits::{
    COPY_PIECE_BYTES, LOST_SERVER_FAILURES_MAX, NO_SPACE_FAILURES_MAX, SMALL_FILE_BYTES,
};
use crate::streams::Buffers;
use crate::terminal::{ProblemKind, Problems, interrupt, output};

/// The state that all tasks of a copy share.
pub(super) struct Copy {
    pub(super) from: Tree,
    pub(super) to: Tree,
    pub(super) options: Options,
    /// Owners are copied: this was requested, and this process may change them.
    pub(super) owner: bool,
    pub(super) problems: Problems,
    /// Existing files that must not be replaced.
    pub(super) existing: ProblemKind,
    /// Failures for lack of space.
    pub(super) no_space: ProblemKind,
    pub(super) digest: RecordDigest,
    pub(super) bar: ProgressBar,
    pub(super) progress: CopyProgress,
    pub(super) small: Buffers,
    pub(super) large: Buffers,
    /// For the other side of a comparison. Always taken after one of `large`, so that tasks cannot
    /// deadlock.
    pub(super) second: Buffers,
    pub(super) streams: Semaphore,
    pub(super) servers: Mutex<BTreeSet<ServerId>>,
    pub(super) lost: AtomicU64,
}

/// One file or directory to copy.
#[derive(Clone, Debug)]
pub(super) struct CopyJob {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) node: Node,
}

impl Copy {
    /// A copy from the side of `sources` to the side of `target`.
    pub(super) fn new(
        volume: &Volume,
        sources: &[TreePath],
        target: &TreePath,
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
            existing: ProblemKind::default(),
            no_space: ProblemKind::default(),
            digest: RecordDigest::default(),
            bar: bar.clone(),
            progress: CopyProgress::of(bar),
            small: Buffers::new(options.small_files(), SMALL_FILE_BYTES),
            large: Buffers::new(16, COPY_PIECE_BYTES),
            second: Buffers::new(16, COPY_PIECE_BYTES),
            streams: Semaphore::new(options.streams),
            servers: Mutex::default(),
            lost: AtomicU64::new(0),
            options,
        }
    }

    /// Reports a failure. Counts it if a server was unavailable.
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
            self.problems
                .say_of_kind(&self.no_space, output::error(&error));
        } else {
            self.problems.say(output::error(&error));
        }
        None
    }

    /// Summarizes failures that many files share.
    pub(super) fn summarize(&self) {
        self.problems.summarize(
            &self.existing,
            "files that already exist and were not replaced",
            "--force replaces them, --resume replaces those that differ in size or time",
        );
        let go_on = self.options.go_on;
        let advice = if self.no_space.count() >= NO_SPACE_FAILURES_MAX {
            format!("the copy stopped: free some space or raise the quota, then {go_on}")
        } else {
            format!("free some space or raise the quota, then {go_on}")
        };
        self.problems.summarize(
            &self.no_space,
            "files that could not be copied for lack of space",
            &advice,
        );
    }

    /// What an interrupted copy has done.
    pub(super) fn so_far(&self) -> String {
        let sync = if self.options.sync && matches!(self.to, Tree::Weft(_)) {
            " and may not survive power loss yet"
        } else {
            ""
        };
        format!(
            "{} are copied{sync}, no file partially; directories may not have their modes and times yet. To continue: {}",
            self.digest.so_far(),
            self.options.go_on
        )
    }

    /// Whether a file belongs to this part. All names of a file belong to the same part.
    pub(super) fn is_mine(&self, job: &CopyJob) -> bool {
        if job.node.links > 1 {
            return self.options.part.takes(&job.node.identity.1.to_le_bytes());
        }
        // The path in the volume is the same for every part; the local one need not be.
        let in_volume = matches!(self.to, Tree::Weft(_));
        let path = if in_volume { &job.to } else { &job.from };
        self.options.part.takes(path)
    }

    /// Whether servers were unavailable too often.
    pub(super) fn lost_servers(&self) -> bool {
        self.lost.load(Ordering::Relaxed) >= LOST_SERVER_FAILURES_MAX
    }

    /// Whether the copy stops before its end.
    pub(super) fn must_stop(&self) -> bool {
        self.lost_servers() || self.no_space.count() >= NO_SPACE_FAILURES_MAX
    }

    /// Records the servers that hold data of a copied file, for the sync at the end.
    pub(super) fn note_servers(&self, layout: &Layout) {
        self.servers.lock().extend(layout.servers_in_use());
    }

    /// Makes what was copied durable on the servers that got data.
    pub(super) async fn sync(&self, volume: &Volume) {
        let servers: Vec<ServerId> = self.servers.lock().iter().copied().collect();
        if self.options.sync && !servers.is_empty() {
            let synced = tokio::select! {
                biased;
                _ = interrupt::asked() => return,
                synced = volume.sync(servers) => synced,
            };
            self.note(synced.map_err(|e| {
                anyhow!(e).context("copied files may not survive power loss: copy them again")
            }));
        }
    }
}
