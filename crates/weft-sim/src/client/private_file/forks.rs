//! The forks of a client's private file: `data`, and one beside it that is also removed, from one
//! cell or from all. Checkpoints hold both.

use rand::Rng;
use weft_layout::CellIndex;

use super::state::{FORKS, LENGTH, PrivateFile};
use crate::client::calls::linger;
use crate::client::volume::{BSU, CELLS};
use crate::oracle::WriteId;
use crate::state::now;

/// The one that is removed.
const REMOVED: usize = 1;

impl PrivateFile {
    /// Removes a fork from a cell, or from all of them one after the other.
    pub(super) async fn remove_fork(&mut self) {
        let one = self.rng.random_range(0..CELLS);
        let cells = if self.rng.random() {
            one..one + 1
        } else {
            0..CELLS
        };
        for cell in cells {
            let removals = self.begin_removal(cell);
            let removed = self.file.remove_fork(CellIndex(cell), FORKS[REMOVED]).await;
            for removal in removals {
                self.forks[REMOVED].end(removal, removed.is_ok(), now());
            }
            self.state.lock().count("removal of a fork", &removed);
            if removed.is_err() {
                return linger().await;
            }
        }
    }

    /// Notes what a removal does: it is like a write of zeros, which power loss undoes as it does
    /// any other.
    fn begin_removal(&mut self, cell: u32) -> Vec<WriteId> {
        let bsu = BSU as usize;
        let starts = (0..LENGTH).step_by(bsu);
        let mine = starts.skip(cell as usize).step_by(CELLS as usize);
        mine.map(|at| {
            let zeros = vec![0; bsu.min(LENGTH - at)];
            self.forks[REMOVED].begin(at, &zeros, now())
        })
        .collect()
    }
}
