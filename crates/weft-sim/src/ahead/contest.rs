//! Contests: several clients make the same name at the same time, each unless it is there, as
//! programs do that take a lock file. One of them wins.

use super::slot::Maker;

/// A name that several clients make.
pub(super) struct Contest {
    pub(super) directory: usize,
    pub(super) name: String,
    entered: Vec<usize>,
    winner: Option<Maker>,
    /// Faults and deaths when it began: afterwards a loser may be told that it has won.
    faults: u64,
}

impl Contest {
    pub(super) fn new(directory: usize, name: String, opener: usize, faults: u64) -> Contest {
        Contest {
            directory,
            name,
            entered: vec![opener],
            winner: None,
            faults,
        }
    }

    /// Whether a client takes part that has not done so yet.
    pub(super) fn enter(&mut self, client: usize) -> bool {
        let new = !self.entered.contains(&client);
        if new {
            self.entered.push(client);
        }
        new
    }

    /// A client was told that it made the name. The one that had been told so before, if nothing
    /// explains that.
    pub(super) fn won(&mut self, by: Maker, faults: u64) -> Option<Maker> {
        let before = self.winner.replace(by);
        before.filter(|_| self.faults == faults)
    }
}
