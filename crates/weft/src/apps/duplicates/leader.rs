//! The leader of a search for duplicates: list, scan, sort, count.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use weft_client::{Access, NewLayout, Volume};
use weft_crew::Crew;
use weft_layout::{CellIndex, View};
use weft_proto::Code;

use super::groups::{Counter, Group, Totals};
use super::record::{BlockRecord, RECORD_BYTES, TreeFile, encode_names};
use super::scan::{NAMES, ScanJob, ScanReport};
use super::tree::{Skipped, walk};
use crate::apps::crew::{unless_interrupted, worker_command};
use crate::apps::record::RecordOrder;
use crate::apps::sort::{EntryPath, Scratch, Sorting, mib_per_second};
use crate::apps::stream::{read_into, write_all};
use crate::args::Global;
use crate::limits::{COUNT_PIECE_BYTES, COUNT_REQUESTS_MAX};

/// The request for a search.
pub(crate) struct Search<'a> {
    pub(crate) global: &'a Global,
    pub(crate) volume: &'a Volume,
    pub(crate) tree: &'a Path,
    /// The file of records.
    pub(crate) grid: &'a [u8],
    pub(crate) cells: u32,
    pub(crate) block: u64,
    pub(crate) workers: u32,
    /// Bytes for each worker of the sort.
    pub(crate) memory: u64,
    /// Groups to show.
    pub(crate) top: usize,
}

/// The result of a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchSummary {
    pub(crate) tree: String,
    pub(crate) grid: String,
    pub(crate) files: u64,
    pub(crate) block_bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) distinct: u64,
    pub(crate) duplicates: u64,
    pub(crate) bytes: u64,
    /// Bytes that deduplication would save.
    pub(crate) duplicate_bytes: u64,
    /// `duplicate_bytes` of `bytes`, from 0 to 1.
    pub(crate) duplicate_share: f64,
    pub(crate) top: Vec<GroupSummary>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) skipped_files: u64,
    pub(crate) workers: Vec<WorkerSummary>,
    pub(crate) scan_seconds: f64,
    pub(crate) scan_mib_per_second: f64,
    pub(crate) sort: crate::apps::sort::SortSummary,
    pub(crate) count_seconds: f64,
    pub(crate) seconds: f64,
}

/// Equal blocks.
#[derive(Debug, Serialize)]
pub(crate) struct GroupSummary {
    pub(crate) blocks: u64,
    pub(crate) block_bytes: u64,
    pub(crate) saves: u64,
    pub(crate) hash: String,
    /// The first of them.
    pub(crate) places: Vec<PlaceSummary>,
}

/// Where a block is.
#[derive(Debug, Serialize)]
pub(crate) struct PlaceSummary {
    pub(crate) file: String,
    pub(crate) offset: u64,
}

/// What one worker did.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerSummary {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) written: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) mib_per_second: f64,
}

