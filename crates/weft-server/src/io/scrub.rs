//! The scrub of a server: a pass over its store in the background, told to start and stop.
//!
//! It reads a mebibyte, then leaves the disk to others: at least for as long as its rate asks, and
//! where calls were served meanwhile, for several times as long as the reading took. A pass keeps
//! its place and its findings in the store's index, about every second: one that a restart ends
//! counts as stopped, and goes on where it was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_kv::{BadFile, EngineFile};
use weft_proto::limits;
use weft_proto::upkeep::{
    ScrubFault, ScrubFinding, ScrubPassRecord, ScrubRequest, ScrubState, ScrubStatusReply,
};
use weft_store::{Fault, Finding, ScrubPosition, Scrubbed, Store, StoreError};

use super::IoService;

/// Bytes of one part.
const PART: u64 = 1 << 20;
/// Bytes a second where no rate is asked for.
const RATE: u64 = 256 << 20;
/// Beside other calls the disk is left alone this many times as long as a part took.
const YIELD: u32 = 4;
/// After a part that failed as a whole.
const RETRY: Duration = Duration::from_secs(1);
/// Between two notes of how far it is.
const NOTE: Duration = Duration::from_secs(1);
/// Under which name they are kept.
const NOTE_NAME: &str = "scrub";
/// Bytes of a reason that are told.
const REASON_MAX: usize = 200;

