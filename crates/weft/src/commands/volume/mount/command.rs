//! `weft mount`: the process of a mount, from its start to its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weft_client::Volume;
use weft_mount::data::{DataCache, DataConfig};
use weft_mount::fs::{FileSystem, Options};
use weft_mount::fuse;

use super::args::Mount;
use super::source::source;
use super::{background, options, path, remount};
use crate::args::Global;
use crate::limits::KERNEL_READ_AHEAD_KIB;
use crate::process::processors::shallow_idle;
use crate::process::{log, threads};
use crate::remote::connect;
use crate::terminal::output;
use crate::volume_config::{hex, volume_id};

impl Mount {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if self.options.remount {
            let path = remount::remount(&self.path, &self.options)?;
            self.say(format!("remounted {}", path.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        options::take_key(&mut global, self.options.key_file.as_deref())?;
        if !self.foreground {
            let path = background::start(&global, &self)?;
            self.say(format!("mounted on {}", path.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.report {
            return self.serve(&global, || Ok(()));
        }
        // Fails only if this process already leads a group; then it is detached enough.
        let _ = rustix::process::setsid();
        let outcome = self
            .serve(&global, || background::report(""))
            .map_err(|e| connect::explained(&global, e))
            .inspect_err(|e| {
                // The reader is gone after the first report.
                let _ = background::report(&output::error(e));
            })?;
        Ok(outcome)
    }

    fn say(&self, what: String) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        output::line(what)
    }

    /// Mounts, calls `ready`, and serves until the mount is unmounted.
    fn serve(&self, global: &Global, ready: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
        log::start("warn,weft=info,weft_mount=info", self.report);
        let path = path::prepare(&self.path)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        // A thread that serves a ring stays on its processor; threads that it makes must not.
        let processors = rustix::thread::sched_getaffinity(None).ok();
        builder.on_thread_start(move || {
            if let Some(processors) = &processors {
                let _ = rustix::thread::sched_setaffinity(None, processors);
            }
        });
        let runtime = threads::lasting(builder.thread_name("weft-mount"))?;
        let mut connect = self.options.connect(connect::options(global)?)?;
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        connect.name = format!("mount {} on {host}", path.display());
        let options = Options {
            volume: hex(&volume_id(&connect.key)),
            ..self.options.file_system()
        };
        let volume = runtime.block_on(async {
            let volume = Volume::connect(connect).await?;
            volume.known_attributes("/").await?;
            anyhow::Ok(volume)
        })?;
        let data = DataConfig {
            write_behind: !self.options.strict,
            ..DataConfig::default()
        };
        let cache = DataCache::new(data, runtime.handle().clone());
        let fs = Arc::new(FileSystem::new(volume, cache, options));
        let mount = fuse::Mount {
            path: path.clone(),
            appearance: self.options.appearance(source(global)?),
            threads: threads(),
            read_ahead_kib: KERNEL_READ_AHEAD_KIB,
            io_uring: self.options.io_uring,
            processors: shallow_idle(!self.options.deep_idle),
        };
        // Set up before mounting: a signal in between would end the process and leave a dead mount.
        let ends = listen_for_signals(&runtime)?;
        let running = mount.start(fs.clone(), runtime.handle())?;
        std::fs::metadata(&path)
            .with_context(|| format!("{} is mounted but does not respond", path.display()))?;
        unmount_on(ends, &runtime, path);
        let watching = runtime.spawn(fs.clone().follow_changes());
        ready()?;
        let ended = running.wait();
        watching.abort();
        runtime.block_on(fs.shutdown());
        ended.context("the kernel ended the mount")?;
        tracing::info!("unmounted");
        Ok(ExitCode::SUCCESS)
    }
}

/// Threads that receive requests from the kernel. They do not block, so a few suffice.
fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(2, usize::from)
        .clamp(2, 4)
}

/// Listens for the signals that end the process; those that arrive early are not lost.
fn listen_for_signals(runtime: &tokio::runtime::Runtime) -> Result<[Signal; 2]> {
    let _entered = runtime.enter();
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    let [terminate, interrupt] = kinds.map(signal);
    Ok([terminate?, interrupt?])
}

/// Unmounts on a signal, even while the mount is in use.
fn unmount_on(
    [mut terminate, mut interrupt]: [Signal; 2],
    runtime: &tokio::runtime::Runtime,
    path: PathBuf,
) {
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let unmounted = tokio::task::spawn_blocking(move || {
            fuse::detach(&path, false).or_else(|_| fuse::detach(&path, true))
        });
        if let Ok(Err(error)) = unmounted.await {
            tracing::error!(%error, "cannot unmount");
        }
    });
}
