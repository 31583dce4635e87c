//! The leader of a sort: computes the mesh, starts the workers, runs the barriers, checks the
//! result, and renames it into place.
//!
//! Guarantees:
//! 1. The file is not touched until the rename at the end, which is atomic: opening the name finds
//!    either the complete old file or the complete new one.
//! 2. Before the rename, the result is read back (as many records, the same sum of hashes, in
//!    order) and synced.
//! 3. Scratch files are removed in any case, unless this process is killed; the next sort of the
//!    same file names those that were left.

use std::time::Instant;

use anyhow::{Result, bail};
use serde::Serialize;
use weft_client::{Access, Attributes, Changes, File, Volume};

use super::copy;
use super::entry_path::EntryPath;
use super::job::{ByteOrder, SortJob};
use super::mesh::Mesh;
use super::opened::HandedFile;
use super::phases::{self, PhaseSummary, Phases, mib_per_second};
use super::scratch::Scratch;
use crate::apps::crew::unless_interrupted;
use crate::apps::record::RecordOrder;
use crate::args::Global;
use crate::terminal::output;

/// The request for a sort.
pub(crate) struct Sorting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) volume: &'a Volume,
    pub(crate) file: &'a [u8],
    /// Where the result goes; `None`: it replaces the file.
    pub(crate) output: Option<&'a [u8]>,
    pub(crate) order: RecordOrder,
    pub(crate) workers: u32,
    /// Bytes for each worker.
    pub(crate) memory: u64,
    /// Read the file cell after cell instead of in canonical order.
    pub(crate) from_cells: bool,
    /// Leave the result as sorted cells.
    pub(crate) keep_cells: bool,
}

/// The result of a sort.
#[derive(Debug, Serialize)]
pub(crate) struct SortSummary {
    pub(crate) file: String,
    pub(crate) output: String,
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) processes: u32,
    pub(crate) mesh_cells: u32,
    pub(crate) mesh_depth: u64,
    pub(crate) kept_cells: bool,
    pub(crate) seconds: f64,
    pub(crate) mib_per_second: f64,
    pub(crate) requests: u64,
    /// Sum of the records' hashes, the same before and after.
    pub(crate) checksum: String,
    pub(crate) phases: Vec<PhaseSummary>,
}

impl SortSummary {
    /// The summary of these phases; the total time is added later.
    pub(super) fn of(mesh: &Mesh, phases: Phases, file: String, output: String) -> SortSummary {
        SortSummary {
            file,
            output,
            records: mesh.records,
            record_bytes: mesh.record,
            bytes: mesh.records * mesh.record,
            processes: mesh.workers,
            mesh_cells: mesh.cells,
            mesh_depth: mesh.depth,
            kept_cells: false,
            seconds: 0.0,
            mib_per_second: 0.0,
            requests: phases.done.iter().map(|p| p.requests).sum(),
            checksum: format!("{:016x}", phases.digest.sum),
            phases: phases.done,
        }
    }

    /// Sets the time since the sort began.
    pub(super) fn set_time(&mut self, began: Instant) {
        self.seconds = began.elapsed().as_secs_f64();
        self.mib_per_second = mib_per_second(self.bytes, self.seconds);
    }
}

/// The file to sort, as it was when the sort began.
struct Source {
    place: EntryPath,
    file: File,
    before: Attributes,
    order: ByteOrder,
    records: u64,
}

