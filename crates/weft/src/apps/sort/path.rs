//! The leader of a sort on a path of any file system: for `weft bench sort --path`, which shows
//! what views are worth.
//!
//! The same phases, barriers and checks as on a volume; the file is replaced by a rename at the
//! end. Attributes are not carried over: the benchmark made the file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::job::{ByteOrder, Job};
use super::lead::Summary;
use super::mesh::Mesh;
use super::opened::Handed;
use super::phases;
use crate::apps::crew::unless_interrupted;
use crate::apps::record::RecordOrder;
use crate::args::Global;

/// A sort as it was asked for.
pub(crate) struct PathSorting<'a> {
    pub(crate) global: &'a Global,
    pub(crate) file: &'a Path,
    pub(crate) order: RecordOrder,
    pub(crate) workers: u32,
    /// Bytes for each worker.
    pub(crate) memory: u64,
}

/// A file beside the one that is sorted; it goes when it is dropped, whatever happened.
struct Beside(PathBuf);

impl PathSorting<'_> {
    /// Sorts.
    pub(crate) async fn run(&self) -> Result<Summary> {
        let began = Instant::now();
        let mut summary = unless_interrupted(self.steps()).await?;
        summary.took(began);
        Ok(summary)
    }

    async fn steps(&self) -> Result<Summary> {
        let shown = self.file.display().to_string();
        let record = self.order.size() as u64;
        let before = fs::metadata(self.file).with_context(|| format!("cannot look at {shown}"))?;
        if before.len() == 0 || before.len() % record != 0 {
            bail!(
                "{shown} has {} bytes, which is no multiple of the record, {record} bytes",
                before.len()
            );
        }
        let mesh = Mesh::new(before.len() / record, record, self.workers, self.memory)?;
        let output = Beside::make(self.file, "result")?;
        let cells = if mesh.cells > 1 {
            Some(Beside::make(self.file, "cells")?)
        } else {
            None
        };
        let jobs: Vec<Job> = (0..self.workers)
            .map(|worker| Job {
                worker,
                mesh: mesh.clone(),
                order: self.order,
                source: Handed::Posix(self.file.to_owned()),
                source_order: ByteOrder::Canonical,
                scratch: cells.as_ref().map(|c| Handed::Posix(c.0.clone())),
                output: Handed::Posix(output.0.clone()),
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
        Ok(Summary::of(&mesh, phases, shown.clone(), shown))
    }
}

impl Beside {
    /// Makes `.NAME.sort-PID.what` beside `file`.
    fn make(file: &Path, what: &str) -> Result<Beside> {
        let Some(name) = file.file_name() else {
            bail!("`{}` names no file", file.display());
        };
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".sort-{}.{what}", std::process::id()));
        let path = file.with_file_name(beside);
        let made = File::create_new(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Beside(path))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // The result is not there any more where it got its name.
        fs::remove_file(&self.0).ok();
    }
}
