//! Checking a store in itself: chunks' entries, the blocks they name, free blocks, and what forks
//! inherit.
//!
//! A pass walks the index in the order of its keys, as the scrub does, and judges each entry under
//! the state's lock against the free blocks of the same moment. What an entry in the index says may
//! be out of date: only what the entry in memory says as well is a finding.
//! `docs/design/0009-fsck.md`.
//!
//! Memory: a bit for each block of the disks, for blocks that belong to two entries. Which two is
//! found in a second walk over the entries, only where there are any.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{Inner, Room, Store};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{ForkId, Place, RunsRecord};
use crate::space::Extent;
use crate::upkeep::scrub::{Entry, ScrubPosition};

/// About the bytes of chunks that one part looks at.
const PART: u64 = 64 << 20;
/// Blocks in two entries that are followed up.
const TWICE_MAX: usize = 10_000;

/// What one pass over a store has seen so far.
#[derive(Debug, Default)]
pub struct CheckPass {
    step: Step,
    /// What the store says beside chunks was told.
    marked: bool,
    seen: BTreeMap<u16, Vec<u64>>,
    /// Places that a second entry named.
    twice: BTreeSet<u64>,
    /// Who names them.
    owners: BTreeMap<u64, Vec<(ForkId, u64, u32)>>,
}

#[derive(Debug)]
enum Step {
    Entries(ScrubPosition),
    Owners(ScrubPosition),
    Data(ScrubPosition),
    Done,
}

impl Default for Step {
    fn default() -> Self {
        Step::Entries(ScrubPosition::default())
    }
}

/// What a part of a pass looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The pass is at its end.
    pub done: bool,
    /// Chunks looked at.
    pub chunks: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// What is wrong, and in words what was done about it.
    pub findings: Vec<(Finding, Option<String>)>,
    /// What was wrong beside chunks when the store was opened, and was set right then; told with a
    /// pass's first part.
    pub marks: Vec<String>,
}

impl CheckPass {
    /// Whether a block was named before in this pass.
    fn again(&mut self, place: Place) -> bool {
        let bits = self.seen.entry(place.disk()).or_default();
        let (word, bit) = ((place.block() / 64) as usize, 1_u64 << (place.block() % 64));
        if word >= bits.len() {
            bits.resize(word + 1, 0);
        }
        let again = bits[word] & bit != 0;
        bits[word] |= bit;
        again
    }
}

impl Store {
    /// Makes sure that a pass that begins now sees everything there is.
    pub async fn check_begin(&self) -> Result<CheckPass, StoreError> {
        self.apply_in(Room::Last).await?;
        Ok(CheckPass::default())
    }

    /// The next part of a pass; with `data`, every block is read and compared with its checksum as
    /// well. With `repair`, blocks in use that count as free are taken, and those that fail their
    /// checksums are written anew from the cache or given up: then what the disk has of them is
    /// kept in a file of the store's folder.
    ///
    /// Cost: nothing stays in the cache; the state's lock is held for a chunk's entry at a time.
    /// # Errors
    /// [`StoreError::Index`] when the index as a whole cannot be read.
    pub async fn check(
        &self,
        pass: &mut CheckPass,
        data: bool,
        repair: bool,
    ) -> Result<Checked, StoreError> {
        let inner = &self.0;
        let mut done = Checked::default();
        if !std::mem::replace(&mut pass.marked, true) {
            done.marks.clone_from(&inner.marks);
        }
        let step = std::mem::replace(&mut pass.step, Step::Done);
        pass.step = match step {
            Step::Entries(from) => {
                let (entries, next) = inner.entries_from(&from, PART)?;
                for entry in entries {
                    inner.check_entry(entry, pass, repair, &mut done)?;
                }
                if next.is_none() {
                    inner.check_tree(&mut done);
                    let doubted = inner.find_doubted().into_iter();
                    done.findings.extend(doubted.map(|doubted| (doubted, None)));
                }
                match next {
                    Some(next) => Step::Entries(next),
                    None if !pass.twice.is_empty() => Step::Owners(ScrubPosition::default()),
                    None if data => Step::Data(ScrubPosition::default()),
                    None => Step::Done,
                }
            }
            Step::Owners(from) => {
                let (entries, next) = inner.entries_from(&from, PART)?;
                for entry in entries {
                    inner.note_owners(&entry, pass);
                }
                if let Some(next) = next {
                    Step::Owners(next)
                } else {
                    inner.judge_owners(pass, &mut done)?;
                    if data {
                        Step::Data(ScrubPosition::default())
                    } else {
                        Step::Done
                    }
                }
            }
            Step::Data(from) => {
                let part = self.scrub(&from, PART).await?;
                done.bytes += part.bytes;
                for finding in part.findings {
                    // Entries that cannot be read were found before.
                    if matches!(
                        finding.fault,
                        Fault::Entry { .. } | Fault::Lost { .. } | Fault::Unproven { .. }
                    ) {
                        continue;
                    }
                    let mended = if repair {
                        inner.mend(&finding).await?
                    } else {
                        None
                    };
                    let given_up = if mended.is_some() {
                        inner.find_lost_of(&finding)?
                    } else {
                        Vec::new()
                    };
                    done.findings.push((finding, mended));
                    for lost in given_up {
                        if !done.findings.iter().any(|(known, _)| *known == lost) {
                            done.findings.push((lost, None));
                        }
                    }
                }
                if done.findings.iter().any(|(_, mended)| mended.is_some()) {
                    inner.flush(0).await?;
                    self.sync().await?;
                }
                part.next.map_or(Step::Done, Step::Data)
            }
            Step::Done => Step::Done,
        };
        done.done = matches!(pass.step, Step::Done);
        Ok(done)
    }
}

