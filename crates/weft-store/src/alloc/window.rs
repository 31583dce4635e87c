//! Windows: consecutive free blocks kept for one fork, so that forks that grow side by side do not
//! take each other's next blocks; and the disks' turns.

use std::collections::HashMap;

use super::{Allocator, Disk, Extent, Wish};
use crate::record::Place;

/// Most blocks of a window: 16 MiB.
pub(crate) const WINDOW_MAX: u64 = 4096;
/// Windows at a time; the one used least recently makes room.
const WINDOWS_MAX: usize = 256;

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

    /// Gives a fork a window; the one that had to go for it.
    fn insert(&mut self, fork: u64, extent: Extent) -> Option<Extent> {
        let least = self.of_fork.iter().min_by_key(|(_, w)| w.used);
        let least = least.map(|(fork, _)| *fork);
        let old = least.filter(|_| self.of_fork.len() >= WINDOWS_MAX);
        let old = old.and_then(|fork| self.of_fork.remove(&fork));
        let used = self.clock;
        self.of_fork.insert(fork, Window { extent, used });
        old.map(|w| w.extent)
    }

    /// Takes the windows on a disk away.
    pub(super) fn remove_of(&mut self, disk: u16) -> Vec<Extent> {
        let on = |w: &Window| w.extent.disk() == disk;
        let gone = self.of_fork.extract_if(|_, w| on(w));
        gone.map(|(_, w)| w.extent).collect()
    }
}

impl Windows {
    /// Takes all windows away.
    pub(super) fn remove_all(&mut self) -> Vec<Extent> {
        let all = std::mem::take(&mut self.of_fork);
        all.into_values().map(|w| w.extent).collect()
    }
}

impl Allocator {
    /// Whether a disk that could grow has too little for windows: it would not get its share.
    pub(crate) fn is_tight(&self, blocks: u64) -> bool {
        let tight = |d: &Disk| d.growth > 0 && d.free.count() < blocks + WINDOW_MAX;
        self.open_disks().any(tight)
    }

    /// A fork is gone: others may have what was kept for it.
    pub(crate) fn close_window(&mut self, fork: u64) {
        if let Some(window) = self.windows.of_fork.remove(&fork) {
            self.return_window(window.extent);
        }
    }

    pub(super) fn return_window(&mut self, extent: Extent) {
        let disk = self.disks.get_mut(&extent.disk());
        disk.expect("a window is on a disk").windowed -= extent.blocks;
        self.free(extent);
    }

    /// Up to `blocks` that are in no window, and a window behind them.
    pub(super) fn fresh(&mut self, blocks: u64, wish: Wish) -> Extent {
        if self.open_disks().all(|d| d.free.count() == 0) {
            self.close_windows();
        }
        let goal = Some(Place(wish.goal)).filter(|_| wish.goal != u64::MAX);
        let ahead = wish.fork.map_or(0, |_| (wish.held * 4).min(WINDOW_MAX));
        // Up to a window's size a fork stays where it began: the loss of a disk costs fewer files.
        let stays = goal.map(Place::disk).filter(|_| wish.held < WINDOW_MAX);
        let number = self.next_disk(blocks.max(ahead), goal.map(Place::disk), stays);
        let disk = self.disks.get_mut(&number).expect("it was just chosen");
        let share = (disk.free.count() + disk.growth) / 16;
        let want = blocks.max(ahead.min(share));
        let goal = goal.filter(|g| g.disk() == number).map(Place::block);
        let picked = disk.free.pick(want, goal);
        let (start, length) = picked.expect("the disk has free blocks");
        let base = u64::from(number) << 48 | start;
        let taken = Extent {
            start: base,
            blocks: blocks.min(length),
        };
        let rest = Extent {
            start: base + taken.blocks,
            blocks: length - taken.blocks,
        };
        if let Some(fork) = wish.fork.filter(|_| rest.blocks > 0) {
            disk.windowed += rest.blocks;
            if let Some(old) = self.windows.insert(fork, rest) {
                self.return_window(old);
            }
        }
        taken
    }

    /// The disk whose turn it is: disks take turns by what they have free and could grow by. Of
    /// equal ones the `last` one that the fork had; out of turn the one where it `stays`, if that has room.
    fn next_disk(&mut self, blocks: u64, last: Option<u16>, stays: Option<u16>) -> u16 {
        let weight = |d: &Disk| i128::from(d.usable() + d.growth);
        let can = |d: &Disk| !d.closed && d.free.count() > 0;
        let total: i128 = self.disks.values().filter(|d| can(d)).map(weight).sum();
        let most = self.disks.iter().filter(|(_, d)| can(d));
        // The turn is measured in blocks times the weight of all, so that nothing is rounded.
        let key = |n: u16, d: &Disk| (d.turn + weight(d) * i128::from(blocks), last == Some(n));
        let chosen = most.max_by_key(|(n, d)| (key(**n, d), std::cmp::Reverse(**n)));
        let chosen = *chosen.expect("the caller counted the free blocks").0;
        let room = |n: &u16| {
            self.disks
                .get(n)
                .is_some_and(|d| can(d) && d.free.count() >= blocks)
        };
        let chosen = stays.filter(room).unwrap_or(chosen);
        for (number, disk) in self.disks.iter_mut().filter(|(_, d)| can(d)) {
            disk.turn += weight(disk) * i128::from(blocks);
            if *number == chosen {
                disk.turn -= total * i128::from(blocks);
            }
            // Weights change: old debts must not weigh for ever.
            let bound = total * i128::from(WINDOW_MAX) * 4;
            disk.turn = disk.turn.clamp(-bound, bound);
        }
        chosen
    }
}
