//! The progress record that a running part of a transfer keeps at the target: which transfer it is,
//! and how far it came.
//!
//! Each part has one record: for an import an extended attribute of the file, for an export a small
//! file beside the local one. The records are removed when the last part is complete.
//!
//! Invariants:
//! 1. A record is durable before the part writes its first byte, so a part that finds bytes of
//!    another part also finds its record.
//! 2. `done` counts only synced bytes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use weft_client::{Place, Volume};
use weft_proto::Code;

use super::target::TargetState;
use crate::copy::TransferPart;
use crate::streams::blocking;

/// Records are attributes named by this prefix, the transfer's key and the part's number.
const XATTR: &str = "user.weft.import";

/// Which transfer: equal for all its parts and when it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::transfer) struct Identity {
    /// The source: its inode, or its id in the volume.
    pub(in crate::transfer) file: u64,
    /// Size of the source in bytes.
    pub(in crate::transfer) size: u64,
    /// Time of modification of the source, in nanoseconds since the epoch.
    pub(in crate::transfer) modified: i64,
    /// The view, its fork, and its first byte.
    pub(in crate::transfer) view: String,
    /// Bytes of the transfer.
    pub(in crate::transfer) length: u64,
    /// Number of parts.
    pub(in crate::transfer) parts: u32,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::transfer) struct ProgressRecord {
    pub(in crate::transfer) transfer: Identity,
    /// Everything of the part before this byte of the transfer is copied and synced.
    pub(in crate::transfer) done: u64,
    /// The part is copied, and verified if requested.
    pub(in crate::transfer) complete: bool,
    /// The state of the target then; absent if it was not open yet.
    #[serde(default)]
    pub(in crate::transfer) target: Option<TargetState>,
}

/// Where the records of a transfer are stored.
pub(in crate::transfer) enum ProgressRecords {
    /// The prefix of the names of attributes that hold records.
    File(Volume, u64, String),
    /// Files beside this one.
    Beside(PathBuf),
}

/// The records that were found.
#[derive(Default)]
pub(in crate::transfer) struct FoundRecords {
    /// By part.
    pub(in crate::transfer) records: Vec<(u32, ProgressRecord)>,
}

impl FoundRecords {
    /// The record of a part.
    pub(in crate::transfer) fn of(&self, part: TransferPart) -> Option<&ProgressRecord> {
        let mut records = self.records.iter();
        records.find(|(n, _)| *n == part.number).map(|(_, r)| r)
    }

    /// Whether any part of this transfer has a record.
    pub(in crate::transfer) fn has(&self, transfer: &Identity) -> bool {
        self.records.iter().any(|(_, r)| r.transfer == *transfer)
    }

    fn complete(&self, transfer: &Identity) -> bool {
        let complete = |(_, r): &&(u32, ProgressRecord)| r.complete && r.transfer == *transfer;
        self.records.iter().filter(complete).count() == transfer.parts as usize
    }
}

impl ProgressRecords {
    /// The records of an import through a view. Imports through other views have other records.
    pub(in crate::transfer) fn of_import(
        volume: &Volume,
        file: u64,
        view: &str,
        parts: u32,
    ) -> ProgressRecords {
        let key = blake3::hash(format!("{view} {parts}").as_bytes());
        let prefix = format!("{XATTR}.{}.", &key.to_hex()[..8]);
        ProgressRecords::File(volume.clone(), file, prefix)
    }

