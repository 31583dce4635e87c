//! Unreadable blocks that a batch overwrites as a whole.

use std::collections::BTreeSet;

use super::buffered::Fragments;
use super::plan::WritePlan;
use crate::error::StoreError;
use crate::key::Scattered;
use crate::pages::WantedBlock;
use crate::pool::BLOCK;
use crate::record::BODY_SOFT;
use crate::state::StoreState;

/// Unreadable blocks of which a batch has all bytes.
pub(crate) type Covered = BTreeSet<WantedBlock>;

/// Which of `blocks` a batch overwrites wholly with its small pieces, if `error` says that they
/// cannot be read. None if the batch may need several frames: a crash between them would leave a
/// block that is partly written.
pub(crate) fn covered_blocks(
    state: &StoreState,
    writes: &[Scattered],
    plans: &[WritePlan],
    blocks: &[WantedBlock],
    error: &StoreError,
) -> Covered {
    let bad = matches!(
        error,
        StoreError::BadChecksum { .. }
            | StoreError::DiskFailed { .. }
            | StoreError::Lost { .. }
            | StoreError::Coded { .. }
    );
    // The frame has some bytes for each run besides its data.
    let runs = plans.iter().flat_map(|p| &p.small);
    let bytes: u64 = runs.map(|run| run.bytes() + 32).sum();
    if !bad || bytes > BODY_SOFT as u64 / 2 {
        return Covered::new();
    }
    let mut found = Covered::new();
    for wanted in blocks {
        let mut marks = [false; BLOCK];
        let mut held = BLOCK;
        for (w, plan) in writes.iter().zip(plans) {
            if state.find(&w.key) != Some(wanted.id) {
                continue;
            }
            for fragment in Fragments::new(w.chunk, &plan.small) {
                let place = fragment.place;
                if (place.chunk, place.block) == (wanted.chunk, wanted.block) {
                    held = (place.end - place.start) as usize;
                    fragment.mark(&mut marks);
                }
            }
        }
        if marks[..held].iter().all(|mark| *mark) {
            found.insert(*wanted);
        }
    }
    found
}
