//! A volume for one measurement, stopped and removed at its end.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weft_client::{ConnectOptions, Volume};
use weft_suite::TemporaryVolume;

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

    /// The binary to measure.
    pub(crate) fn weft(&self) -> &Path {
        &self.weft
    }

    /// Starts a fresh volume.
    pub(crate) fn volume(&self, servers: u32, cache: &str) -> Result<Running> {
        let own = TemporaryVolume::start(&self.weft, &self.folder, servers, &["--cache", cache])?;
        Ok(Running(own))
    }
}

/// Ticks of /proc in a second: Linux says 100 to programs on every machine that matters.
const TICKS: f64 = 100.0;

/// A running volume.
pub(crate) struct Running(TemporaryVolume);

impl Running {
    /// The folder of the volume.
    pub(crate) fn folder(&self) -> String {
        self.0.path().display().to_string()
    }

    /// Stops it and starts it again: the servers remember nothing.
    pub(crate) fn restart(&self) -> Result<()> {
        Ok(self.0.restart()?)
    }

    /// Processor time of the I/O servers since they were started, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let mut ticks = 0;
        for pid in self.0.server_processes()? {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
            // Behind the name, which may hold anything: state, then 10 others, utime, stime.
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            let fields = fields.split_whitespace().skip(11).take(2);
            ticks += fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        }
        Ok(ticks as f64 / TICKS)
    }
}

impl Running {
    pub(crate) async fn connect(&self) -> Result<Volume> {
        let options = ConnectOptions::from_folder(self.0.path())?;
        Volume::connect(options)
            .await
            .context("cannot connect to the volume just started")
    }
}

/// A runtime for a client: one thread, as one process of a job has.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
