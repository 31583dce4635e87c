//! The check of a whole volume: the namespace, each store, and one compared with the other.
//!
//! `docs/design/0009-fsck.md` says what is compared with what, and why findings hold although the
//! volume is in use: what the join of namespace and cells finds is a suspect, which is examined
//! again in the order namespace, servers, namespace.
//!
//! `pass.rs` goes once over the volume, `compare.rs` and `removed.rs` compare what namespace and
//! servers say of one file, `repair.rs` repairs, with `layout.rs` for layouts that fit the cells
//! and `quarantine.rs` for cells that fit no layout.
//!
//! Memory: a page of each stream, the cells of one file, and at most [`FINDINGS_MAX`] findings.

mod compare;
mod layout;
mod names;
mod pass;
mod quarantine;
mod removed;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use weft_layout::{FileId, ServerId};
use weft_proto::prost::Message;

use crate::limits::{CHECK_ROUNDS_MAX, FINDINGS_MAX};
use crate::{Error, Volume};
use compare::Servers;

pub use weft_proto::fsck::{Fault, Finding};

/// What a check does.
#[derive(Clone, Debug, Default)]
pub struct FsckOptions {
    /// Repair what can be repaired.
    pub repair: bool,
    /// Read every block and compare it with its checksum.
    pub data: bool,
    /// What servers that were formatted anew had of these files counts as empty from now on.
    pub accept_files: BTreeSet<FileId>,
    /// What these servers, which were formatted anew, had of any file counts as empty from now on.
    pub accept_servers: BTreeSet<ServerId>,
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsckProgress {
    /// Inodes of the namespace looked at, and how many there are.
    pub inodes: (u64, u64),
    /// Bytes of stores whose maps were looked at (twice as many with their data), and how many
    /// there are.
    pub bytes: (u64, u64),
    /// Files compared with their cells.
    pub files: u64,
    /// Repairs made.
    pub repairs: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What is wrong.
    pub finding: Finding,
    /// What was done about it; `None`: it is left.
    pub done: Option<String>,
}

/// What a check looked at and found.
#[derive(Clone, Debug, Default)]
pub struct FsckReport {
    /// Inodes.
    pub inodes: u64,
    /// Regular files compared with their cells.
    pub files: u64,
    /// Forks of cells.
    pub cells: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// What is wrong.
    pub found: Vec<Found>,
    /// Findings that were not kept.
    pub not_kept: u64,
    /// Servers that could not be asked, and why.
    pub unreachable: Vec<(ServerId, String)>,
}

/// A check under way.
struct Fsck<'a> {
    volume: &'a Volume,
    options: FsckOptions,
    servers: Vec<u32>,
    since: BTreeMap<u32, u64>,
    down: Mutex<BTreeMap<u32, String>>,
    progress: Mutex<FsckProgress>,
    show: &'a (dyn Fn(FsckProgress) + Sync),
    /// By the bytes of the finding: one that shows in two rounds is one.
    found: BTreeMap<Vec<u8>, Found>,
    /// Files that the last round could not compare, as they changed all the time.
    in_use: u64,
    report: FsckReport,
}

