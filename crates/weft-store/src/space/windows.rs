//! Windows: consecutive free blocks preallocated for one fork, so that forks that grow side by side
//! do not take each other's next blocks.

use std::collections::HashMap;

use super::extent::Extent;
use crate::limits::WINDOWS_MAX;

#[derive(Debug)]
struct Window {
    extent: Extent,
    used: u64,
}

/// The windows of all forks.
#[derive(Debug, Default)]
pub(super) struct Windows {
    of_fork: HashMap<u64, Window>,
    clock: u64,
}

impl Windows {
    /// Removes a fork's window.
    pub(super) fn remove(&mut self, fork: u64) -> Option<Extent> {
        self.of_fork.remove(&fork).map(|window| window.extent)
    }

    /// Up to `blocks` from the front of a fork's window.
    pub(super) fn take(&mut self, fork: u64, blocks: u64) -> Option<Extent> {
        self.clock += 1;
        let window = self.of_fork.get_mut(&fork)?;
        window.used = self.clock;
        let extent = &mut window.extent;
        let taken = Extent {
            start: extent.start,
            blocks: blocks.min(extent.blocks),
        };
        extent.start += taken.blocks;
        extent.blocks -= taken.blocks;
        if extent.blocks == 0 {
            self.of_fork.remove(&fork);
        }
        Some(taken)
    }

    /// Gives a fork a window; returns the one that it replaced.
    pub(super) fn insert(&mut self, fork: u64, extent: Extent) -> Option<Extent> {
        let least = self.of_fork.iter().min_by_key(|(_, w)| w.used);
        let least = least.map(|(fork, _)| *fork);
        let old = least.filter(|_| self.of_fork.len() >= WINDOWS_MAX);
        let old = old.and_then(|fork| self.of_fork.remove(&fork));
        let used = self.clock;
        self.of_fork.insert(fork, Window { extent, used });
        old.map(|w| w.extent)
    }

    /// Removes the windows on a disk.
    pub(super) fn remove_of(&mut self, disk: u16) -> Vec<Extent> {
        let on = |w: &Window| w.extent.disk() == disk;
        let gone = self.of_fork.extract_if(|_, w| on(w));
        gone.map(|(_, w)| w.extent).collect()
    }

    /// Removes all windows.
    pub(super) fn remove_all(&mut self) -> Vec<Extent> {
        let all = std::mem::take(&mut self.of_fork);
        all.into_values().map(|w| w.extent).collect()
    }
}
