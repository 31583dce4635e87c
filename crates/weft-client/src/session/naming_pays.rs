//! Whether writes to addressed files send names first: as long as servers have some of the chunks.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::limits::NAMING_SKIPPED_MAX;

/// Whether writes ask by name first.
#[derive(Default)]
pub(crate) struct NamingPays {
    /// Writes that do not ask before the next one that does.
    skip: AtomicU32,
    /// How many were skipped after the last answer.
    skipped: AtomicU32,
}

impl NamingPays {
    /// Whether the next write asks.
    pub(crate) fn ask(&self) -> bool {
        let left = self.skip.load(Ordering::Relaxed);
        self.skip.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// Takes note of an answer: of so many chunks the server lacked so many.
    pub(crate) fn note(&self, named: usize, lacking: usize) {
        let skip = if lacking * 8 > named * 7 {
            let last = self.skipped.load(Ordering::Relaxed);
            (last * 2).clamp(1, NAMING_SKIPPED_MAX)
        } else {
            0
        };
        self.skip.store(skip, Ordering::Relaxed);
        self.skipped.store(skip, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_answers_without_a_known_chunk_fewer_and_fewer_writes_ask() {
        let pays = NamingPays::default();
        let asked = (0..1000).filter(|_| {
            let ask = pays.ask();
            if ask {
                pays.note(16, 16);
            }
            ask
        });
        assert!(asked.count() < 30);
        pays.note(16, 8);
        assert!(pays.ask() && pays.ask());
    }
}