impl Inner {
    /// Who derives from whom: once, at the end of the walk over the entries.
    fn check_tree(&self, done: &mut Checked) {
        let state = self.lock();
        let mut children: BTreeMap<ForkId, u32> = BTreeMap::new();
        for (_, fork) in state.forks().iter() {
            if let Some(parent) = fork.parent() {
                *children.entry(parent).or_default() += 1;
                if !state.forks().contains(parent) {
                    let reason = format!("it derives from fork {}, which is not there", parent.0);
                    done.findings.push((tree(fork.key(), reason), None));
                }
            }
        }
        for (id, fork) in state.forks().iter() {
            let count = children.get(&id).copied().unwrap_or(0);
            if count != fork.children() {
                let reason = format!(
                    "{count} forks derive from it, {} are counted",
                    fork.children()
                );
                done.findings.push((tree(fork.key(), reason), None));
            }
        }
    }

    fn check_entry(
        &self,
        entry: Entry,
        pass: &mut CheckPass,
        repair: bool,
        done: &mut Checked,
    ) -> Result<(), StoreError> {
        let (id, chunk) = (entry.id, entry.chunk);
        let (key, runs) = {
            let state = self.lock();
            // A fork that was removed has nothing that anybody could miss.
            let Some(fork) = state.forks().get(id) else {
                return Ok(());
            };
            let known = fork.chunks().get(&chunk).map(Chunk::to_runs);
            (fork.key().clone(), known.map_or(entry.runs, Ok))
        };
        done.chunks += 1;
        let runs = match runs {
            Ok(runs) => runs,
            Err(reason) => {
                let fault = Fault::Entry { reason };
                done.findings.push((whole(&key, chunk, fault), None));
                return Ok(());
            }
        };
        done.bytes += runs.crcs.len() as u64 * BLOCK as u64;
        let lost = self.find_lost(id, chunk, &runs)?;
        done.findings
            .extend(lost.into_iter().map(|lost| (lost, None)));
        let suspects = self.suspects(&runs, pass);
        if !suspects.is_empty() {
            self.judge(&key, (id, chunk), &suspects, repair, done)?;
        }
        if runs
            .runs
            .iter()
            .any(|run| run.inherited && run.place.disk() != Place::LOST_DISK)
        {
            self.check_inherited(&key, (id, chunk), done)?;
        }
        Ok(())
    }

    /// Blocks of an entry's own that are beyond the disk or free; notes those that were named
    /// before.
    fn suspects(&self, runs: &RunsRecord, pass: &mut CheckPass) -> Vec<(u32, Place)> {
        let mut suspects = Vec::new();
        let state = self.lock();
        for run in runs.runs.iter().filter(|run| !run.inherited) {
            let (size, _) = state.space().of_disk(run.place.disk());
            // Of a disk that is not there nothing can be said.
            if size == 0 {
                continue;
            }
            for i in 0..run.blocks {
                let place = run.place.plus(i);
                if place.block() >= size || state.space().is_free(place) {
                    suspects.push((run.first + i, place));
                } else if pass.again(place) && pass.twice.len() < TWICE_MAX {
                    pass.twice.insert(place.0);
                }
            }
        }
        suspects
    }

    /// Looks at suspects once more, in the entry as it is now.
    fn judge(
        &self,
        key: &ForkKey,
        at: (ForkId, u64),
        suspects: &[(u32, Place)],
        repair: bool,
        done: &mut Checked,
    ) -> Result<(), StoreError> {
        let (id, chunk) = at;
        self.load_entry(id, chunk)?;
        let mut state = self.lock();
        for (block, place) in suspects {
            let entry = state.forks().get(id).and_then(|f| f.chunks().get(&chunk));
            let still = entry.is_some_and(|c| {
                !c.is_inherited(*block) && c.place(*block).is_some_and(|(at, _)| at == *place)
            });
            if !still {
                continue;
            }
            let (size, _) = state.space().of_disk(place.disk());
            if place.block() >= size {
                tell(
                    done,
                    block_of(key, chunk, *block, *place, Fault::Beyond),
                    None,
                );
            } else if state.space().is_free(*place) {
                let claim = Extent {
                    start: place.0,
                    blocks: 1,
                };
                let taken = (repair && state.space_mut().claim(claim)).then(|| "taken".to_owned());
                tell(
                    done,
                    block_of(key, chunk, *block, *place, Fault::Free),
                    taken,
                );
            }
        }
        Ok(())
    }

