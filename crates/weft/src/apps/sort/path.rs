//! The leader of a sort on a path of any file system: for `weft bench sort --path`, the baseline
//! without views.
//!
//! The same phases, barriers and checks as on a volume; the file is replaced by a rename at the
//! end. Attributes are not carried over: the benchmark made the file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::job::{ByteOrder, SortJob};
use super::leader::SortSummary;
use super::mesh::Mesh;
use super::opened::HandedFile;
use super::phases;
use crate::apps::crew::unless_interrupted;
use crate::apps::record::RecordOrder;
use crate::args::Global;

/// The request for a sort.
pub(crate) struct PathSorting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) file: &'a Path,
    pub(crate) order: RecordOrder,
    pub(crate) workers: u32,
    /// Bytes for each worker.
    pub(crate) memory: u64,
}

/// A scratch file beside the one that is sorted. Removed on drop.
struct ScratchFile(PathBuf);

impl PathSorting<'_> {
    /// Sorts.
    pub(crate) async fn run(&self) -> Result<SortSummary> {
        let began = Instant::now();
        let mut summary = unless_interrupted(self.steps()).await?;
        summary.set_time(began);
        Ok(summary)
    }

    async fn steps(&self) -> Result<SortSummary> {
        let shown = self.file.display().to_string();
        let record = self.order.size() as u64;
        let before = fs::metadata(self.file).with_context(|| format!("cannot examine {shown}"))?;
        if before.len() == 0 || before.len() % record != 0 {
            bail!(
                "{shown} has {} bytes, which is not a positive multiple of the record size, {record} bytes",
                before.len()
            );
        }
        let mesh = Mesh::new(before.len() / record, record, self.workers, self.memory)?;
        let output = ScratchFile::create(self.file, "result")?;
        let cells = if mesh.cells > 1 {
            Some(ScratchFile::create(self.file, "cells")?)
        } else {
            None
        };
        let jobs: Vec<SortJob> = (0..self.workers)
            .map(|worker| SortJob {
                worker,
                mesh: mesh.clone(),
                order: self.order,
                source: HandedFile::Posix(self.file.to_owned()),
                source_order: ByteOrder::Canonical,
                scratch: cells.as_ref().map(|c| HandedFile::Posix(c.0.clone())),
                output: HandedFile::Posix(output.0.clone()),
                output_order: ByteOrder::Canonical,
            })
            .collect();
        let path = output.0.clone();
        let synced = async {
            tokio::task::spawn_blocking(move || File::open(path)?.sync_all()).await??;
            Ok(())
        };
        let phases = phases::work(self.global, &mesh, &jobs, synced).await?;
        fs::rename(&output.0, self.file).with_context(|| format!("cannot replace {shown}"))?;
        Ok(SortSummary::of(&mesh, phases, shown.clone(), shown))
    }
}

impl ScratchFile {
    /// Creates `.NAME.sort-PID.what` beside `file`.
    fn create(file: &Path, what: &str) -> Result<ScratchFile> {
        let Some(name) = file.file_name() else {
            bail!("`{}` names no file", file.display());
        };
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".sort-{}.{what}", std::process::id()));
        let path = file.with_file_name(beside);
        let made = File::create_new(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(ScratchFile(path))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // The result no longer exists here once it was renamed.
        fs::remove_file(&self.0).ok();
    }
}
