//! The leader of a sort: lays the mesh, starts the workers, keeps the barriers, checks, and puts
//! the result in place.
//!
//! What a user can rely on:
//! 1. Until the rename at the end the file is not touched; the rename is one step, so opening the
//!    name finds all of the old or all of the new.
//! 2. Before it the result was read back: as many records, the same sum of their hashes, each in
//!    order; and it was synced.
//! 3. What else happens, scratch files are removed, unless this process is killed outright; the
//!    next sort of the same file names what was left then.

use std::time::Instant;

use anyhow::{Result, bail};
use serde::Serialize;
use weft_client::{Access, Attributes, Changes, File, Volume};

use super::copy;
use super::job::{ByteOrder, Job};
use super::mesh::Mesh;
use super::opened::Handed;
use super::phases::{self, PhaseSummary, Phases, mib_per_second};
use super::scratch::Scratch;
use super::target::Place;
use crate::apps::crew::unless_interrupted;
use crate::apps::record::RecordOrder;
use crate::args::Global;
use crate::terminal::output;

/// A sort as it was asked for.
pub(crate) struct Sorting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) volume: &'a Volume,
    pub(crate) file: &'a [u8],
    /// Where the result goes; nothing: over the file.
    pub(crate) output: Option<&'a [u8]>,
    pub(crate) order: RecordOrder,
    pub(crate) workers: u32,
    /// Bytes for each worker.
    pub(crate) memory: u64,
    /// The file's cells follow one another, instead of its canonical order.
    pub(crate) from_cells: bool,
    /// The result's cells follow one another.
    pub(crate) keep_cells: bool,
}

/// What a sort did.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
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

impl Summary {
    /// What these phases did; how long all took is not known yet.
    pub(super) fn of(mesh: &Mesh, phases: Phases, file: String, output: String) -> Summary {
        Summary {
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
            checksum: format!("{:016x}", phases.tally.sum),
            phases: phases.done,
        }
    }

    /// Notes the time since it began.
    pub(super) fn took(&mut self, began: Instant) {
        self.seconds = began.elapsed().as_secs_f64();
        self.mib_per_second = mib_per_second(self.bytes, self.seconds);
    }
}

/// The file to sort, as it was when the sort began.
struct Source {
    place: Place,
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
    pub(crate) async fn run(&self) -> Result<Summary> {
        let began = Instant::now();
        let place = Place::resolve(self.volume, self.file).await?;
        let target = match self.output {
            Some(output) => Place::resolve(self.volume, output).await?,
            None => place.clone(),
        };
        // Before hours of sorting, not at the rename that ends them.
        target.refuse_directory(self.volume).await?;
        let mut scratch = Scratch::beside(self.volume, target.clone())?;
        let done = unless_interrupted(self.steps(&mut scratch, place, &target)).await;
        let discarded = scratch.discard().await;
        match (done, discarded) {
            (Ok(mut summary), Ok(())) => {
                summary.took(began);
                Ok(summary)
            }
            (Ok(_), Err(left)) => Err(left.context(format!("{} is sorted, but", target.show()))),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
        }
    }

    async fn steps(&self, scratch: &mut Scratch, place: Place, target: &Place) -> Result<Summary> {
        let source = self.source(place).await?;
        // The file to sort may itself be a temporary file of the sort's caller.
        let stale = scratch.stale().await?;
        for stale in stale.iter().filter(|stale| **stale != source.place) {
            output::say(format_args!(
                "weft: note: {0} belongs to another sort of {1}; if none is running, one was killed: `weft rm {0}`",
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
            let jobs: Vec<Job> = (0..self.workers)
                .map(|worker| Job {
                    worker,
                    mesh: mesh.clone(),
                    order: self.order,
                    source: Handed::Weft(source.file.hand_over()),
                    source_order: source.order.clone(),
                    scratch: mesh_file.as_ref().map(|f| Handed::Weft(f.hand_over())),
                    output: Handed::Weft(output.hand_over()),
                    output_order: output_order.clone(),
                })
                .collect();
            let synced = Box::pin(async { Ok(output.sync().await?) });
            phases::work(self.global, &mesh, &jobs, synced).await?
        } else {
            output.sync().await?;
            Phases::default()
        };
        // The workers wrote, but this process tells of it.
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
        let summary = Summary::of(&mesh, phases, source.place.show(), target.show());
        Ok(Summary {
            kept_cells: self.keep_cells,
            ..summary
        })
    }

    async fn source(&self, place: Place) -> Result<Source> {
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
                    "cell {cell} of {} has {length} bytes, which is no multiple of the record, {record} bytes",
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
                "{} has {bytes} bytes, which is no multiple of the record: {} records of {record} bytes and {} bytes \
                 more",
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

    /// Layout of the result, and the order of its bytes.
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

    /// Fails if the file changed since the sort began: the result would not hold the change.
    async fn unchanged(&self, source: &Source) -> Result<()> {
        let now = self.volume.stat(source.place.path()).await?;
        let then = &source.before;
        if (now.id, now.size, now.modified) != (then.id, then.size, then.modified) {
            bail!(
                "{} was changed while it was being sorted: nothing was replaced; sort it again",
                source.place.show()
            );
        }
        Ok(())
    }
}

/// What the result takes over from the file.
fn changes(from: &Attributes, made: &Attributes) -> Changes {
    Changes {
        mode: Some(from.mode & 0o7777),
        uid: (from.uid != made.uid).then_some(from.uid),
        gid: (from.gid != made.gid).then_some(from.gid),
        ..Changes::default()
    }
}
