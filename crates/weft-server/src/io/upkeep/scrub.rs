//! The scrub of a server: a pass over its store in the background, started and stopped on request.
//!
//! It reads a mebibyte, then leaves the disk to others: at least as long as its rate asks, and if
//! calls used the disk meanwhile, several times as long as the step took. About every second the
//! store's index records the position and the findings of the pass. A pass that a restart ends
//! counts as stopped, and resumes where it was.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_kv::{DamagedFile, EngineFile};
use weft_layout::FileId;
use weft_proto::limits;
use weft_proto::upkeep::{
    ScrubFault, ScrubFinding, ScrubPassRecord, ScrubRequest, ScrubState, ScrubStatusReply,
};
use weft_store::{Fault, Finding, ScrubPosition, Scrubbed, Store};

use crate::io::replica::{BackupScrubbed, Compared, Mending, ReplicatedStore, damaged_range};

use crate::limits::{
    SCRUB_NOTE_INTERVAL, SCRUB_RATE, SCRUB_REASON_MAX, SCRUB_RETRY_BACKOFF, SCRUB_STEP_BYTES,
    SCRUB_YIELD_FACTOR,
};

/// The name of the record in the store's index.
const NOTE_NAME: &str = "scrub";

/// The pass, and the task that runs it.
pub(in crate::io) struct Scrubber {
    pass: Mutex<ScrubPass>,
    wake: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct ScrubPass {
    state: ScrubState,
    rate: u64,
    /// Counts starts and stops: the result of a step from before the last one is dropped.
    epoch: u64,
    /// Files of the index that are still to be verified; `None` until the pass has begun.
    index: Option<Vec<EngineFile>>,
    at: ScrubPosition,
    /// Backups that are still to be verified, and how far the last of them is; `None` until all
    /// chunks here were read.
    backups: Option<(Vec<u32>, BackupStep)>,
    report: ScrubStatusReply,
    recorded: Instant,
    /// When the disk has been left alone for long enough.
    rests_until: Instant,
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

impl Scrubber {
    /// A scrubber with the pass that the store has recorded, if any.
    pub(in crate::io) fn new(store: &Store) -> Arc<Scrubber> {
        let mut pass = ScrubPass {
            state: ScrubState::Never,
            rate: SCRUB_RATE,
            epoch: 0,
            index: None,
            at: ScrubPosition::default(),
            backups: None,
            report: ScrubStatusReply::default(),
            recorded: Instant::now(),
            rests_until: Instant::now(),
        };
        let note = store.note(NOTE_NAME).inspect_err(|error| {
            tracing::warn!(%error, "cannot read the recorded progress of the scrub");
        });
        let record = note
            .ok()
            .flatten()
            .and_then(|note| ScrubPassRecord::decode(&note));
        if let Some(record) = record {
            pass.state = match record.told.state() {
                ScrubState::Done => ScrubState::Done,
                _ => ScrubState::Stopped,
            };
            pass.rate = record.rate.max(1);
            pass.at = ScrubPosition::from_bytes(record.at);
            pass.report = record.told;
        }
        Arc::new(Scrubber {
            pass: Mutex::new(pass),
            wake: Arc::default(),
            task: Mutex::new(None),
        })
    }

    pub(super) fn status(&self) -> ScrubStatusReply {
        let pass = self.pass.lock();
        let rests = match pass.state {
            ScrubState::Running => pass.rests_until.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        };
        ScrubStatusReply {
            state: pass.state as i32,
            rests: rests.as_millis() as u64,
            ..pass.report.clone()
        }
    }

    /// Starts or stops a pass.
    pub(super) fn control(self: &Arc<Self>, store: &ReplicatedStore, request: ScrubRequest) {
        {
            let mut pass = self.pass.lock();
            pass.rate = match request.rate {
                0 => SCRUB_RATE,
                rate => rate,
            };
            match (request.run, pass.state) {
                (false, ScrubState::Running) => {
                    pass.state = ScrubState::Stopped;
                    pass.epoch += 1;
                    pass.record(store);
                }
                (false, _) => {}
                (true, ScrubState::Stopped | ScrubState::Running) if !request.anew => {
                    pass.state = ScrubState::Running;
                }
                (true, _) => {
                    pass.begin(store.usage().used);
                }
            }
        }
        self.wake.notify_one();
        let mut task = self.task.lock();
        // A task that panicked is replaced.
        if request.run && task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run(Arc::downgrade(self), store.clone())));
        }
    }
}

