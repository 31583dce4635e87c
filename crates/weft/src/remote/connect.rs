//! Finds the volume that the command line names, and connects to it.

use anyhow::{Result, bail};
use parking_lot::Mutex;
use weft_client::{ConnectOptions, Volume};

use crate::args::Global;
use crate::limits::CLOSE_REPORT_TIMEOUT;
use crate::volume_config::{self, Config, NodeName, lock_of};

/// The volumes that this command has connected to.
static CONNECTED: Mutex<Vec<Volume>> = Mutex::new(Vec::new());

/// How to reach the volume: `--address` and `--key-file`, else `--volume` or `WEFT_VOLUME`, else
/// `./weft-volume`.
pub(crate) fn options(global: &Global) -> Result<ConnectOptions> {
    let mut options = locate(global)?;
    options.wire = global.wire().unwrap_or(options.wire);
    Ok(options)
}

fn locate(global: &Global) -> Result<ConnectOptions> {
    if let (Some(address), Some(key)) = (global.address(), global.key()) {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            bail!(
                "{address:?} is not an address: write HOST:PORT, as `weft status` shows it for the node meta"
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
         (`weft up DIR` creates one)"
    )
}

/// Explains an unreachable metadata service, if the volume's folder on this machine shows that the
/// volume is not running.
pub(crate) fn explained(global: &Global, error: anyhow::Error) -> anyhow::Error {
    let unreachable = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<weft_client::Error>())
        .any(|cause| matches!(cause, weft_client::Error::Unreachable { .. }));
    if global.address().is_some() || !unreachable {
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
    let has_folder = |node: NodeName| node.folder(config).is_ok_and(|folder| folder.is_dir());
    if runs(NodeName::Meta) || !has_folder(NodeName::Meta) {
        return Ok(());
    }
    let dir = config.base.display();
    match config
        .nodes()
        .into_iter()
        .filter(|node| runs(*node))
        .count()
    {
        0 => bail!("volume {dir} is not running: start it with `weft up {dir}`"),
        1 => bail!(
            "the metadata service of volume {dir} is not running (1 server is): start it with `weft up {dir}`"
        ),
        n => bail!(
            "the metadata service of volume {dir} is not running ({n} servers are): start it with `weft up {dir}`"
        ),
    }
}

/// Connects to the volume that the command line names.
pub(crate) async fn volume(global: &Global) -> Result<Volume> {
    let volume = Volume::connect(options(global)?).await?;
    CONNECTED.lock().push(volume.clone());
    Ok(volume)
}

/// Reports to the service that the files of this command are closed. Otherwise the service would
/// keep removed files in case a failed command reconnects.
async fn report_closed() {
    let connected = std::mem::take(&mut *CONNECTED.lock());
    for volume in connected {
        // An unreachable service notices the lost connection.
        let _ = tokio::time::timeout(CLOSE_REPORT_TIMEOUT, volume.all_ended()).await;
    }
}

/// Runs a client command on a runtime of its own.
///
/// Only a few threads block: with up to 512 of them, copying 20,000 small files out took 1.5 times
/// the system time, spent on the lock of the directory that they fill.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2 * processors.max(2))
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let done = work.await;
        report_closed().await;
        done
    });
    // An interrupted command does not wait for a pending read of a terminal or pipe.
    runtime.shutdown_background();
    done
}