impl Volume {
    /// Checks the whole volume while it is used, and with `repair` repairs it. `show` is told how
    /// far it is.
    ///
    /// # Errors
    /// When the metadata service cannot be asked. A server that cannot be is in the report.
    pub async fn fsck(
        &self,
        options: FsckOptions,
        show: &(dyn Fn(FsckProgress) + Sync),
    ) -> Result<FsckReport, Error> {
        let map = self.server_map().await?;
        let mut fsck = Fsck {
            volume: self,
            options,
            servers: map.servers.iter().map(|s| s.id).collect(),
            since: map.servers.iter().map(|s| (s.id, s.since)).collect(),
            down: Mutex::default(),
            progress: Mutex::default(),
            show,
            found: BTreeMap::new(),
            in_use: 0,
            report: FsckReport::default(),
        };
        for round in 0..CHECK_ROUNDS_MAX {
            if !fsck.round(round).await? {
                break;
            }
        }
        if fsck.options.repair {
            fsck.end_doubt().await?;
        }
        let down = std::mem::take(&mut *locked(&fsck.down));
        let down = down
            .into_iter()
            .map(|(server, why)| (ServerId(server), why));
        fsck.report.unreachable = down.collect();
        fsck.report.found = fsck.found.into_values().collect();
        Ok(fsck.report)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Fsck<'_> {
    /// Checks the volume once and repairs; whether anything was repaired, so that another round may
    /// find more.
    async fn round(&mut self, round: usize) -> Result<bool, Error> {
        let first = round == 0;
        let (namespace, joined, stores) = futures_util::join!(
            self.check_namespace(),
            self.join(),
            self.check_stores(first)
        );
        let (namespace, joined, stores) = (namespace?, joined?, stores);
        if first {
            self.report.inodes = namespace.inodes;
            self.report.files = joined.files;
            self.report.cells = joined.cells;
            self.report.chunks = stores.chunks;
            self.report.bytes = stores.bytes;
        }
        self.report.not_kept += namespace.not_kept + stores.not_kept;
        self.in_use = joined.in_use;
        // Some were repaired where they were found.
        let (made, left): (Vec<_>, Vec<_>) =
            namespace.findings.into_iter().partition(|f| f.repaired);
        for mut finding in stores.findings.into_iter().chain(made) {
            let done = std::mem::take(&mut finding.done);
            let done = std::mem::take(&mut finding.repaired).then_some(done);
            self.keep(finding, done);
        }
        let mut repaired = false;
        let mut findings = joined.findings;
        findings.extend(left);
        // The newest first: no id that is given out on the way is one of those that are still lost.
        findings.sort_by_key(|f| (repair::rank(f.fault), std::cmp::Reverse(f.file)));
        for finding in findings {
            match self.repair(&finding).await? {
                repair::Done::Repaired(what) => {
                    repaired = true;
                    locked(&self.progress).repairs += 1;
                    self.tell();
                    self.keep(finding, Some(what));
                }
                repair::Done::Left => self.keep(finding, None),
                // Another repair mended it, too, or it was transient.
                repair::Done::Gone => {}
            }
        }
        Ok(repaired)
    }

    /// Ends that servers do not know whether they had cells that they do not have, where no file is
    /// concerned any more.
    async fn end_doubt(&mut self) -> Result<(), Error> {
        if self.in_use > 0 || self.report.not_kept > 0 {
            return Ok(());
        }
        let unproven = |found: &Found, server: u32| {
            let finding = &found.finding;
            finding.fault == Fault::Unproven as i32 && finding.server == Some(server)
        };
        for server in self.servers.clone() {
            let about: Vec<&Found> = self.found.values().collect();
            let about = about.into_iter().filter(|f| unproven(f, server));
            let (of_files, of_server): (Vec<_>, Vec<_>) = about.partition(|f| f.finding.file != 0);
            let [of_server] = of_server[..] else {
                continue;
            };
            if !of_files.is_empty() || locked(&self.down).contains_key(&server) {
                continue;
            }
            let finding = of_server.finding.clone();
            self.volume.accept_unproven(ServerId(server)).await?;
            self.keep(finding, Some("no file is concerned any more".to_owned()));
        }
        Ok(())
    }

    fn keep(&mut self, finding: Finding, done: Option<String>) {
        let key = finding.encode_to_vec();
        if self.found.len() >= FINDINGS_MAX && !self.found.contains_key(&key) {
            self.report.not_kept += 1;
            return;
        }
        let known = self.found.entry(key).or_insert(Found {
            finding,
            done: None,
        });
        known.done = done.or_else(|| known.done.take());
    }

    fn tell(&self) {
        let progress = *locked(&self.progress);
        (self.show)(progress);
    }

    fn known_servers(&self) -> Servers {
        Servers {
            down: locked(&self.down).keys().copied().collect(),
            since: self.since.clone(),
        }
    }

    /// A server cannot be asked: no finding follows from its silence.
    fn lose(&self, server: u32, error: &Error) {
        locked(&self.down)
            .entry(server)
            .or_insert_with(|| error.to_string());
    }
}
