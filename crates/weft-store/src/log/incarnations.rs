//! The incarnations of the store so far, which tell whether a write that one of them acknowledged
//! still exists.
//!
//! The history ([`weft_kv::History`]) is in two files of 4 KiB beside the log, written in turn, so
//! that a crash during a write leaves the other one. They keep their size: an opening on a full
//! disk overwrites them. An unreadable history counts as none: then everything acknowledged under
//! earlier incarnations counts as lost, which a client must assume of a store that cannot prove
//! otherwise.
//!
//! Invariant: the history on stable storage names this incarnation before the store acknowledges
//! anything under it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_kv::History;

use crate::error::StoreError;
use crate::record::HistoryRecord;
use crate::storage::{FileKind, Storage};

/// The two files.
const FILES: [&str; 2] = ["incarnations.0", "incarnations.1"];
/// Bytes of each.
const FILE_BYTES: usize = 4096;

/// The incarnations of an open store, and the progress of its log.
pub(crate) struct Incarnations {
    history: History,
    /// Everything up to this frame is in the kernel: no later frame was acknowledged.
    appended: AtomicU64,
    /// Everything up to this frame is on stable storage.
    durable: AtomicU64,
}

impl Incarnations {
    /// Begins an incarnation of a store whose log was recovered up to frame `found`.
    ///
    /// # Durability
    /// On stable storage on return. If a full disk refuses new files, it lasts only until the next
    /// crash.
    pub(crate) async fn begin(
        storage: &dyn Storage,
        number: u64,
        found: u64,
        now: i64,
    ) -> Result<Incarnations, StoreError> {
        let (turn, mut history) = read(storage)?;
        history.begin(number, found, now);
        let record = HistoryRecord {
            turn: turn + 1,
            history: history.encode(),
        };
        match write(storage, &record).await {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(
                    "the disk is too full to record this incarnation of the store: after a crash, clients will count what they had not synced as lost"
                );
            }
            written => written.map_err(|e| StoreError::io("write", FILES[0], &e))?,
        }
        Ok(Incarnations {
            history,
            appended: AtomicU64::new(found),
            durable: AtomicU64::new(0),
        })
    }

    /// All incarnations, oldest first.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The last frame that is in the kernel.
    pub(crate) fn appended_through(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// The last frame that is on stable storage.
    pub(crate) fn durable_through(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Frames up to this one are in the kernel.
    pub(crate) fn appended(&self, sequence: u64) {
        self.appended.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Frames up to this one are on stable storage.
    pub(crate) fn synced(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
    }
}

/// The newest readable history, and its turn.
fn read(storage: &dyn Storage) -> Result<(u64, History), StoreError> {
    let fail = |e: io::Error| StoreError::io("read", FILES[0], &e);
    let names = storage.list().map_err(fail)?;
    let mut newest = (0, History::default());
    for name in FILES.iter().filter(|name| names.iter().any(|n| n == *name)) {
        let file = storage.open(name, FileKind::Log).map_err(fail)?;
        let bytes = file.read_buffered(0, FILE_BYTES).map_err(fail)?;
        let record = HistoryRecord::decode(&bytes);
        let known = record.and_then(|r| Some((r.turn, History::decode(&r.history)?)));
        match known {
            Some(known) if known.0 > newest.0 => newest = known,
            Some(_) => {}
            None => tracing::warn!(
                file = name,
                "this history of the store's incarnations is damaged"
            ),
        }
    }
    Ok(newest)
}

async fn write(storage: &dyn Storage, record: &HistoryRecord) -> io::Result<()> {
    let name = FILES[(record.turn % 2) as usize];
    let file = storage.open(name, FileKind::Log)?;
    let mut bytes = record.encode();
    bytes.resize(FILE_BYTES, 0);
    file.write_buffered(0, &bytes)?;
    file.sync().await?;
    storage.sync_folder()
}
