//! All that is known of an open file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::time::Instant;
use weft_client::{Attributes, File};
use weft_proto::Code;

use super::extents::Extents;
use super::fetch::Ahead;
use super::stream::Streams;
use super::{DataError, Moment};

/// Under the file's lock.
pub(super) struct State {
    pub(super) extents: Extents,
    /// The attachment that wrote last: flushes go through it.
    pub(super) via: Option<File>,
    pub(super) home: Home,
    /// Counts ticks and flushes: a part's age.
    pub(super) epoch: u64,
    /// Parts of earlier epochs are to go to the servers.
    pub(super) due: u64,
    /// Batches on their way.
    pub(super) flights: usize,
    /// Nothing may take off: a truncate is under way.
    pub(super) held: bool,
    pub(super) ends: Ends,
    /// When it was last written here: a time that is set by hand after it must win, whenever the
    /// bytes are sent.
    pub(super) written: i64,
    /// When its content was last stored with the metadata, or truncated, by this mount.
    pub(super) changed: Moment,
    /// Calls of sync under way for which it is enough that what takes off now survives power loss.
    pub(super) syncing: usize,
    /// Bytes in the cells may not survive power loss yet.
    pub(super) unsynced: bool,
    /// When the content of an inline file was asked for, and when it last became doubtful: others
    /// may have changed it.
    pub(super) heard: Moment,
    pub(super) doubted: Moment,
    /// What the service said when all bytes as of this time of writing were stored with the
    /// metadata.
    pub(super) stored: Option<(i64, Attributes)>,
    pub(super) opens: BTreeMap<u64, Open>,
    pub(super) next_open: u64,
    pub(super) failures: u64,
    pub(super) last_failure: Option<DataError>,
}

/// Where the file's bytes are.
#[derive(Debug)]
pub(super) enum Home {
    /// In its cells.
    Cells,
    /// With its metadata: all of them.
    Inline(Bytes),
    /// They were told to move to the cells.
    Moving(Bytes),
}

/// What is known of the file's end.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// One past the last byte known of.
    pub(super) end: u64,
    /// When that was the size for certain, but for what this cache wrote since.
    pub(super) known: Option<Instant>,
    /// Questions under way.
    pub(super) asking: usize,
    /// One past the last byte that their answers may not tell of.
    pub(super) grown: u64,
    /// Answers to questions from before a truncate are worth nothing.
    pub(super) generation: u64,
    /// Answers to questions from before written data was lost are worth nothing either.
    pub(super) losses: u64,
    /// Questions so far, and the latest one whose answer is known.
    pub(super) asked: u64,
    pub(super) answered: u64,
}

/// One open.
pub(super) struct Open {
    pub(super) streams: Streams,
    pub(super) ahead: BTreeMap<u64, Arc<Ahead>>,
    /// Failures it was told of by a flush or a sync.
    pub(super) told: u64,
    /// Failures it was told of by a sync.
    pub(super) synced: u64,
    /// Failures of which a write told it that there is no room.
    pub(super) warned: u64,
    /// One past the last byte it wrote and when it last wrote, if it wrote.
    pub(super) wrote: Option<(u64, i64)>,
}

impl State {
    pub(super) fn new(file: &File, strict: bool) -> State {
        let attributes = file.attributes();
        let mut ends = Ends::default();
        if attributes.size_exact || file.created() {
            ends.end = attributes.size;
            ends.known = Some(Instant::now());
        }
        let home = match file.inline_data().filter(|_| !strict) {
            Some(content) => {
                ends.end = content.len() as u64;
                Home::Inline(content)
            }
            None => Home::Cells,
        };
        State {
            extents: Extents::default(),
            via: None,
            home,
            epoch: 1,
            due: 0,
            flights: 0,
            held: false,
            ends,
            written: 0,
            changed: Moment::default(),
            syncing: 0,
            // Whoever had it open before may not have synced it.
            unsynced: !file.created(),
            heard: Moment::default(),
            doubted: Moment::default(),
            stored: None,
            opens: BTreeMap::new(),
            next_open: 0,
            failures: 0,
            last_failure: None,
        }
    }

