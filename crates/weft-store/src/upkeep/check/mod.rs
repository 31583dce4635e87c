//! The consistency check of a store: chunks' entries, the blocks they refer to, free blocks, and
//! what forks inherit (`docs/design/0009-fsck.md`).
//!
//! A pass walks the index in the order of its keys, as a scrub does, and compares each entry under
//! the state's lock with the free blocks of the same moment. An entry in the index may be out of
//! date: a fault is a finding only if the entry in memory has it as well.
//!
//! Memory: a bit for each block of the disks, to find blocks that two entries refer to. Only if
//! there are any, a second walk over the entries finds out which entries these are.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{IndexBudget, Inner, Store};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::limits::{CHECK_DUPLICATES, CHECK_STEP_BYTES};
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{ForkId, Place, RunsRecord};
use crate::space::Extent;
use crate::upkeep::walk::{ChunkEntry, ScrubPosition, block_finding, chunk_finding};

/// A pass over a store and what it has seen so far.
#[derive(Debug, Default)]
pub struct CheckPass {
    step: Step,
    /// The damage that opening the store repaired was reported.
    reported_damage_at_open: bool,
    /// By disk: a bit for each block that an entry refers to.
    seen: BTreeMap<u16, Vec<u64>>,
    /// Places that a second entry refers to.
    duplicates: BTreeSet<u64>,
    /// The entries that refer to them.
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

/// What a step of a pass checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The pass is at its end.
    pub done: bool,
    /// Chunks checked.
    pub chunks: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Each fault, and in words what was done about it.
    pub findings: Vec<(Finding, Option<String>)>,
    /// What was damaged beside chunks, and was repaired by opening the store; reported with a
    /// pass's first step.
    pub marks: Vec<String>,
}

/// What a check does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Reads every block and compares it with its checksum.
    pub data: bool,
    /// Repairs what can be repaired.
    pub repair: bool,
}

impl CheckPass {
    /// Takes note that an entry refers to a block; returns whether another one did before.
    fn was_seen(&mut self, place: Place) -> bool {
        let bits = self.seen.entry(place.disk()).or_default();
        let (word, bit) = ((place.block() / 64) as usize, 1_u64 << (place.block() % 64));
        if word >= bits.len() {
            bits.resize(word + 1, 0);
        }
        let seen = bits[word] & bit != 0;
        bits[word] |= bit;
        seen
    }
}

impl Store {
    /// Begins a pass: makes sure that it covers everything written before.
    pub async fn check_begin(&self) -> Result<CheckPass, StoreError> {
        self.apply_with(IndexBudget::Reserve).await?;
        Ok(CheckPass::default())
    }

    /// The next step of a pass. With `data`, every block is also read and compared with its
    /// checksum. With `repair`, used blocks that count as free are allocated, and blocks that fail
    /// their checksums are written again from the cache or marked as lost: then the bytes on the
    /// disk are kept in a file of the store's folder.
    ///
    /// Cost: nothing stays in the cache; the state's lock is held for one chunk's entry at a time.
    /// # Errors
    /// [`StoreError::Index`] if the index as a whole cannot be read.
    pub async fn check(
        &self,
        pass: &mut CheckPass,
        options: CheckOptions,
    ) -> Result<Checked, StoreError> {
        let CheckOptions { data, repair } = options;
        let inner = &self.0;
        let mut done = Checked::default();
        if !std::mem::replace(&mut pass.reported_damage_at_open, true) {
            done.marks = inner.damage_at_open().to_vec();
        }
        let step = std::mem::replace(&mut pass.step, Step::Done);
        pass.step = match step {
            Step::Entries(from) => {
                let (entries, next) = inner.entries_from(&from, CHECK_STEP_BYTES)?;
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
                    None if !pass.duplicates.is_empty() => Step::Owners(ScrubPosition::default()),
                    None if data => Step::Data(ScrubPosition::default()),
                    None => Step::Done,
                }
            }
            Step::Owners(from) => {
                let (entries, next) = inner.entries_from(&from, CHECK_STEP_BYTES)?;
                for entry in entries {
                    inner.note_owners(&entry, pass);
                }
                if let Some(next) = next {
                    Step::Owners(next)
                } else {
                    inner.verify_owners(pass, &mut done)?;
                    if data {
                        Step::Data(ScrubPosition::default())
                    } else {
                        Step::Done
                    }
                }
            }
            Step::Data(from) => {
                let scrubbed = self.scrub(&from, CHECK_STEP_BYTES).await?;
                done.bytes += scrubbed.bytes;
                for finding in scrubbed.findings {
                    // These were found in the walk over the entries.
                    if matches!(
                        finding.fault,
                        Fault::Entry { .. } | Fault::Lost { .. } | Fault::Unproven { .. }
                    ) {
                        continue;
                    }
                    let repaired = if repair {
                        inner.repair_blocks(&finding).await?
                    } else {
                        None
                    };
                    let lost = if repaired.is_some() {
                        inner.find_lost_of(&finding)?
                    } else {
                        Vec::new()
                    };
                    done.findings.push((finding, repaired));
                    for lost in lost {
                        if !done.findings.iter().any(|(known, _)| *known == lost) {
                            done.findings.push((lost, None));
                        }
                    }
                }
                if done.findings.iter().any(|(_, repaired)| repaired.is_some()) {
                    inner.flush(0).await?;
                    self.sync().await?;
                }
                scrubbed.next.map_or(Step::Done, Step::Data)
            }
            Step::Done => Step::Done,
        };
        done.done = matches!(pass.step, Step::Done);
        Ok(done)
    }
}