impl ScrubPass {
    fn begin(&mut self, total: u64) {
        self.state = ScrubState::Running;
        self.epoch += 1;
        self.index = None;
        self.at = ScrubPosition::default();
        self.backups = None;
        self.report = ScrubStatusReply {
            total,
            ..ScrubStatusReply::default()
        };
    }

    /// Records the pass in the store.
    fn record(&mut self, store: &Store) {
        self.recorded = Instant::now();
        let record = ScrubPassRecord {
            at: self.at.as_bytes().to_vec(),
            rate: self.rate,
            told: ScrubStatusReply {
                state: self.state as i32,
                ..self.report.clone()
            },
        };
        // Without the record the scrub only starts over after a restart.
        if let Err(error) = store.set_note(NOTE_NAME, &record.encode()) {
            tracing::warn!(%error, "cannot record the progress of the scrub");
        }
    }

    /// Takes in the result of a step; returns how many bytes it read.
    fn take_result(&mut self, result: StepResult) -> u64 {
        self.report.trouble.clear();
        match result {
            StepResult::Begun(files) => {
                self.index = Some(files);
                0
            }
            StepResult::Index(bytes, bad) => {
                self.index.as_mut().map(Vec::pop);
                if let Some(bad) = bad {
                    self.take_index(&bad);
                }
                bytes
            }
            StepResult::Chunks(scrubbed, mended, backups) => {
                let bytes = scrubbed.bytes;
                self.take_chunks(scrubbed, &mended, backups);
                bytes
            }
            StepResult::Backup(done) => self.take_backup(done),
        }
    }

    /// Takes in chunks; `mended` says of each finding whether it was mended.
    fn take_chunks(&mut self, scrubbed: Scrubbed, mended: &[bool], backups: Vec<u32>) {
        self.report.bytes += scrubbed.bytes;
        self.report.chunks += scrubbed.chunks;
        for (finding, mended) in scrubbed.findings.into_iter().zip(mended) {
            let bad = finding.blocks.len().max(1) as u64;
            self.report.bad += bad;
            self.report.mended += if *mended { bad } else { 0 };
            tracing::error!(
                file = finding.key.file.0, cell = finding.key.cell.0, fork = finding.key.fork.as_str(),
                chunk = finding.chunk, blocks = ?finding.blocks, disk = finding.disk, place = finding.place,
                fault = ?finding.fault, mended, "the scrub found bad blocks"
            );
            if self.report.findings.len() < limits::SCRUB_FINDINGS_MAX {
                let finding = on_the_wire(finding);
                self.report.findings.push(ScrubFinding {
                    mended: *mended,
                    ..finding
                });
            } else {
                self.report.more += 1;
            }
        }
        match scrubbed.next {
            Some(next) => self.at = next,
            None if backups.is_empty() => self.state = ScrubState::Done,
            None => self.backups = Some((backups, BackupStep::Chunks(None))),
        }
    }

    /// A step of the verification of the last of the backups.
    fn take_backup(&mut self, done: BackupDone) -> u64 {
        let Some((backups, at)) = &mut self.backups else {
            return 0;
        };
        let replica = backups.last().copied().unwrap_or(0);
        let bytes = match done {
            BackupDone::Gone => {
                backups.pop();
                *at = BackupStep::Chunks(None);
                0
            }
            BackupDone::Chunks(scrubbed) => {
                *at = match scrubbed.next {
                    Some(next) => BackupStep::Chunks(Some(next)),
                    None => BackupStep::Files(FileId(0)),
                };
                self.report.bad += scrubbed.damaged.len() as u64 + scrubbed.others;
                self.report.more += scrubbed.others;
                for (key, range, mended) in scrubbed.damaged {
                    self.report.mended += u64::from(mended);
                    if self.report.findings.len() >= limits::SCRUB_FINDINGS_MAX {
                        self.report.more += 1;
                        continue;
                    }
                    self.report.findings.push(ScrubFinding {
                        file: key.file.0,
                        cell: key.cell.0,
                        fork: key.fork.as_str().to_owned(),
                        fault: ScrubFault::Checksum as i32,
                        reason: format!(
                            "on replica {replica}, bytes {}..{} of the cell",
                            range.start, range.end
                        ),
                        mended,
                        ..ScrubFinding::default()
                    });
                }
                scrubbed.bytes
            }
            BackupDone::Files(compared) => {
                self.report.replica_bytes += compared.sent;
                self.report.replica_files += compared.files;
                self.report.bad += compared.kept;
                self.report.more += compared.kept;
                if let Some(next) = compared.next {
                    *at = BackupStep::Files(next);
                } else {
                    backups.pop();
                    *at = BackupStep::Chunks(None);
                }
                compared.bytes
            }
        };
        if self
            .backups
            .as_ref()
            .is_some_and(|(left, _)| left.is_empty())
        {
            (self.backups, self.state) = (None, ScrubState::Done);
        }
        bytes
    }

