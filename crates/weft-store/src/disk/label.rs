//! Labels: the server and number of a disk.

use std::io;
use std::sync::Arc;

use crate::config::{DiskConfig, StoreConfig};
use crate::error::StoreError;
use crate::pool::BLOCK;
use crate::record::LabelRecord;
use crate::storage::{FileKind, Storage};

/// The name of a disk's file of blocks.
pub(crate) const DATA: &str = "data";
/// The name of a disk's label.
pub(crate) const LABEL: &str = "label";

/// Names that a folder for a new disk may contain.
const HARMLESS: [&str; 3] = ["lock", "lost+found", DATA];

pub(crate) enum DiskProbe {
    Labelled(u16, Arc<dyn Storage>),
    New(Arc<dyn Storage>),
    Missing(String),
}

/// Whether a disk has its file of blocks.
pub(crate) fn has_data(storage: &dyn Storage) -> bool {
    storage
        .list()
        .is_ok_and(|names| names.iter().any(|name| name == DATA))
}

/// Reads the label at a path of the configuration.
pub(crate) fn probe(disk: &DiskConfig, owner: &str) -> Result<DiskProbe, StoreError> {
    let storage = match &disk.storage {
        Ok(storage) => Arc::clone(storage),
        Err(reason) => return Ok(DiskProbe::Missing(reason.clone())),
    };
    let wrong = |reason: String| StoreError::Disk {
        path: disk.path.clone(),
        reason,
    };
    let names = match storage.list() {
        Ok(names) => names,
        Err(error) => return Ok(DiskProbe::Missing(error.to_string())),
    };
    if !names.iter().any(|n| n == LABEL) {
        if !disk.new {
            let reason = "it has no label: is it mounted? A new, empty disk gets one by `weft format --new-disks`";
            return Ok(DiskProbe::Missing(reason.to_owned()));
        }
        if let Some(name) = names.iter().find(|n| !HARMLESS.contains(&n.as_str())) {
            return Err(wrong(format!("it is not empty: it holds {name:?}")));
        }
        return Ok(DiskProbe::New(storage));
    }
    let label = storage
        .open(LABEL, FileKind::Log)
        .and_then(|f| f.read_buffered(0, BLOCK));
    let label = match label {
        Ok(bytes) => match LabelRecord::decode(&bytes) {
            Ok(label) => label,
            Err(StoreError::Corrupt { .. }) if disk.new && is_empty(&*storage) => {
                // A crash interrupted its write: the disk has no data yet.
                return Ok(DiskProbe::New(storage));
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                let help = "`weft fsck --offline DIR --repair` writes its label anew if it can tell which disk it is";
                return Err(wrong(format!("{error}. {help}")));
            }
            Err(error) => return Err(wrong(error.to_string())),
        },
        Err(error) => return Ok(DiskProbe::Missing(error.to_string())),
    };
    if label.owner != owner {
        return Err(wrong(format!(
            "it belongs to {}, not to {owner}",
            label.owner
        )));
    }
    Ok(DiskProbe::Labelled(label.number, storage))
}

impl DiskConfig {
    /// Refuses a disk for a new store if it is not empty, belongs to another store, or is missing.
    /// Writes nothing.
    ///
    /// # Errors
    /// [`StoreError::Disk`].
    pub fn check_new(&self) -> Result<(), StoreError> {
        let refused = |reason| {
            Err(StoreError::Disk {
                path: self.path.clone(),
                reason,
            })
        };
        match probe(self, "a new volume")? {
            DiskProbe::New(_) => Ok(()),
            DiskProbe::Missing(reason) => refused(reason),
            DiskProbe::Labelled(..) => refused("it has a label already".to_owned()),
        }
    }
}

fn is_empty(storage: &dyn Storage) -> bool {
    let data = storage.open(DATA, FileKind::Data);
    data.and_then(|file| file.length()).is_ok_and(|n| n == 0)
}

pub(crate) async fn write_label(
    storage: &dyn Storage,
    number: u16,
    config: &StoreConfig,
) -> Result<(), StoreError> {
    let fail = |e: io::Error| StoreError::io("write the label of", "a disk", &e);
    let file = storage.open(LABEL, FileKind::Log).map_err(fail)?;
    let owner = config.owner.clone();
    file.truncate(0).map_err(fail)?;
    file.write_buffered(0, &LabelRecord { number, owner }.encode())
        .map_err(fail)?;
    file.sync().await.map_err(fail)?;
    storage.sync_folder().map_err(fail)
}
