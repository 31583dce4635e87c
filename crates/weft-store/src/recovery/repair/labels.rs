//! Repair of disk labels.
//!
//! A label that cannot be read keeps the store from opening: a disk that is taken for another would
//! return other files' bytes. The index can identify the disk: exactly one disk has no readable
//! label, exactly one known number is missing, the disk's file is long enough for the blocks that
//! the index has on that number, and these blocks match their checksums. Then the label is written
//! again; otherwise the disk is left as it is, and the report says what can be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::{OpenBlocker, Repair};
use crate::config::{DiskConfig, StoreConfig};
use crate::disk::{DATA, LABEL, known_disks, write_label};
use crate::error::StoreError;
use crate::limits::LABEL_SAMPLE;
use crate::pool::{BLOCK, Buffer};
use crate::record::{CHUNKS, ChunkRecord, DiskRecord, LabelRecord, META, Place, checksum};
use crate::recovery::replay::each;
use crate::storage::{FileKind, Storage};

/// What is done to a label and to a disk's record.
const REWRITTEN: &str = "written again: the blocks that the index has on the disk are there";
const NO_PATH: &str = "written again; the path is only for reports";
/// What the owner of such a disk can do.
const ADVICE: &str = "Nothing was changed. Write its first 4,096 bytes back from a copy; or take the disk out of the configuration: \
                      then what lies on it cannot be read, and everything else can";

/// What the index has on a disk.
#[derive(Default)]
struct DiskContents {
    /// How many blocks the file must have at least.
    size: u64,
    /// Some blocks and their checksums.
    sample: Vec<(Place, u32)>,
}

impl Repair {
    /// Finds unreadable labels and records of disks; with `repair`, writes them again.
    pub(super) async fn repair_labels(&mut self, config: &StoreConfig) -> Result<(), StoreError> {
        let (mut seen, mut unread) = (BTreeMap::new(), Vec::new());
        for disk in &config.disks {
            match label_of(disk) {
                Some((_, Ok(label))) => drop(seen.insert(label.number, disk.path.clone())),
                Some((storage, Err(error))) => unread.push((disk, storage, error)),
                None => {}
            }
        }
        self.repair_disk_records(&seen)?;
        let known = known_disks(&*self.index).unwrap_or_default();
        let missing = known.iter().filter(|(n, _)| !seen.contains_key(n));
        let missing: Vec<_> = missing.collect();
        for (disk, storage, error) in &unread {
            let identified = match (&unread[..], &missing[..]) {
                ([_], [(number, path)]) => {
                    let fits = self.fits(&**storage, *number, *path == disk.path).await?;
                    fits.map(|()| *number)
                }
                (_, missing) => Err(format!(
                    "{} disks have no label that can be read, and {} that the index knows are not there",
                    unread.len(),
                    missing.len()
                )),
            };
            let (reason, repaired) = match identified {
                Ok(number) => {
                    if self.may_write() {
                        write_label(&**storage, number, config).await?;
                    }
                    let which = format!("{error}; it is disk {number}");
                    (which, self.may_write())
                }
                Err(why) => (
                    format!("{error}; which it is cannot be told: {why}. {ADVICE}"),
                    false,
                ),
            };
            self.obstacles.push(OpenBlocker {
                finding: None,
                reason: format!("disk {}: {reason}", disk.path),
                repaired,
                done: REWRITTEN,
            });
        }
        Ok(())
    }

    /// The records of disks in the index.
    fn repair_disk_records(&mut self, seen: &BTreeMap<u16, String>) -> Result<(), StoreError> {
        for (key, value) in self.next_pairs(META, None)? {
            let Some(number) = DiskRecord::decode_key(&key) else {
                continue;
            };
            if let Err(error @ StoreError::Corrupt { .. }) = DiskRecord::decode(&key, &value) {
                let path = seen.get(&number).cloned().unwrap_or_default();
                let repaired = self.replace(META, key, DiskRecord { path }.encode())?;
                self.obstacles.push(OpenBlocker {
                    finding: None,
                    reason: error.to_string(),
                    repaired,
                    done: NO_PATH,
                });
            }
        }
        self.write_changes()
    }

    /// Whether a disk holds what the index has on this number; if that is not certain, why.
    async fn fits(
        &self,
        storage: &dyn Storage,
        number: u16,
        same_path: bool,
    ) -> Result<Result<(), String>, StoreError> {
        let held = self.contents_of(number)?;
        let file = match storage.open(DATA, FileKind::Data) {
            Ok(file) => file,
            Err(error) => return Ok(Err(format!("its data cannot be opened: {error}"))),
        };
        let length = file.length().unwrap_or(0);
        if length < held.size * BLOCK as u64 {
            let (size, has) = (held.size, length / BLOCK as u64);
            return Ok(Err(format!(
                "disk {number} has {size} blocks at least, this one {has}"
            )));
        }
        let mut right = 0;
        for (place, crc) in &held.sample {
            let read = file.read_at(place.offset(), vec![self.pool.take(1)]).await;
            let same = |read: Vec<Buffer>| read.first().is_some_and(|b| checksum(b) == *crc);
            right += usize::from(read.is_ok_and(same));
        }
        let all = held.sample.len();
        Ok(match all {
            0 if same_path => Ok(()),
            0 => Err(format!(
                "the index has nothing on disk {number} to know it by"
            )),
            // Some blocks may have been damaged with the label.
            _ if right * 10 >= all * 9 => Ok(()),
            _ => Err(format!(
                "of {all} blocks on disk {number} it has {right} as they were written"
            )),
        })
    }

    fn contents_of(&self, number: u16) -> Result<DiskContents, StoreError> {
        let (mut held, mut after) = (DiskContents::default(), None);
        loop {
            let pairs = self.next_pairs(CHUNKS, after.as_deref())?;
            let Some((last, _)) = pairs.last() else {
                return Ok(held);
            };
            after = Some(last.clone());
            for (key, value) in &pairs {
                // An unreadable entry is reported by the walk over the chunks.
                let Ok(runs) = ChunkRecord::decode(key, value) else {
                    continue;
                };
                for (_, place, crc) in each(&runs).filter(|(_, at, _)| at.disk() == number) {
                    held.size = held.size.max(place.block() + 1);
                    if held.sample.len() < LABEL_SAMPLE {
                        held.sample.push((place, crc));
                    }
                }
            }
        }
    }
}

/// A disk's storage and its label.
type Label = (Arc<dyn Storage>, Result<LabelRecord, StoreError>);

/// The label of a disk that has one.
fn label_of(disk: &DiskConfig) -> Option<Label> {
    let storage = Arc::clone(disk.storage.as_ref().ok()?);
    if !storage.list().ok()?.iter().any(|name| name == LABEL) {
        return None;
    }
    let file = storage.open(LABEL, FileKind::Log).ok()?;
    let label = LabelRecord::decode(&file.read_buffered(0, BLOCK).ok()?);
    match label {
        // A label of a later version is not damaged.
        Err(StoreError::Version { .. }) => None,
        label => Some((storage, label)),
    }
}