    /// A damaged file of the index.
    fn take_index(&mut self, bad: &DamagedFile) {
        tracing::error!(%bad, "the scrub found a damaged file of the index");
        self.report.bad += 1;
        if self.report.findings.len() >= limits::SCRUB_FINDINGS_MAX {
            self.report.more += 1;
            return;
        }
        self.report.findings.push(ScrubFinding {
            fault: ScrubFault::Index as i32,
            reason: bad.to_string(),
            ..ScrubFinding::default()
        });
    }
}

fn on_the_wire(finding: Finding) -> ScrubFinding {
    let (fault, mut reason) = match finding.fault {
        Fault::Checksum => (ScrubFault::Checksum, String::new()),
        Fault::Name => (ScrubFault::Checksum, Fault::NOT_ITS_NAME.to_owned()),
        Fault::Unreadable { reason } => (ScrubFault::Unreadable, reason),
        Fault::Entry { reason } => (ScrubFault::Entry, reason),
        Fault::Lost { range, .. } => {
            let bytes = format!("bytes {}..{} of the cell", range.start, range.end);
            (ScrubFault::Lost, bytes)
        }
        Fault::Unproven { range, .. } if range.is_empty() => {
            let end = format!("the end of the cell, at {}, is not proven", range.start);
            (ScrubFault::Lost, end)
        }
        Fault::Unproven { range, .. } => {
            let bytes = format!(
                "bytes {}..{} of the cell are not proven",
                range.start, range.end
            );
            (ScrubFault::Lost, bytes)
        }
        // Only a check finds these.
        Fault::Beyond | Fault::Free | Fault::Twice | Fault::Inherited | Fault::Tree { .. } => {
            (ScrubFault::Unknown, String::new())
        }
    };
    if let Some((end, _)) = reason
        .char_indices()
        .find(|(at, _)| *at >= SCRUB_REASON_MAX)
    {
        reason.truncate(end);
    }
    ScrubFinding {
        file: finding.key.file.0,
        cell: finding.key.cell.0,
        fork: finding.key.fork.as_str().to_owned(),
        chunk: finding.chunk,
        first: finding.blocks.start,
        blocks: finding.blocks.len() as u32,
        disk: u32::from(finding.disk),
        place: finding.place,
        fault: fault as i32,
        reason,
        mended: false,
    }
}

/// Runs passes while the service lives; between two steps it holds nothing but the store.
async fn run(scrubber: Weak<Scrubber>, store: ReplicatedStore) {
    loop {
        let Some(here) = scrubber.upgrade() else {
            return;
        };
        let wake = Arc::clone(&here.wake);
        let pause = here.step(&store).await;
        drop(here);
        match pause {
            // Biased only so that a simulation follows from its seed.
            Some(pause) => tokio::select! {
                biased;
                () = wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            },
            None => wake.notified().await,
        }
    }
}