impl Sorting<'_> {
    /// Sorts.
    ///
    /// # Durability
    /// The result survives power loss before it gets its name.
    pub(crate) async fn run(&self) -> Result<SortSummary> {
        let began = Instant::now();
        let place = EntryPath::resolve(self.volume, self.file).await?;
        let target = match self.output {
            Some(output) => EntryPath::resolve(self.volume, output).await?,
            None => place.clone(),
        };
        // Checked now, not at the rename after hours of sorting.
        target.refuse_directory(self.volume).await?;
        let mut scratch = Scratch::beside(self.volume, target.clone())?;
        let done = unless_interrupted(self.steps(&mut scratch, place, &target)).await;
        let discarded = scratch.discard().await;
        match (done, discarded) {
            (Ok(mut summary), Ok(())) => {
                summary.set_time(began);
                Ok(summary)
            }
            (Ok(_), Err(left)) => Err(left.context(format!(
                "{} is sorted, but a scratch file is left",
                target.show()
            ))),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
        }
    }

    async fn steps(
        &self,
        scratch: &mut Scratch,
        place: EntryPath,
        target: &EntryPath,
    ) -> Result<SortSummary> {
        let source = self.source(place).await?;
        // The file to sort may itself be a temporary file of the sort's caller.
        let stale = scratch.stale().await?;
        for stale in stale.iter().filter(|stale| **stale != source.place) {
            output::say(format_args!(
                "weft: note: {0} belongs to another sort of {1}; if none is running, remove it with `weft rm {0}`",
                stale.show(),
                target.show()
            ));
        }
        let record = self.order.size() as u64;
        let mesh = Mesh::new(source.records, record, self.workers, self.memory)?;
        let (shape, output_order) = self.output_shape(&source, &mesh);
        copy::refuse_lost_forks(&source.file, shape.cells).await?;
        let output = scratch.create("result", &shape).await?;
        copy::forks(&source.file, &output).await?;
        copy::xattrs(self.volume, &source.place, scratch.made("result")?).await?;
        let mesh_file = if mesh.cells > 1 && source.records > 0 {
            let shape = copy::layout(&source.file, Some((mesh.cells, record)));
            Some(scratch.create("cells", &shape).await?)
        } else {
            None
        };
        let phases = if source.records > 0 {
            let jobs: Vec<SortJob> = (0..self.workers)
                .map(|worker| SortJob {
                    worker,
                    mesh: mesh.clone(),
                    order: self.order,
                    source: HandedFile::Weft(source.file.hand_over()),
                    source_order: source.order.clone(),
                    scratch: mesh_file.as_ref().map(|f| HandedFile::Weft(f.hand_over())),
                    output: HandedFile::Weft(output.hand_over()),
                    output_order: output_order.clone(),
                })
                .collect();
            let synced = Box::pin(async { Ok(output.sync().await?) });
            phases::work(self.global, &mesh, &jobs, synced).await?
        } else {
            output.sync().await?;
            Phases::default()
        };
        // The workers wrote the data, but this process reports it.
        output.note_written();
        output.close().await?;
        self.unchanged(&source).await?;
        scratch
            .publish("result", &changes(&source.before, output.attributes()))
            .await?;
        if let Some(file) = mesh_file {
            file.close().await?;
        }
        source.file.close().await?;
        let summary = SortSummary::of(&mesh, phases, source.place.show(), target.show());
        Ok(SortSummary {
            kept_cells: self.keep_cells,
            ..summary
        })
    }

    async fn source(&self, place: EntryPath) -> Result<Source> {
        let file = self.volume.attach(place.path(), Access::read()).await?;
        let before = file.stat().await?;
        let record = self.order.size() as u64;
        let (order, bytes) = if self.from_cells {
            let mut lengths = vec![0; file.layout().cells() as usize];
            for fork in file.forks().await?.iter().filter(|f| f.fork == "data") {
                if let Some(length) = lengths.get_mut(fork.cell as usize) {
                    *length = fork.length;
                }
            }
            if let Some(cell) = lengths.iter().position(|l| l % record != 0) {
                let length = lengths[cell];
                bail!(
                    "cell {cell} of {} has {length} bytes, which is not a multiple of the record size, {record} bytes",
                    place.show()
                );
            }
            let bytes = lengths.iter().sum();
            (ByteOrder::Cells(lengths), bytes)
        } else {
            (ByteOrder::Canonical, before.size)
        };
        if bytes % record != 0 {
            bail!(
                "{} has {bytes} bytes, which is not a multiple of the record size: {} records of {record} bytes and {} bytes more",
                place.show(),
                bytes / record,
                bytes % record
            );
        }
        Ok(Source {
            place,
            file,
            before,
            order,
            records: bytes / record,
        })
    }

    /// The layout of the result, and the order of its bytes.
    fn output_shape(&self, source: &Source, mesh: &Mesh) -> (weft_client::NewLayout, ByteOrder) {
        if !self.keep_cells {
            return (copy::layout(&source.file, None), ByteOrder::Canonical);
        }
        let length = |cell| {
            let own = mesh.records_of(cell);
            (own.end - own.start) * mesh.record
        };
        let lengths = (0..mesh.cells).map(length).collect();
        let shape = copy::layout(&source.file, Some((mesh.cells, mesh.record)));
        (shape, ByteOrder::Cells(lengths))
    }

    /// Fails if the file changed since the sort began: the result would lack the change.
    async fn unchanged(&self, source: &Source) -> Result<()> {
        let now = self.volume.stat(source.place.path()).await?;
        let then = &source.before;
        if (now.id, now.size, now.modified) != (then.id, then.size, then.modified) {
            bail!(
                "{} changed while it was being sorted: nothing was replaced; sort it again",
                source.place.show()
            );
        }
        Ok(())
    }
}

/// The attributes that the result takes over from the file.
fn changes(from: &Attributes, made: &Attributes) -> Changes {
    Changes {
        mode: Some(from.mode & 0o7777),
        uid: (from.uid != made.uid).then_some(from.uid),
        gid: (from.gid != made.gid).then_some(from.gid),
        ..Changes::default()
    }
}
