//! A volume for one measurement, stopped and removed at its end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use weft_client::{ConnectOptions, Volume};

/// Where and how often to measure.
pub(crate) struct Setting {
    pub(crate) folder: PathBuf,
    weft: PathBuf,
    pub(crate) runs: usize,
}

impl Setting {
    pub(crate) fn new(folder: PathBuf, weft: Option<PathBuf>, runs: usize) -> Result<Setting> {
        let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("weft"));
        let weft = weft.map_or_else(beside, Ok)?;
        if !weft.exists() {
            bail!(
                "{} is not there: build it with `cargo build --release`",
                weft.display()
            );
        }
        Ok(Setting {
            folder,
            weft,
            runs: runs.max(1),
        })
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.weft
    }

    pub(crate) fn weft(&self, args: &[&str]) -> Result<Output> {
        let out = Command::new(&self.weft).args(args).output()?;
        if !out.status.success() {
            bail!(
                "weft {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(out)
    }

    /// Starts a fresh volume.
    pub(crate) fn volume(&self, servers: u32, cache: &str) -> Result<Running<'_>> {
        let folder = tempfile::Builder::new()
            .prefix("weft-bench-")
            .tempdir_in(&self.folder)?;
        let running = Running {
            setting: self,
            folder,
        };
        let servers = servers.to_string();
        self.weft(&["up", running.dir(), "--servers", &servers, "--cache", cache])?;
        Ok(running)
    }
}

/// A running volume.
pub(crate) struct Running<'a> {
    setting: &'a Setting,
    folder: TempDir,
}

impl Running<'_> {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn dir(&self) -> &str {
        self.folder
            .path()
            .to_str()
            .expect("a temporary folder's name is text")
    }

    pub(crate) async fn connect(&self) -> Result<Volume> {
        let options = ConnectOptions::from_folder(self.path())?;
        Volume::connect(options)
            .await
            .context("cannot connect to the volume just started")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.setting.weft(&["down", self.dir()]) {
            eprintln!("{error:#}");
        }
    }
}

/// A runtime for a client: one thread, as one process of a job has.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