impl Scrubber {
    /// Runs one step of a running pass; returns how long to leave the disk alone.
    async fn step(&self, store: &ReplicatedStore) -> Option<Duration> {
        let (epoch, step, rate) = {
            let pass = self.pass.lock();
            let running = pass.state == ScrubState::Running;
            let step = running.then(|| match (&pass.index, &pass.backups) {
                (_, Some((backups, at))) => match backups.last() {
                    Some(backup) => Step::Backup(*backup, at.clone()),
                    None => Step::Chunks(pass.at.clone()),
                },
                (None, None) => Step::Begin,
                (Some(files), None) => files
                    .last()
                    .map_or_else(|| Step::Chunks(pass.at.clone()), |f| Step::Index(f.clone())),
            });
            (pass.epoch, step?, pass.rate)
        };
        let (started, before) = (Instant::now(), served(store));
        // A backup may be slow: the pass can be stopped meanwhile.
        let can_end = matches!(step, Step::Backup(..));
        // In a task of its own: what has begun has the turns of what it changes, and ends.
        let store_of_step = store.clone();
        let running = tokio::spawn(async move { run_step(&store_of_step, step, rate).await });
        let done = tokio::select! {
            biased;
            done = running => match done {
                Ok(done) => done,
                Err(panic) => Err(panic.to_string()),
            },
            () = self.wake.notified(), if can_end => return Some(Duration::ZERO),
        };
        let took = started.elapsed();
        let mut pass = self.pass.lock();
        if pass.epoch != epoch {
            return Some(Duration::ZERO);
        }
        let bytes = match done {
            Ok(done) => pass.take_result(done),
            Err(reason) => {
                pass.report.trouble = reason;
                return Some(SCRUB_RETRY_BACKOFF);
            }
        };
        let rated = Duration::from_secs_f64(bytes as f64 / pass.rate as f64);
        if pass.state == ScrubState::Done || pass.recorded.elapsed() >= SCRUB_NOTE_INTERVAL {
            pass.record(store);
        }
        let shared = served(store) != before;
        let left = if shared {
            took * SCRUB_YIELD_FACTOR
        } else {
            Duration::ZERO
        };
        let rest = rated.saturating_sub(took).max(left);
        pass.rests_until = Instant::now() + rest;
        Some(rest)
    }
}

/// The next step of a pass.
enum Step {
    /// Brings what is stored by now into the index.
    Begin,
    /// A file of the index.
    Index(EngineFile),
    /// Chunks, from here on.
    Chunks(ScrubPosition),
    /// A step of a backup.
    Backup(u32, BackupStep),
}

/// Where the verification of a backup goes on.
#[derive(Clone)]
enum BackupStep {
    /// Its chunks are read from its disks; `None`: from the first one on.
    Chunks(Option<Bytes>),
    /// Its files behind this one are compared with those here.
    Files(FileId),
}

enum BackupDone {
    Chunks(BackupScrubbed),
    Files(Compared),
    /// It is not in sync any more, and will be compared when it catches up.
    Gone,
}

enum StepResult {
    Begun(Vec<EngineFile>),
    Index(u64, Option<DamagedFile>),
    /// Chunks, which findings were mended, and the backups to compare when all chunks were read.
    Chunks(Scrubbed, Vec<bool>, Vec<u32>),
    Backup(BackupDone),
}

async fn run_step(store: &ReplicatedStore, step: Step, rate: u64) -> Result<StepResult, String> {
    match step {
        Step::Begin => {
            store.scrub_begin().await.map_err(|e| e.to_string())?;
            let files = store.index_files().await.map_err(|e| e.to_string())?;
            Ok(StepResult::Begun(files))
        }
        Step::Index(file) => {
            let verified = store.verify_index(file).await;
            let (bytes, bad) = verified.map_err(|e| e.to_string())?;
            Ok(StepResult::Index(bytes, bad))
        }
        Step::Chunks(at) => {
            let bytes = (rate / 4).min(SCRUB_STEP_BYTES);
            let scrubbed = store.scrub(&at, bytes).await.map_err(|e| e.to_string())?;
            let mut mended = Vec::with_capacity(scrubbed.findings.len());
            for finding in &scrubbed.findings {
                mended.push(mend(store, finding).await);
            }
            Ok(StepResult::Chunks(scrubbed, mended, store.backups()))
        }
        Step::Backup(backup, at) => {
            let bytes = (rate / 4).min(SCRUB_STEP_BYTES);
            let done = match at {
                BackupStep::Chunks(from) => {
                    let done = store.scrub_backup(backup, from, bytes).await;
                    done.map(BackupDone::Chunks)
                }
                BackupStep::Files(after) => {
                    let done = store.compare(backup, after, bytes).await;
                    done.map(BackupDone::Files)
                }
            };
            match done {
                Ok(done) => Ok(StepResult::Backup(done)),
                Err(_) if !store.backups().contains(&backup) => {
                    Ok(StepResult::Backup(BackupDone::Gone))
                }
                Err(reason) => Err(format!("replica {backup}: {reason}")),
            }
        }
    }
}

/// Writes what was found of a live fork anew, from memory or from another replica.
async fn mend(store: &ReplicatedStore, finding: &Finding) -> bool {
    match damaged_range(store, finding).await {
        Some(range) => store.mend(&finding.key, range, Mending::Always).await,
        None => false,
    }
}

/// Grows whenever another call has used the disk.
fn served(store: &Store) -> u64 {
    let c = store.counters();
    c.disk_reads + c.disk_writes + c.writes
}
