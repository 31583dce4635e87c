//! The choice of disk and place for new windows.

use super::allocator::Allocator;
use super::disk::DiskSpace;
use super::extent::{AllocHint, Extent};
use crate::limits::WINDOW_MAX;
use crate::record::Place;

impl Allocator {
    /// Whether a disk that can grow has too few free blocks for windows: it would not get its share
    /// of new data.
    pub(crate) fn is_tight(&self, blocks: u64) -> bool {
        let tight = |d: &DiskSpace| d.growth > 0 && d.free.count() < blocks + WINDOW_MAX;
        self.open_disks().any(tight)
    }

    /// A fork is removed: its window is free for others.
    pub(crate) fn close_window(&mut self, fork: u64) {
        if let Some(extent) = self.windows.remove(fork) {
            self.return_window(extent);
        }
    }

    pub(super) fn return_window(&mut self, extent: Extent) {
        let disk = self.disks.get_mut(&extent.disk());
        disk.expect("a window is on a disk").windowed -= extent.blocks;
        self.free(extent);
    }

    /// Takes up to `blocks` outside of windows, and makes a window after them.
    pub(super) fn fresh(&mut self, blocks: u64, hint: AllocHint) -> Extent {
        if self.open_disks().all(|d| d.free.count() == 0) {
            self.close_windows();
        }
        let goal = Some(Place(hint.goal)).filter(|_| hint.goal != u64::MAX);
        let ahead = hint.fork.map_or(0, |_| (hint.held * 4).min(WINDOW_MAX));
        // Up to a window's size a fork stays on one disk: then the loss of a disk affects fewer
        // files.
        let stays = goal.map(Place::disk).filter(|_| hint.held < WINDOW_MAX);
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
        if let Some(fork) = hint.fork.filter(|_| rest.blocks > 0) {
            disk.windowed += rest.blocks;
            if let Some(old) = self.windows.insert(fork, rest) {
                self.return_window(old);
            }
        }
        taken
    }

    /// The next disk: disks take turns, weighted by their free blocks and possible growth. Among
    /// equals the fork's `last` disk wins. A disk where the fork `stays` is taken out of turn if it
    /// has enough free blocks.
    fn next_disk(&mut self, blocks: u64, last: Option<u16>, stays: Option<u16>) -> u16 {
        let weight = |d: &DiskSpace| i128::from(d.usable() + d.growth);
        let can = |d: &DiskSpace| !d.closed && d.free.count() > 0;
        let total: i128 = self.disks.values().filter(|d| can(d)).map(weight).sum();
        let most = self.disks.iter().filter(|(_, d)| can(d));
        // A turn is measured in blocks times the total weight, so that nothing is rounded.
        let key =
            |n: u16, d: &DiskSpace| (d.turn + weight(d) * i128::from(blocks), last == Some(n));
        let chosen = most.max_by_key(|(n, d)| (key(**n, d), std::cmp::Reverse(**n)));
        let chosen = *chosen.expect("the caller counted the free blocks").0;
        let fits = |n: &u16| {
            self.disks
                .get(n)
                .is_some_and(|d| can(d) && d.free.count() >= blocks)
        };
        let chosen = stays.filter(fits).unwrap_or(chosen);
        for (number, disk) in self.disks.iter_mut().filter(|(_, d)| can(d)) {
            disk.turn += weight(disk) * i128::from(blocks);
            if *number == chosen {
                disk.turn -= total * i128::from(blocks);
            }
            // Weights change: bound the effect of old ones.
            let bound = total * i128::from(WINDOW_MAX) * 4;
            disk.turn = disk.turn.clamp(-bound, bound);
        }
        chosen
    }
}
