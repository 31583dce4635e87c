//! Finds the volume that the command line names, and connects to it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use weft_client::{ConnectOptions, Volume};

use crate::args::Global;
use crate::volume_config::{self, Config, NodeName, lock_of};

/// How long an ending command waits until the service knows that its files are closed.
const LEAVE: Duration = Duration::from_secs(1);

/// The volumes that this command has connected to.
static CONNECTED: Mutex<Vec<Volume>> = Mutex::new(Vec::new());

/// How to reach the volume: `--address` and `--key-file`, else `--volume` or `WEFT_VOLUME`, else
/// `./weft-volume`.
pub(crate) fn options(global: &Global) -> Result<ConnectOptions> {
    let mut options = place(global)?;
    options.wire = global.wire().unwrap_or(options.wire);
    Ok(options)
}

fn place(global: &Global) -> Result<ConnectOptions> {
    if let (Some(address), Some(key)) = (global.address(), global.key()) {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            bail!(
                "{address:?} is no address: write HOST:PORT, as `weft status` shows it for the node meta"
            );
        }
        if matches!(key.try_exists(), Ok(false)) {
            bail!(
                "there is no key file {}: name the volume's key (volume.key of its folder, or a copy) by --key-file FILE, \
                 WEFT_KEY_FILE, or the mount option key_file=FILE",
                key.display()
            );
        }
        return Ok(ConnectOptions::from_address(address, key)?);
    }
    if let Some(folder) = global.folder() {
        return Ok(ConnectOptions::from_folder(folder)?);
    }
    let here = std::path::Path::new("weft-volume");
    if here.join(volume_config::ADDRESS).exists() {
        return Ok(ConnectOptions::from_folder(here)?);
    }
    bail!(
        "no volume named: give --volume DIR, set WEFT_VOLUME, or give --address HOST:PORT and --key-file FILE \
         (`weft up DIR` starts one)"
    )
}

/// Replaces the error that no service answers by the reason, if the volume's folder on this machine
/// shows that the volume is not running.
pub(crate) fn explained(global: &Global, error: anyhow::Error) -> anyhow::Error {
    let away = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<weft_client::Error>())
        .any(|cause| matches!(cause, weft_client::Error::Unreachable { .. }));
    if global.address().is_some() || !away {
        return error;
    }
    let here = std::path::Path::new("weft-volume");
    let folder = global.folder().unwrap_or(here);
    let Ok(config) = Config::read(folder) else {
        return error;
    };
    not_running(&config).err().unwrap_or(error)
}

/// Fails if the metadata service of a volume on this machine has no process.
pub(crate) fn not_running(config: &Config) -> Result<()> {
    let runs = |node: NodeName| matches!(lock_of(config, node), Ok(Some(_)));
    let at = |node: NodeName| node.folder(config).is_ok_and(|folder| folder.is_dir());
    if runs(NodeName::Meta) || !at(NodeName::Meta) {
        return Ok(());
    }
    let dir = config.base.display();
    match config
        .nodes()
        .into_iter()
        .filter(|node| runs(*node))
        .count()
    {
        0 => bail!("volume {dir} is not running; start it with `weft up {dir}`"),
        1 => bail!(
            "the metadata service of volume {dir} is not running (1 server is); start it with `weft up {dir}`"
        ),
        n => bail!(
            "the metadata service of volume {dir} is not running ({n} servers are); start it with `weft up {dir}`"
        ),
    }
}

/// Connects to the volume that the command line names.
pub(crate) async fn volume(global: &Global) -> Result<Volume> {
    let volume = Volume::connect(options(global)?).await?;
    let mut connected = CONNECTED.lock().unwrap_or_else(PoisonError::into_inner);
    connected.push(volume.clone());
    Ok(volume)
}

/// Tells the service that the files of this command are closed. Otherwise the service would wait
/// for a failed command to reconnect, and keep removed files for it.
async fn leave() {
    let connected = std::mem::take(&mut *CONNECTED.lock().unwrap_or_else(PoisonError::into_inner));
    for volume in connected {
        // A service that is away notices itself.
        let _ = tokio::time::timeout(LEAVE, volume.all_ended()).await;
    }
}

/// Runs a client command on a runtime of its own.
///
/// Few threads block: copying 20,000 small files out with up to 512 of them took half as much
/// system time again, waiting for the lock of the directory that they fill.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2 * processors.max(2))
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let done = work.await;
        leave().await;
        done
    });
    // An interrupted command does not wait for a pending read of a terminal or pipe.
    runtime.shutdown_background();
    done
}
