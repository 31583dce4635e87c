//! `weft mount`: a volume under a path. The work is in `weft-mount`; here are the process, its options and its start.

mod background;
mod helper;
mod of_volume;
mod options;
mod path;
mod remount;
pub(crate) mod users;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weft_client::Volume;
use weft_mount::data::{DataCache, DataConfig};
use weft_mount::fs::{FileSystem, Options};
use weft_mount::fuse;

use crate::args::Global;
use crate::process::{log, threads};
use crate::remote::connect;
use crate::terminal::output;
use crate::volume_config::{hex, volume_id};

pub(crate) use background::start as in_background;
pub(crate) use helper::as_mount_helper;
pub(crate) use of_volume::{is_of_volume, take_along, unmount_of, with_volume};
pub(crate) use options::MountOptions;
pub(crate) use path::{prepare, real};

/// Put a volume under a path, for programs that never heard of Weft
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  weft --volume /srv/weft mount /mnt/weft             in the background; returns when it can be used
  weft --volume /srv/weft mount /mnt/weft -o strict   nothing is cached; what is written is there for all
  weft unmount /mnt/weft

Options (-o, with commas between them):
  ro, nodev, nosuid, noexec    as for any file system
  relatime, noatime, strictatime, nodiratime
                               which reads change access times, as for any file system (default: relatime)
  remount                      the volume is mounted there: changes those of its options that are named above
  allow_other                  other users may use it (always so when root mounts)
  strict                       no caches: reads and writes go to the servers, attributes to the service
  durable                      making, renaming and removing names returns when it survives power loss
  attr_timeout=S               seconds that the kernel may believe attributes (default: while they are true)
  entry_timeout=S              seconds that the kernel may believe names (default: while they are true)
  fsname=NAME                  what the table of mounts shows (default: the volume's folder or address)
  key_file=FILE                as --key-file
  wire=LEVEL                   as --wire
  log=FILE                     as --log

The mount's process writes what it has to say to a log, named after the path: of a mount on /mnt/weft, mount-mnt-weft.log. It is in \
DIR/log of a volume that is named by its folder DIR; of one that is named by its address, in /var/log/weft for root, and in \
$XDG_STATE_HOME/weft (~/.local/state/weft) for other users.

mount(8) and /etc/fstab know volumes, by folder or by address, if `mount.fuse.weft` in /sbin is a link to this program:
  mount -t fuse.weft HOST:PORT /mnt/weft -o key_file=FILE
  mount -o remount,ro /mnt/weft
  /srv/weft  /mnt/weft  fuse.weft  defaults,_netdev  0 0    (a line of /etc/fstab)")]
pub(crate) struct Mount {
    /// An existing directory
    pub(crate) path: PathBuf,
    /// How it behaves; see below
    #[arg(short, value_name = "OPTIONS", value_parser = options::parse, default_value = "")]
    pub(crate) options: MountOptions,
    /// Stay in the foreground; end with Ctrl-C or by `weft unmount`
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Where the mount's process writes what it has to say (default: see below)
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Say on standard output whether it worked, and leave the terminal's session
    #[arg(long, hide = true)]
    pub(crate) report: bool,
    /// Say nothing where it works, as mount(8) expects of its helpers
    #[arg(long, hide = true)]
    pub(crate) quiet: bool,
}

impl Mount {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if self.options.remount {
            let path = remount::remount(&self.path, &self.options)?;
            self.say(format!("remounted {}", path.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        options::take_key(&mut global, self.options.key_file.as_deref())?;
        if !self.foreground {
            let path = in_background(&global, &self)?;
            self.say(format!("mounted on {}", path.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.report {
            return self.serve(&global, || Ok(()));
        }
        // Fails only where this process leads a group already, and then it is detached enough.
        let _ = rustix::process::setsid();
        let outcome = self
            .serve(&global, || background::report(""))
            .map_err(|e| connect::explained(&global, e))
            .inspect_err(|e| {
                // After the first word nobody listens any more.
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

    /// Mounts, calls `ready`, and serves until it is unmounted.
    fn serve(&self, global: &Global, ready: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
        log::start("warn,weft=info,weft_mount=info", self.report);
        let path = path::prepare(&self.path)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads::lasting(builder.thread_name("weft-mount"))?;
        let mut connect = self.options.connect(connect::options(global)?);
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
            read_ahead_kib: READ_AHEAD_KIB,
        };
        // From before it is mounted on: a process that ended by one then would leave a dead mount.
        let ends = hear_signals(&runtime)?;
        let running = mount.start(fs.clone(), runtime.handle())?;
        std::fs::metadata(&path)
            .with_context(|| format!("{} is mounted but does not answer", path.display()))?;
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

/// What the kernel reads ahead of a program that reads a file from its start, enough for several servers.
const READ_AHEAD_KIB: u32 = 4096;

/// Threads that take requests from the kernel: they do not wait, so few are enough.
fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(2, usize::from)
        .clamp(2, 4)
}

/// What the kernel's table shows: the volume's folder, or its address.
pub(crate) fn source(global: &Global) -> Result<OsString> {
    if let Some(address) = &global.address {
        return Ok(address.into());
    }
    Ok(folder(global)?.into_os_string())
}

/// The volume's folder, whole, so that the command line of a process in the background names it.
pub(crate) fn folder(global: &Global) -> Result<PathBuf> {
    let folder = global
        .volume
        .clone()
        .unwrap_or_else(|| "weft-volume".into());
    std::fs::canonicalize(&folder)
        .with_context(|| format!("cannot use the volume's folder {}", folder.display()))
}

/// The signals that end the process; one that comes before it is waited for is not lost.
fn hear_signals(runtime: &tokio::runtime::Runtime) -> Result<[Signal; 2]> {
    let _entered = runtime.enter();
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    let [terminate, interrupt] = kinds.map(signal);
    Ok([terminate?, interrupt?])
}

/// Whoever ends the process wants it unmounted; those who still use it lose it.
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