/// A pass and the task that makes it.
pub(super) struct Scrubber {
    pass: Mutex<Pass>,
    wake: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Pass {
    state: ScrubState,
    rate: u64,
    /// Counts beginnings and stops: a part that was under way then no longer counts.
    turn: u64,
    /// Files of the index that are still to be verified, once what the pass is to see is in it.
    index: Option<Vec<EngineFile>>,
    at: ScrubPosition,
    told: ScrubStatusReply,
    noted: Instant,
    rests_until: Instant,
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

impl Scrubber {
    /// With the pass that the store remembers, if there was one.
    pub(super) fn new(store: &Store) -> Arc<Scrubber> {
        let mut pass = Pass {
            state: ScrubState::Never,
            rate: RATE,
            turn: 0,
            index: None,
            at: ScrubPosition::default(),
            told: ScrubStatusReply::default(),
            noted: Instant::now(),
            rests_until: Instant::now(),
        };
        let note = store.note(NOTE_NAME).inspect_err(|error| {
            tracing::warn!(%error, "how far the scrub was cannot be read");
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
            pass.told = record.told;
        }
        Arc::new(Scrubber {
            pass: Mutex::new(pass),
            wake: Arc::default(),
            task: Mutex::new(None),
        })
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> ScrubStatusReply {
        let pass = self.pass();
        let rests = match pass.state {
            ScrubState::Running => pass.rests_until.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        };
        ScrubStatusReply {
            state: pass.state as i32,
            rests: rests.as_millis() as u64,
            ..pass.told.clone()
        }
    }

    fn ask(self: &Arc<Self>, store: &Store, request: ScrubRequest) {
        {
            let mut pass = self.pass();
            pass.rate = match request.rate {
                0 => RATE,
                rate => rate,
            };
            match (request.run, pass.state) {
                (false, ScrubState::Running) => {
                    pass.state = ScrubState::Stopped;
                    pass.turn += 1;
                    pass.note(store);
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
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // One that panicked is followed by another.
        if request.run && task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run(Arc::downgrade(self), store.clone())));
        }
    }
}

impl Pass {
    fn begin(&mut self, total: u64) {
        self.state = ScrubState::Running;
        self.turn += 1;
        self.index = None;
        self.at = ScrubPosition::default();
        self.told = ScrubStatusReply {
            total,
            ..ScrubStatusReply::default()
        };
    }

    /// Has the store remember the pass.
    fn note(&mut self, store: &Store) {
        self.noted = Instant::now();
        let record = ScrubPassRecord {
            at: self.at.as_bytes().to_vec(),
            rate: self.rate,
            told: ScrubStatusReply {
                state: self.state as i32,
                ..self.told.clone()
            },
        };
        // Without it the next life of the server only begins again.
        if let Err(error) = store.set_note(NOTE_NAME, &record.encode()) {
            tracing::warn!(%error, "how far the scrub is cannot be kept");
        }
    }

    /// Takes note of a part; answers how many bytes it has read.
    fn take_part(&mut self, part: Part) -> u64 {
        self.told.trouble.clear();
        match part {
            Part::Begun(files) => {
                self.index = Some(files);
                0
            }
            Part::Index(bytes, bad) => {
                self.index.as_mut().map(Vec::pop);
                if let Some(bad) = bad {
                    self.take_index(&bad);
                }
                bytes
            }
            Part::Chunks(part) => {
                let bytes = part.bytes;
                self.take(part);
                bytes
            }
        }
    }

    fn take(&mut self, part: Scrubbed) {
        self.told.bytes += part.bytes;
        self.told.chunks += part.chunks;
        for finding in part.findings {
            self.told.bad += finding.blocks.len().max(1) as u64;
            tracing::error!(
                file = finding.key.file.0, cell = finding.key.cell.0, fork = finding.key.fork.as_str(),
                chunk = finding.chunk, blocks = ?finding.blocks, disk = finding.disk, place = finding.place,
                fault = ?finding.fault, "the scrub found bad blocks"
            );
            if self.told.findings.len() < limits::SCRUB_FINDINGS_MAX {
                self.told.findings.push(on_the_wire(finding));
            } else {
                self.told.more += 1;
            }
        }
        match part.next {
            Some(next) => self.at = next,
            None => self.state = ScrubState::Done,
        }
    }

    /// A file of the index that is not what was written.
    fn take_index(&mut self, bad: &BadFile) {
        tracing::error!(%bad, "the scrub found a damaged file of the index");
        self.told.bad += 1;
        if self.told.findings.len() >= limits::SCRUB_FINDINGS_MAX {
            self.told.more += 1;
            return;
        }
        self.told.findings.push(ScrubFinding {
            fault: ScrubFault::Index as i32,
            reason: bad.to_string(),
            ..ScrubFinding::default()
        });
    }
}

fn on_the_wire(finding: Finding) -> ScrubFinding {
    let (fault, mut reason) = match finding.fault {
        Fault::Checksum => (ScrubFault::Checksum, String::new()),
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
    if let Some((cut, _)) = reason.char_indices().find(|(at, _)| *at >= REASON_MAX) {
        reason.truncate(cut);
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
    }
}

/// Makes passes while the service lives; between two parts nothing but the store is held.
async fn run(scrubber: Weak<Scrubber>, store: Store) {
    loop {
        let Some(here) = scrubber.upgrade() else {
            return;
        };
        let wake = Arc::clone(&here.wake);
        let pause = here.step(&store).await;
        drop(here);
        match pause {
            // Which of the two comes first makes no difference but to a simulation, which is to
            // follow from its seed.
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
    /// Makes a part of a pass, if one is wanted; returns how long to leave the disk alone.
    async fn step(&self, store: &Store) -> Option<Duration> {
        let (turn, next, rate) = {
            let pass = self.pass();
            let running = pass.state == ScrubState::Running;
            let next = running.then(|| match &pass.index {
                None => Next::Begin,
                Some(files) => files
                    .last()
                    .map_or_else(|| Next::Chunks(pass.at.clone()), |f| Next::Index(f.clone())),
            });
            (pass.turn, next?, pass.rate)
        };
        let (started, others) = (Instant::now(), served(store));
        let done = part(store, next, rate).await;
        let took = started.elapsed();
        let mut pass = self.pass();
        if pass.turn != turn {
            return Some(Duration::ZERO);
        }
        let bytes = match done {
            Ok(done) => pass.take_part(done),
            Err(reason) => {
                pass.told.trouble = reason.to_string();
                return Some(RETRY);
            }
        };
        let rated = Duration::from_secs_f64(bytes as f64 / pass.rate as f64);
        if pass.state == ScrubState::Done || pass.noted.elapsed() >= NOTE {
            pass.note(store);
        }
        let beside = served(store) != others;
        let left = if beside { took * YIELD } else { Duration::ZERO };
        let rest = rated.saturating_sub(took).max(left);
        pass.rests_until = Instant::now() + rest;
        Some(rest)
    }
}

/// What a pass does next.
enum Next {
    /// Brings what is to be seen into the index.
    Begin,
    /// A file of the index.
    Index(EngineFile),
    /// Chunks, from here on.
    Chunks(ScrubPosition),
}

/// What came of it.
enum Part {
    Begun(Vec<EngineFile>),
    Index(u64, Option<BadFile>),
    Chunks(Scrubbed),
}

async fn part(store: &Store, next: Next, rate: u64) -> Result<Part, StoreError> {
    match next {
        Next::Begin => {
            store.scrub_begin().await?;
            Ok(Part::Begun(store.index_files().await?))
        }
        Next::Index(file) => {
            let (bytes, bad) = store.verify_index(file).await?;
            Ok(Part::Index(bytes, bad))
        }
        Next::Chunks(at) => {
            let bytes = (rate / 4).min(PART);
            Ok(Part::Chunks(store.scrub(&at, bytes).await?))
        }
    }
}

/// Grows whenever somebody else had work for the disk.
fn served(store: &Store) -> u64 {
    let c = store.counters();
    c.disk_reads + c.disk_writes + c.writes
}

impl IoService {
    pub(super) fn scrub(&self, request: ScrubRequest) -> ScrubStatusReply {
        self.scrubber.ask(&self.store, request);
        self.scrubber.status()
    }

    pub(super) fn scrub_status(&self) -> ScrubStatusReply {
        self.scrubber.status()
    }
}