    /// The records of an export to a local file.
    pub(in crate::transfer) fn of_export(path: &Path, parts: u32) -> ProgressRecords {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".weft-export-{parts}."));
        ProgressRecords::Beside(name.into())
    }

    /// All records.
    pub(in crate::transfer) async fn find(&self) -> Result<FoundRecords> {
        let mut found = FoundRecords::default();
        match self {
            ProgressRecords::File(volume, id, prefix) => {
                for name in volume.list_xattr(Place::of(*id)).await? {
                    let number = name.strip_prefix(prefix.as_bytes());
                    let number = number.and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
                    let Some(number) = number else { continue };
                    match volume.get_xattr(Place::of(*id), &name).await {
                        Ok(value) => found.records.extend(read(number, &value)),
                        // The transfer ended meanwhile.
                        Err(e) if e.code() == Code::NoAttribute => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
            ProgressRecords::Beside(prefix) => {
                let place = prefix.clone();
                let files = blocking(move || beside(&place)).await.with_context(|| {
                    format!("cannot look for the progress records {}*", prefix.display())
                })?;
                for (number, value) in files {
                    found.records.extend(read(number, &value));
                }
            }
        }
        Ok(found)
    }

    /// Stores a part's record, durably.
    pub(in crate::transfer) async fn store(
        &self,
        part: TransferPart,
        record: &ProgressRecord,
    ) -> Result<()> {
        let value = serde_json::to_vec(record)?;
        match self {
            ProgressRecords::File(volume, id, prefix) => {
                let name = format!("{prefix}{}", part.number);
                volume.set_xattr(Place::of(*id), name, value).await?;
            }
            ProgressRecords::Beside(prefix) => {
                let place = of_part(prefix, part.number);
                let name = place.display().to_string();
                blocking(move || replace(&place, &value))
                    .await
                    .with_context(|| format!("cannot record the progress in {name}"))?;
            }
        }
        Ok(())
    }

    /// Removes all records if every part is complete. Returns whether every part is.
    pub(in crate::transfer) async fn end(&self, transfer: &Identity) -> Result<bool> {
        if !self.find().await?.complete(transfer) {
            return Ok(false);
        }
        for number in 1..=transfer.parts {
            // Two parts may end at the same time.
            self.remove(number).await?;
        }
        Ok(true)
    }

    /// Removes a part's record, if there is one.
    pub(in crate::transfer) async fn remove(&self, number: u32) -> Result<()> {
        match self {
            ProgressRecords::File(volume, id, prefix) => {
                let name = format!("{prefix}{number}");
                match volume.remove_xattr(Place::of(*id), name).await {
                    Err(e) if e.code() != Code::NoAttribute => Err(e.into()),
                    _ => Ok(()),
                }
            }
            ProgressRecords::Beside(prefix) => {
                let place = of_part(prefix, number);
                match blocking(move || std::fs::remove_file(place)).await {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.into()),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Parses a record; `None` for a torn one or one of another version.
fn read(number: u32, value: &[u8]) -> Option<(u32, ProgressRecord)> {
    Some((number, serde_json::from_slice(value).ok()?))
}

fn of_part(prefix: &Path, number: u32) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(number.to_string());
    name.into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn beside(prefix: &Path) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let Some(begin) = prefix.file_name() else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder_of(prefix))? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name
            .as_encoded_bytes()
            .strip_prefix(begin.as_encoded_bytes());
        let number = rest.and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
        if let Some(number) = number {
            match std::fs::read(entry.path()) {
                Ok(value) => found.push((number, value)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(found)
}

/// Replaces a file atomically: after power loss, either the old or the new one exists.
fn replace(path: &Path, value: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let write = || {
        let mut file = std::fs::File::create(&fresh)?;
        file.write_all(value)?;
        file.sync_data()?;
        std::fs::rename(&fresh, path)
    };
    if let Err(error) = write() {
        // Nothing that looks like a record is left, also on a full disk.
        let _ = std::fs::remove_file(&fresh);
        return Err(error);
    }
    std::fs::File::open(folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(done: u64, complete: bool) -> ProgressRecord {
        let transfer = Identity {
            file: 1,
            size: 2,
            modified: -3,
            view: "v".to_owned(),
            length: 2,
            parts: 2,
        };
        ProgressRecord {
            transfer,
            done,
            complete,
            target: Some(TargetState {
                file: Some(4),
                size: 2,
            }),
        }
    }

    #[tokio::test]
    async fn records_beside_a_file_are_found_replaced_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let records = ProgressRecords::of_export(&folder.path().join("a"), 2);
        let other = ProgressRecords::of_export(&folder.path().join("a.b"), 2);
        let parts = [1, 2].map(|number| TransferPart { number, of: 2 });
        other.store(parts[0], &record(9, false)).await.unwrap();
        assert!(records.find().await.unwrap().records.is_empty());

        records.store(parts[0], &record(1, false)).await.unwrap();
        records.store(parts[0], &record(2, true)).await.unwrap();
        let found = records.find().await.unwrap();
        assert_eq!(found.of(parts[0]), Some(&record(2, true)));
        assert!(found.of(parts[1]).is_none() && found.has(&record(0, false).transfer));
        assert!(!records.end(&record(0, false).transfer).await.unwrap());

        records.store(parts[1], &record(2, true)).await.unwrap();
        assert!(records.end(&record(0, false).transfer).await.unwrap());
        assert!(records.find().await.unwrap().records.is_empty());
        assert_eq!(other.find().await.unwrap().records.len(), 1);

        // A record of a version without `target` is valid.
        let older = serde_json::to_string(&record(1, false)).unwrap();
        let older = older.replace(r#","target":{"file":4,"size":2}"#, "");
        std::fs::write(folder.path().join("a.weft-export-2.1"), &older).unwrap();
        let found = records.find().await.unwrap();
        let known = found.of(parts[0]).unwrap();
        assert!(known.done == 1 && known.target.is_none(), "{older}");

        // A torn record is ignored.
        std::fs::write(folder.path().join("a.weft-export-2.1"), b"{\"done\":").unwrap();
        assert!(records.find().await.unwrap().records.is_empty());
    }
}
