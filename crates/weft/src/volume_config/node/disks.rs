//! What a server's section of the configuration says about its store: folder, disks, bounds.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::statvfs;
use weft_kv::{FjallKv, FjallOptions};
use weft_store::{
    DeviceStorage, DiskConfig, DiskState, FolderStorage, INDEX_MEMTABLE, Storage, Store,
    StoreConfig, StoreError,
};

use super::marker::Marker;
use crate::volume_config::config::file::{Config, NodeName, ServerSection};
use crate::volume_config::config::identity::volume_id;

/// The configuration of a server's store. `new`: disks without a label are added to it.
pub(crate) fn store_config(
    config: &Config,
    section: &ServerSection,
    folder: &Path,
    new: bool,
) -> Result<StoreConfig> {
    let share = config.share();
    let options = FjallOptions {
        cache: share.engine(),
        memtable: INDEX_MEMTABLE,
        ..FjallOptions::default()
    };
    let index = FjallKv::open(folder.join("index"), options)?;
    let storage = FolderStorage::open(&folder.join("store"))?;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("cannot read the machine's boot id from /proc/sys/kernel/random/boot_id")?;
    let boot_id = boot_id.trim().to_owned();
    let mut store = StoreConfig::new(Arc::new(storage), Arc::new(index), boot_id);
    store.fit(total(folder)?);
    store.cache_bytes = section.cache.map_or_else(|| share.cache(), |size| size.0);
    let capacity = section.capacity.map_or(u64::MAX, |c| c.0);
    store.capacity = if section.data { capacity } else { 0 };
    let marker = Marker::new(volume_id(&config.key()?), NodeName::Server(section.name()));
    store.owner = format!("{} of volume {}", marker.node, marker.volume);
    for disk in &section.disks {
        let path = config.at(disk);
        let disk = open(&path, new)?;
        let shared = path.is_dir() && device(&path) == device(folder);
        store.disks.push(DiskConfig {
            reserve: if shared {
                store.reserve_bytes
            } else {
                total(&path).unwrap_or(0) / 64
            },
            path: path.display().to_string(),
            storage: disk,
            new,
            capacity,
        });
    }
    Ok(store)
}

/// Labels the new disks of a stopped server. Returns all its disks.
pub(crate) fn label_disks(
    config: &Config,
    section: &ServerSection,
) -> Result<Vec<weft_store::DiskStatus>> {
    let folder = NodeName::Server(section.name()).folder(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = Store::open(store_config(config, section, &folder, true)?).await?;
        let disks = store.disks();
        store.close().await?;
        Ok(disks)
    })
}

/// Refuses a path that cannot be a disk of a new volume, before anything is written anywhere.
pub(crate) fn check_new_disk(path: &Path) -> Result<()> {
    let disk = DiskConfig {
        path: path.display().to_string(),
        storage: open(path, true)?,
        new: true,
        capacity: 0,
        reserve: 0,
    };
    Ok(disk.check_new()?)
}

/// A disk that cannot be reached is missing; a disk that another process uses is an error.
fn open(path: &Path, new: bool) -> Result<Result<Arc<dyn Storage>, String>> {
    let done: Result<Arc<dyn Storage>, StoreError> = match std::fs::metadata(path) {
        Ok(kind) if kind.is_dir() => FolderStorage::open(path).map(|s| Arc::new(s) as _),
        Ok(_) => DeviceStorage::open(path).map(|s| Arc::new(s) as _),
        Err(_) if new => FolderStorage::open(path).map(|s| Arc::new(s) as _),
        Err(error) => return Ok(Err(format!("{}: {error}", path.display()))),
    };
    match done {
        Ok(storage) => Ok(Ok(storage)),
        // Such as a loop device that nothing is attached to.
        Err(error @ StoreError::Disk { .. }) if !new => Ok(Err(error.to_string())),
        Err(error @ (StoreError::Locked { .. } | StoreError::Disk { .. })) => Err(error.into()),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Bytes of the file system that holds a path.
fn total(path: &Path) -> Result<u64> {
    let stat = statvfs(path).with_context(|| format!("cannot examine {}", path.display()))?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata(path).ok()?.dev())
}

/// The name of a disk's state.
pub(crate) fn disk_state(state: DiskState) -> &'static str {
    match state {
        DiskState::InUse => "in use",
        DiskState::Full => "full",
        DiskState::Failed => "failed",
        DiskState::Missing => "missing",
        DiskState::Closed => "no new data",
    }
}