    /// Where the bytes are, and what they are if they lie with the metadata, as was asked then.
    /// False, and nothing is learned, if this mount has changed them since.
    pub(super) fn learn_home(&mut self, asked: Moment, inline: Option<Bytes>) -> bool {
        // What was stored since then the service may not have known when it answered.
        if self.changed > asked {
            return false;
        }
        self.heard = self.heard.max(asked);
        let (Home::Inline(content) | Home::Moving(content)) = &mut self.home else {
            return true;
        };
        if let Some(now) = inline {
            self.ends.end = self.extents.end().max(now.len() as u64);
            *content = now;
        } else {
            self.home = Home::Cells;
            self.ends.end = self.extents.end();
            self.ends.known = None;
        }
        true
    }

    /// Whether others may have changed the content of an inline file.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubted > self.heard && !matches!(self.home, Home::Cells)
    }

    pub(super) fn add_open(&mut self, read_ahead: u64) -> u64 {
        self.next_open += 1;
        let open = Open {
            streams: Streams::new(read_ahead),
            ahead: BTreeMap::new(),
            told: self.failures,
            synced: self.failures,
            warned: self.failures,
            wrote: None,
        };
        self.opens.insert(self.next_open, open);
        self.next_open
    }

    /// Everything written until now is to go.
    pub(super) fn all_due(&mut self) -> u64 {
        self.epoch += 1;
        self.due = self.due.max(self.epoch);
        self.epoch
    }

    /// A write happened; `end`: one past its last byte.
    pub(super) fn grown_to(&mut self, open: u64, end: u64) {
        self.ends.end = self.ends.end.max(end);
        self.ends.grown = self.ends.grown.max(end);
        self.written = now();
        if let Some(open) = self.opens.get_mut(&open) {
            let before = open.wrote.map_or(0, |(end, _)| end);
            open.wrote = Some((before.max(end), self.written));
        }
    }

    /// Drops what was read ahead of this range.
    pub(super) fn drop_ahead(&mut self, range: &Range<u64>) {
        for open in self.opens.values_mut() {
            open.ahead
                .retain(|_, ahead| ahead.end <= range.start || ahead.start >= range.end);
        }
    }

    /// Where written bytes were refused because there is no room for them, or no more is allowed:
    /// the next write is told so, once, instead of being taken. Sync and close tell it, too.
    pub(super) fn warned(&mut self, open: u64) -> Result<(), DataError> {
        let Some(failure) = &self.last_failure else {
            return Ok(());
        };
        if !matches!(failure.code(), Code::NoSpace | Code::QuotaExceeded) {
            return Ok(());
        }
        match self.opens.get_mut(&open) {
            Some(open) if open.warned != self.failures => {
                open.warned = self.failures;
                Err(failure.clone())
            }
            _ => Ok(()),
        }
    }

    /// Whether the end of the file is known, but for what others may write.
    pub(super) fn knows_end(&self) -> bool {
        self.ends.known.is_some() || !matches!(self.home, Home::Cells)
    }

    /// The failure that no sync has told this open yet.
    pub(super) fn untold_by_sync(&mut self, open: u64) -> Result<(), DataError> {
        let Some(open) = self.opens.get_mut(&open) else {
            return Ok(());
        };
        open.told = self.failures;
        if std::mem::replace(&mut open.synced, self.failures) == self.failures {
            return Ok(());
        }
        self.last_failure.clone().map_or(Ok(()), Err)
    }

    /// The failure that this open was not told of yet.
    pub(super) fn untold(&mut self, open: u64) -> Result<(), DataError> {
        let Some(open) = self.opens.get_mut(&open) else {
            return Ok(());
        };
        if std::mem::replace(&mut open.told, self.failures) == self.failures {
            return Ok(());
        }
        self.last_failure.clone().map_or(Ok(()), Err)
    }
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}