impl Inner {
    /// Checks which forks derive from which: once, at the end of the walk over the entries.
    fn check_tree(&self, done: &mut Checked) {
        let state = self.lock();
        let mut children: BTreeMap<ForkId, u32> = BTreeMap::new();
        for (_, fork) in state.forks().iter() {
            if let Some(parent) = fork.parent() {
                *children.entry(parent).or_default() += 1;
                if !state.forks().contains(parent) {
                    let reason = format!("it derives from fork {}, which is not there", parent.0);
                    done.findings.push((tree_finding(fork.key(), reason), None));
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
                done.findings.push((tree_finding(fork.key(), reason), None));
            }
        }
    }

    fn check_entry(
        &self,
        entry: ChunkEntry,
        pass: &mut CheckPass,
        repair: bool,
        done: &mut Checked,
    ) -> Result<(), StoreError> {
        let (id, chunk) = (entry.id, entry.chunk);
        let Some((key, runs)) = self.newest_runs(entry) else {
            return Ok(());
        };
        done.chunks += 1;
        let runs = match runs {
            Ok(runs) => runs,
            Err(reason) => {
                let fault = Fault::Entry { reason };
                done.findings
                    .push((chunk_finding(&key, chunk, fault), None));
                return Ok(());
            }
        };
        done.bytes += runs.crcs.len() as u64 * BLOCK as u64;
        let lost = self.find_lost(id, chunk, &runs)?;
        done.findings
            .extend(lost.into_iter().map(|lost| (lost, None)));
        let suspects = self.suspects(&runs, pass);
        if !suspects.is_empty() {
            self.verify_suspects(&key, (id, chunk), &suspects, repair, done)?;
        }
        if runs
            .runs
            .iter()
            .any(|run| run.inherited && !run.place.is_absent())
        {
            self.check_inherited(&key, (id, chunk), done)?;
        }
        Ok(())
    }

    /// Blocks of an entry that are beyond the disk or free; takes note of blocks that another entry
    /// refers to. Inherited blocks are checked in the fork that owns them.
    fn suspects(&self, runs: &RunsRecord, pass: &mut CheckPass) -> Vec<(u32, Place)> {
        let mut suspects = Vec::new();
        let state = self.lock();
        for run in runs.runs.iter().filter(|run| !run.inherited) {
            let (size, _) = state.space().of_disk(run.place.disk());
            // Nothing is known about a disk that is missing.
            if size == 0 {
                continue;
            }
            for i in 0..run.blocks {
                let place = run.place.plus(i);
                if place.block() >= size || state.space().is_free(place) {
                    suspects.push((run.first + i, place));
                } else if pass.was_seen(place) && pass.duplicates.len() < CHECK_DUPLICATES {
                    pass.duplicates.insert(place.0);
                }
            }
        }
        suspects
    }

    /// Checks suspects once more, in the entry as it is now.
    fn verify_suspects(
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
                let finding = block_finding(key, chunk, *block, *place, Fault::Beyond);
                add_finding(done, finding, None);
            } else if state.space().is_free(*place) {
                let claim = Extent {
                    start: place.0,
                    blocks: 1,
                };
                let taken = (repair && state.space_mut().claim(claim)).then(|| "taken".to_owned());
                let finding = block_finding(key, chunk, *block, *place, Fault::Free);
                add_finding(done, finding, taken);
            }
        }
        Ok(())
    }

    /// Whether the blocks that a chunk inherits are those of a fork that its fork derives from.
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
                    if !place.is_absent() && !above.iter().any(held) {
                        let finding = block_finding(key, chunk, block, place, Fault::Inherited);
                        add_finding(done, finding, None);
                    }
                }
            }
            return Ok(());
        }
        Ok(())
    }

    fn note_owners(&self, entry: &ChunkEntry, pass: &mut CheckPass) {
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
                if pass.duplicates.contains(&place.0) {
                    let owner = (entry.id, entry.chunk, run.first + i);
                    pass.owners.entry(place.0).or_default().push(owner);
                }
            }
        }
    }

    /// Two entries referred to one block in a pass: because it moved from one chunk to another
    /// meanwhile, or because it belongs to both now. Only the latter is a finding.
    fn verify_owners(&self, pass: &mut CheckPass, done: &mut Checked) -> Result<(), StoreError> {
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
                let finding = block_finding(&key, chunk, block, place, Fault::Twice);
                add_finding(done, finding, None);
            }
        }
        Ok(())
    }
}

fn tree_finding(key: &ForkKey, reason: String) -> Finding {
    chunk_finding(key, 0, Fault::Tree { reason })
}

/// Adds a finding about a block, to the last finding if it continues that one.
fn add_finding(done: &mut Checked, finding: Finding, repaired: Option<String>) {
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
