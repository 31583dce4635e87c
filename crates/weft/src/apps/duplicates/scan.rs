//! A worker of the search: reads its share of the blocks and writes a record of each through its
//! view of the grid.

use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use weft_crew::Leader;
use weft_layout::{CellIndex, Order, Subfile, View};

use super::record::{BlockRecord, RECORD_BYTES, TreeFile, decode_names};
use super::tree::{Share, Skipped, share};
use crate::apps::stream::{read_into, write_from};
use crate::args::Global;
use crate::limits::{SCAN_READ_BYTES, SCAN_REQUESTS_MAX, SCAN_WRITE_BYTES, SKIPPED_NAMED_MAX};

/// Records of one cell that are written in a row, where a worker has several cells.
const VERTICAL_BLOCK: u64 = 4096;

/// Everything a worker needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ScanJob {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    /// The tree's path, which need not be text.
    pub(crate) tree: Vec<u8>,
    pub(crate) block: u64,
    /// Attachment of the grid.
    pub(crate) grid: Vec<u8>,
    /// Length of the list of files, in cell 0.
    pub(crate) names_bytes: u64,
}

/// The report of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ScanReport {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) written: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) skipped_more: u64,
}

/// The fork of cell 0 that lists the files.
pub(crate) const NAMES: &str = "names";

/// The view of a worker: `cells / workers` adjacent cells.
pub(crate) fn worker_view(cells: u32, worker: u32, workers: u32) -> View {
    View::Subfile(Subfile {
        vbs: VERTICAL_BLOCK,
        vn: 1,
        hbs: u64::from(cells / workers),
        hn: u64::from(workers),
        index: u64::from(worker),
        order: Order::Default,
    })
}

/// Runs the job that the leader sends.
pub(crate) async fn run(global: &Global) -> Result<()> {
    let began = Instant::now();
    let (leader, job) = Leader::job::<ScanJob>().await?;
    let leader = Arc::new(leader);
    let volume = crate::remote::connect::volume(global).await?;
    let grid = volume.adopt(&job.grid)?;
    let mut names = vec![0; job.names_bytes as usize];
    let view = grid.view_of_fork(View::Cell(CellIndex(0)), NAMES)?;
    let moved = read_into(
        &view,
        0,
        &mut names,
        (SCAN_WRITE_BYTES, SCAN_REQUESTS_MAX),
        |_| {},
    )
    .await?;
    if moved != job.names_bytes {
        bail!(
            "cannot read the list of files: {moved} of {} bytes exist",
            job.names_bytes
        );
    }
    let files = decode_names(&names)?;
    let view = worker_view(grid.layout().cells(), job.worker, job.workers);
    let view = Arc::new(grid.view(view)?);
    let progress = leader.clone();
    let produce = move |emit: &mut dyn FnMut(Vec<u8>) -> bool| {
        let mut scan = Scan {
            tree: PathBuf::from(std::ffi::OsString::from_vec(job.tree)),
            block: job.block,
            out: Vec::with_capacity(SCAN_WRITE_BYTES),
            report: ScanReport::default(),
            progress: &|bytes| progress.progress(bytes),
            emit,
        };
        for share in share(&files, job.block, job.worker, job.workers) {
            if !scan.file(&files[share.file], &share) {
                break;
            }
        }
        scan.finish()
    };
    let (written, mut report) = write_from(view, 0, SCAN_REQUESTS_MAX, |_| {}, produce).await?;
    report.written = written;
    report.requests = volume.counters().calls.iter().map(|(_, n)| n).sum();
    report.seconds = began.elapsed().as_secs_f64();
    Ok(leader.barrier(&report).await?)
}

struct Scan<'a> {
    tree: PathBuf,
    block: u64,
    out: Vec<u8>,
    report: ScanReport,
    progress: &'a dyn Fn(u64),
    emit: &'a mut dyn FnMut(Vec<u8>) -> bool,
}

impl Scan<'_> {
    /// Writes the records of a run of blocks; false once writing has failed.
    fn file(&mut self, file: &TreeFile, share: &Share) -> bool {
        let path = self
            .tree
            .join(Path::new(&crate::terminal::name::os(&file.path)));
        let opened = match open(&path) {
            Ok(opened) => opened,
            Err(e) => {
                self.skip(&path, &e);
                return true;
            }
        };
        let (mut at, end) = (
            share.first * self.block,
            (share.end * self.block).min(file.size),
        );
        // Whole blocks, so that a large read does not move their boundaries.
        let stride = (SCAN_READ_BYTES / self.block).max(1) * self.block;
        let mut buffer = vec![0; stride.min(end - at) as usize];
        while at < end {
            let wanted = stride.min(end - at) as usize;
            let read = match read_full(&opened, &mut buffer[..wanted], at) {
                Ok(read) => read,
                Err(e) => {
                    self.skip(&path, &e);
                    return true;
                }
            };
            for (block, i) in buffer[..read].chunks(self.block as usize).zip(0..) {
                let offset = at + i * self.block;
                let record = BlockRecord::of(block, share.file as u64, offset);
                self.out.extend(record.encode());
                self.report.blocks += 1;
            }
            self.report.bytes += read as u64;
            (self.progress)(read as u64);
            if self.out.len() >= SCAN_WRITE_BYTES && !self.flush() {
                return false;
            }
            if read < wanted {
                self.skip(&path, &"it was truncated while it was read");
                return true;
            }
            at += read as u64;
        }
        true
    }

    fn flush(&mut self) -> bool {
        let full = std::mem::replace(
            &mut self.out,
            Vec::with_capacity(SCAN_WRITE_BYTES + RECORD_BYTES),
        );
        (self.emit)(full)
    }

    fn finish(mut self) -> ScanReport {
        if !self.out.is_empty() {
            self.flush();
        }
        self.report
    }

    fn skip(&mut self, path: &Path, reason: &impl ToString) {
        if self.report.skipped.len() < SKIPPED_NAMED_MAX {
            self.report.skipped.push(Skipped::new(path, reason));
        } else {
            self.report.skipped_more += 1;
        }
    }
}

/// Opens a file if it is still regular. Never blocks, even if a fifo has taken the file's place.
fn open(path: &Path) -> std::io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is no longer a regular file"))
    }
}

fn read_full(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read)
}