impl Search<'_> {
    /// Searches.
    pub(crate) async fn run(&self) -> Result<SearchSummary> {
        let began = Instant::now();
        if self.workers == 0 || self.cells == 0 || !self.cells.is_multiple_of(self.workers) {
            bail!(
                "{} cells cannot be divided among {} processes: give --cells a multiple of --procs",
                self.cells,
                self.workers
            );
        }
        let place = EntryPath::resolve(self.volume, self.grid).await?;
        self.make_directories(&place.directory).await?;
        let mut scratch = Scratch::beside(self.volume, place.clone())?;
        let done = self.steps(&mut scratch, &place, began).await;
        let discarded = scratch.discard().await;
        let summary = done?;
        discarded?;
        Ok(summary)
    }

    async fn steps(
        &self,
        scratch: &mut Scratch,
        place: &EntryPath,
        began: Instant,
    ) -> Result<SearchSummary> {
        // The sort handles interrupts itself, so it is not wrapped.
        let (files, scanned) = unless_interrupted(self.scan(scratch)).await?;
        let source = scratch.made("blocks")?.path();
        let sorted = Sorting {
            global: self.global,
            volume: self.volume,
            file: &source,
            output: Some(&place.path()),
            order: RecordOrder::parse(RECORD_BYTES as u64, Some("0..32"))?,
            workers: self.workers,
            memory: self.memory,
            from_cells: true,
            keep_cells: false,
        }
        .run()
        .await?;
        let counting = Instant::now();
        let (totals, groups) = unless_interrupted(self.count(place)).await?;
        if totals.blocks != scanned.blocks() {
            bail!(
                "internal error: {} holds {} records, but {} were written; please report this",
                place.show(),
                totals.blocks,
                scanned.blocks()
            );
        }
        let count_seconds = counting.elapsed().as_secs_f64();
        Ok(SearchSummary {
            tree: self.tree.display().to_string(),
            grid: place.show(),
            files: files.len() as u64,
            block_bytes: self.block,
            blocks: totals.blocks,
            distinct: totals.distinct,
            duplicates: totals.duplicates(),
            bytes: totals.bytes,
            duplicate_bytes: totals.duplicate_bytes,
            duplicate_share: totals.duplicate_bytes as f64 / (totals.bytes.max(1)) as f64,
            top: groups
                .iter()
                .map(|g| GroupSummary::new(g, &files))
                .collect(),
            skipped_files: scanned.skipped_files(),
            scan_seconds: scanned.seconds,
            scan_mib_per_second: mib_per_second(totals.bytes, scanned.seconds),
            workers: scanned.reports.iter().map(WorkerSummary::new).collect(),
            skipped: scanned.skipped(),
            sort: sorted,
            count_seconds,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Lists the tree, and lets the workers write a record of each block to a new grid.
    async fn scan(&self, scratch: &mut Scratch) -> Result<(Vec<TreeFile>, Scanned)> {
        let began = Instant::now();
        let root = self.tree.to_owned();
        let (files, skipped) = tokio::task::spawn_blocking(move || walk(&root)).await??;
        let layout = NewLayout {
            cells: Some(self.cells),
            bsu: Some(RECORD_BYTES as u64),
            ..NewLayout::default()
        };
        let grid = scratch.create("blocks", &layout).await?;
        let names = encode_names(&files);
        let names_bytes = names.len() as u64;
        grid.create_fork(CellIndex(0), NAMES).await?;
        let view = grid.view_of_fork(View::Cell(CellIndex(0)), NAMES)?;
        for (piece, at) in names
            .chunks(COUNT_PIECE_BYTES as usize)
            .zip((0..).step_by(COUNT_PIECE_BYTES as usize))
        {
            write_all(&view, at, piece.to_vec().into()).await?;
        }
        let jobs: Vec<ScanJob> = (0..self.workers)
            .map(|worker| ScanJob {
                worker,
                workers: self.workers,
                tree: crate::terminal::name::bytes(self.tree.as_os_str()).to_vec(),
                block: self.block,
                grid: grid.hand_over(),
                names_bytes,
            })
            .collect();
        let total = files.iter().map(|f| f.size).sum();
        let reports = self.scan_blocks(&jobs, total).await?;
        grid.note_written();
        grid.close().await?;
        let scanned = Scanned {
            reports,
            unread: skipped,
            seconds: began.elapsed().as_secs_f64(),
        };
        Ok((files, scanned))
    }

    async fn scan_blocks(&self, jobs: &[ScanJob], total: u64) -> Result<Vec<ScanReport>> {
        let mut crew = Crew::start(worker_command(self.global, "duplicates-worker")?, jobs).await?;
        let bar = crate::terminal::progress::of_bytes("write a record of each block", total);
        let reports = crew.barrier::<ScanReport>(|bytes| bar.inc(bytes)).await;
        bar.finish_and_clear();
        match reports {
            Ok(reports) => {
                crew.finish().await?;
                Ok(reports)
            }
            Err(error) => {
                crew.stop().await;
                Err(error.into())
            }
        }
    }

    /// Reads the sorted records once.
    async fn count(&self, place: &EntryPath) -> Result<(Totals, Vec<Group>)> {
        let file = self.volume.attach(place.path(), Access::read()).await?;
        let size = file.size().await?;
        let bar = crate::terminal::progress::of_bytes("count equal blocks", size);
        let mut counter = Counter::new(self.top);
        let view = &file.canonical()?;
        let pieces = (0..size)
            .step_by(COUNT_PIECE_BYTES as usize)
            .map(|at| async move {
                let mut piece = vec![0; COUNT_PIECE_BYTES.min(size - at) as usize];
                let whole = piece.len();
                let moved = read_into(view, at, &mut piece, (whole, 1), |_| {}).await?;
                if moved != whole as u64 {
                    bail!("cannot read all records: {moved} of {whole} bytes exist at offset {at}");
                }
                Ok(piece)
            });
        let mut pieces = std::pin::pin!(stream::iter(pieces).buffered(COUNT_REQUESTS_MAX));
        while let Some(piece) = pieces.try_next().await? {
            let (records, rest) = piece.as_chunks::<RECORD_BYTES>();
            if !rest.is_empty() {
                bail!("{} ends in the middle of a record", place.show());
            }
            for record in records {
                counter.add(BlockRecord::decode(record));
            }
            bar.inc(piece.len() as u64);
        }
        bar.finish_and_clear();
        file.close().await?;
        Ok(counter.finish())
    }

    async fn make_directories(&self, directory: &[u8]) -> Result<()> {
        let ends = directory.iter().enumerate().filter(|(_, b)| **b == b'/');
        for path in ends
            .map(|(end, _)| &directory[..end])
            .filter(|p| !p.is_empty())
        {
            match self.volume.make_directory(path, 0o755).await {
                Err(e) if e.code() != Code::Exists => {
                    return Err(e).context("cannot make the directory of the grid");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The result of the scan.
struct Scanned {
    reports: Vec<ScanReport>,
    /// Entries that could not be listed.
    unread: Vec<Skipped>,
    seconds: f64,
}

impl Scanned {
    fn blocks(&self) -> u64 {
        self.reports.iter().map(|r| r.blocks).sum()
    }

    fn skipped(&self) -> Vec<Skipped> {
        let by_workers = self.reports.iter().flat_map(|r| &r.skipped);
        let mut all: Vec<Skipped> = self.unread.iter().chain(by_workers).cloned().collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all.dedup_by(|a, b| a.path == b.path);
        all
    }

    fn skipped_files(&self) -> u64 {
        let unnamed: u64 = self.reports.iter().map(|r| r.skipped_more).sum();
        self.skipped().len() as u64 + unnamed
    }
}

impl GroupSummary {
    fn new(group: &Group, files: &[TreeFile]) -> GroupSummary {
        let place = |record: &BlockRecord| PlaceSummary {
            file: match files.get(record.file as usize) {
                Some(file) => crate::terminal::name::escape(&file.path),
                None => format!("file {}", record.file),
            },
            offset: record.offset,
        };
        GroupSummary {
            blocks: group.count,
            block_bytes: group.length,
            saves: (group.count - 1) * group.length,
            hash: blake3::Hash::from_bytes(group.hash).to_hex().to_string(),
            places: group.first.iter().map(place).collect(),
        }
    }
}

impl WorkerSummary {
    fn new(report: &ScanReport) -> WorkerSummary {
        WorkerSummary {
            blocks: report.blocks,
            bytes: report.bytes,
            written: report.written,
            requests: report.requests,
            seconds: report.seconds,
            mib_per_second: mib_per_second(report.bytes, report.seconds),
        }
    }
}