    /// Whether what a chunk inherits is there, in a fork that its own derives from.
    fn check_inherited(
        &self,
        key: &ForkKey,
        at: (ForkId, u64),
        done: &mut Checked,
    ) -> Result<(), StoreError> {
        let (id, chunk) = at;
        for _ in 0..3 {
            let lineage = self.lock().forks().lineage(id);
            for (id, _) in &lineage {
                self.load_entry(*id, chunk)?;
            }
            let state = self.lock();
            let entries: Option<Vec<&Chunk>> = lineage
                .iter()
                .map(|(id, _)| state.forks().get(*id)?.chunks().get(&chunk))
                .collect();
            let Some(entries) = entries else { continue };
            let Some((own, above)) = entries.split_first() else {
                return Ok(());
            };
            for run in own.to_runs().runs.iter().filter(|run| run.inherited) {
                for i in 0..run.blocks {
                    let (block, place) = (run.first + i, run.place.plus(i));
                    let held = |c: &&Chunk| {
                        !c.is_inherited(block) && c.place(block).is_some_and(|(at, _)| at == place)
                    };
                    if place.disk() != Place::LOST_DISK && !above.iter().any(held) {
                        tell(
                            done,
                            block_of(key, chunk, block, place, Fault::Inherited),
                            None,
                        );
                    }
                }
            }
            return Ok(());
        }
        Ok(())
    }

    fn note_owners(&self, entry: &Entry, pass: &mut CheckPass) {
        let state = self.lock();
        let Some(fork) = state.forks().get(entry.id) else {
            return;
        };
        let known = fork.chunks().get(&entry.chunk).map(Chunk::to_runs);
        let Some(runs) = known.as_ref().or(entry.runs.as_ref().ok()) else {
            return;
        };
        for run in runs.runs.iter().filter(|run| !run.inherited) {
            for i in 0..run.blocks {
                let place = run.place.plus(i);
                if pass.twice.contains(&place.0) {
                    let owner = (entry.id, entry.chunk, run.first + i);
                    pass.owners.entry(place.0).or_default().push(owner);
                }
            }
        }
    }

    /// A block was named twice in one pass because it moved from one chunk to another meanwhile, or
    /// because it belongs to both at this moment.
    fn judge_owners(&self, pass: &mut CheckPass, done: &mut Checked) -> Result<(), StoreError> {
        for (place, owners) in std::mem::take(&mut pass.owners) {
            let place = Place(place);
            for (id, chunk, _) in &owners {
                self.load_entry(*id, *chunk)?;
            }
            let state = self.lock();
            let still: Vec<_> = owners
                .into_iter()
                .filter(|(id, chunk, block)| {
                    let entry = state.forks().get(*id).and_then(|f| f.chunks().get(chunk));
                    entry.is_some_and(|c| {
                        !c.is_inherited(*block)
                            && c.place(*block).is_some_and(|(at, _)| at == place)
                    })
                })
                .collect();
            if still.len() < 2 {
                continue;
            }
            for (id, chunk, block) in still {
                let key = state.forks()[id].key().clone();
                tell(
                    done,
                    block_of(&key, chunk, block, place, Fault::Twice),
                    None,
                );
            }
        }
        Ok(())
    }
}

fn whole(key: &ForkKey, chunk: u64, fault: Fault) -> Finding {
    Finding {
        key: key.clone(),
        chunk,
        blocks: 0..0,
        disk: 0,
        place: 0,
        fault,
    }
}

fn tree(key: &ForkKey, reason: String) -> Finding {
    whole(key, 0, Fault::Tree { reason })
}

fn block_of(key: &ForkKey, chunk: u64, block: u32, place: Place, fault: Fault) -> Finding {
    Finding {
        key: key.clone(),
        chunk,
        blocks: block..block + 1,
        disk: place.disk(),
        place: place.block(),
        fault,
    }
}

/// Adds a bad block, to the last finding where it continues that.
fn tell(done: &mut Checked, finding: Finding, repaired: Option<String>) {
    if let Some((last, was)) = done.findings.last_mut()
        && *was == repaired
        && last.absorb(&finding)
    {
        return;
    }
    done.findings.push((finding, repaired));
}

#[cfg(test)]
mod tests;
