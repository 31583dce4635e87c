//! What goes with the part of a log that is lost, as far as frames of it can still be read: a repair marks it as lost, so that reading
//! it is an error and not what was there before.
//!
//! The marks are frames of the log (`Map` items with lost places, as in `give_up.rs`), in a segment behind what is left of it. They
//! are written before the log is cut: whoever is killed in between finds the same damage again, and the marks among what follows it.
//! A block is lost as a whole, also where only bytes of it were written. What a flush moved is not: what it moved is in the log.

use std::collections::{BTreeMap, BTreeSet};

use crate::chunk::push_block;
use crate::key::ForkKey;
use crate::pool::BLOCK;
use crate::read::by_chunk;
use crate::record::{ForkId, FrameRecord, ItemRecord, Place, RunsRecord, new_body};
use crate::replay::each;
use crate::write::BODY_SOFT;

/// Forks with their chunk sizes.
pub(crate) type Forks = BTreeMap<ForkId, (ForkKey, u32)>;

/// Blocks that were written to by frames that go.
#[derive(Default)]
pub(crate) struct Losses {
    forks: BTreeMap<ForkId, Lost>,
    /// The last time of such a frame.
    modified: i64,
}

#[derive(Default)]
struct Lost {
    /// By chunk.
    blocks: BTreeMap<u64, BTreeSet<u32>>,
    /// The fork was at least this long.
    end: u64,
    /// Chunks that were cut off, before it grew again.
    emptied: Vec<(u64, u64)>,
}

impl Lost {
    fn bytes(&mut self, size: u32, offset: u64, length: u64) {
        if size == 0 || length == 0 {
            return;
        }
        for range in by_chunk(size, offset, length) {
            let block = BLOCK as u32;
            let blocks = range.bytes.start / block..range.bytes.end.div_ceil(block);
            self.blocks.entry(range.chunk).or_default().extend(blocks);
        }
        self.end = self.end.max(offset + length);
    }

    /// Nobody has what lies from here on.
    fn cut(&mut self, size: u32, length: u64) {
        let size = u64::from(size);
        self.end = self.end.min(length);
        self.blocks.retain(|chunk, blocks| {
            blocks.retain(|block| chunk * size + u64::from(*block) * (BLOCK as u64) < length);
            !blocks.is_empty()
        });
    }

    fn and(&mut self, other: &Lost) {
        for (chunk, blocks) in &other.blocks {
            self.blocks.entry(*chunk).or_default().extend(blocks);
        }
        self.end = self.end.max(other.end);
        self.emptied.extend(&other.emptied);
    }
}

impl Losses {
    /// A frame of this time goes.
    pub(crate) fn frame(&mut self, modified: i64, items: &[ItemRecord], forks: &Forks) {
        self.modified = self.modified.max(modified);
        for item in items {
            self.item(item, forks);
        }
    }

    fn item(&mut self, item: &ItemRecord, forks: &Forks) {
        let size = |id: &ForkId| forks.get(id).map_or(0, |(_, size)| *size);
        match item {
            ItemRecord::Data { id, offset, data } => {
                let lost = self.forks.entry(*id).or_default();
                lost.bytes(size(id), *offset, data.len() as u64);
            }
            ItemRecord::Pieces { id, runs, .. } => {
                let lost = self.forks.entry(*id).or_default();
                for run in runs {
                    for n in 0..run.count {
                        lost.bytes(size(id), run.after(n).offset.0, run.length);
                    }
                }
            }
            ItemRecord::Map {
                id,
                chunk,
                end,
                runs,
                ..
            } => {
                let written = each(runs).filter(|(_, place, _)| *end > 0 || place.is_lost());
                let lost = self.forks.entry(*id).or_default();
                let blocks: BTreeSet<u32> = written.map(|(block, ..)| block).collect();
                if !blocks.is_empty() {
                    lost.blocks.entry(*chunk).or_default().extend(blocks);
                    lost.end = lost.end.max(*end);
                }
            }
            ItemRecord::Truncate { id, length } | ItemRecord::Cut { id, length } => {
                if let Some(lost) = self.forks.get_mut(id) {
                    lost.cut(size(id), *length);
                }
            }
            ItemRecord::Empty { id, from, to } => {
                let lost = self.forks.entry(*id).or_default();
                lost.emptied.push((*from, *to));
            }
            ItemRecord::Remove { id } => drop(self.forks.remove(id)),
            ItemRecord::Delete { file } => {
                let is = |id: &ForkId| forks.get(id).is_some_and(|(key, _)| key.file == *file);
                self.forks.retain(|id, _| !is(id));
            }
            _ => {}
        }
    }

    /// Frames that mark it, numbered from `sequence` on. `known`: the forks before the loss; `all`: with those that it made.
    pub(crate) fn marks(&self, known: &Forks, all: &Forks, mut sequence: u64) -> Vec<u8> {
        let mut lost: BTreeMap<ForkId, Lost> = BTreeMap::new();
        for (id, of) in &self.forks {
            if let Some(id) = Self::heir(*id, known, all) {
                lost.entry(id).or_default().and(of);
            }
        }
        let (mut out, mut body) = (Vec::new(), new_body(self.modified));
        let empty = body.len();
        let mut frame = |body: &mut Vec<u8>| {
            FrameRecord::append(&mut out, sequence, false, body);
            sequence += 1;
            *body = new_body(self.modified);
        };
        for (id, lost) in &lost {
            let Some((key, size)) = all.get(id).filter(|_| !lost.blocks.is_empty()) else {
                continue;
            };
            if !known.contains_key(id) {
                ItemRecord::Fork {
                    id: *id,
                    chunk: *size,
                    key: key.clone(),
                }
                .encode(&mut body);
            }
            for &(from, to) in &lost.emptied {
                ItemRecord::Empty { id: *id, from, to }.encode(&mut body);
            }
            for (chunk, blocks) in &lost.blocks {
                let mut runs = RunsRecord::default();
                for block in blocks.range(..size.div_ceil(BLOCK as u32)) {
                    push_block(&mut runs, *block, Place::LOST.plus(*block), 0, true);
                }
                ItemRecord::Map {
                    id: *id,
                    chunk: *chunk,
                    as_of: u64::MAX,
                    end: lost.end,
                    runs,
                }
                .encode(&mut body);
                if body.len() >= BODY_SOFT {
                    frame(&mut body);
                }
            }
        }
        if body.len() > empty {
            frame(&mut body);
        }
        out
    }

    /// Whose the bytes of a fork are when the part of the log that made it is gone: its own, where nobody has its name.
    fn heir(id: ForkId, known: &Forks, all: &Forks) -> Option<ForkId> {
        if known.contains_key(&id) {
            return Some(id);
        }
        let (key, size) = all.get(&id)?;
        // The living one of a name is the youngest: others are kept for checkpoints.
        match known.iter().rev().find(|(_, (k, _))| k == key) {
            Some((before, (_, before_size))) => (size == before_size).then_some(*before),
            None => Some(id),
        }
    }
}
