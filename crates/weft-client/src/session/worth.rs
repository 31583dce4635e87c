//! Which directories are worth a delegation: those in which this client changes names often, and
//! any, while its delegations save more calls than they cost. Pure.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::limits::{
    CHANGE_COUNT_WINDOW, CHANGES_WORTH_DELEGATION, COUNTED_DIRECTORIES_MAX, DELEGATION_BACKOFF,
    SAVED_CHANGES_MAX,
};

/// See the module.
#[derive(Default)]
pub(super) struct Worth {
    /// Directories that are not to be asked for, and until when.
    shunned: HashMap<u64, Instant>,
    /// Changes in directories that are not held, and since when they count.
    counted: HashMap<u64, (Instant, u32)>,
    /// Changes made under delegations, less what their grants cost: a program that works through
    /// many directories, such as `rm -r`, need not show in each of them that it is busy.
    saved: u32,
    /// When the last change was saved.
    noted: Option<Instant>,
}

impl Worth {
    /// Counts a change of a name in a directory that is not held. Whether it is worth asking for.
    pub(super) fn count(&mut self, directory: u64, now: Instant) -> bool {
        if self.is_shunned(directory, now) {
            return false;
        }
        self.shunned.remove(&directory);
        if self.counted.len() >= COUNTED_DIRECTORIES_MAX {
            self.counted.clear();
        }
        let (since, count) = self.counted.entry(directory).or_insert((now, 0));
        if now - *since > CHANGE_COUNT_WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count >= CHANGES_WORTH_DELEGATION || self.current(now) >= CHANGES_WORTH_DELEGATION
    }

    /// A change was made under a delegation.
    pub(super) fn note_change(&mut self, now: Instant) {
        self.saved = (self.current(now) + 1).min(SAVED_CHANGES_MAX);
        self.noted = Some(now);
    }

    /// The service was asked for a directory, and granted it.
    pub(super) fn granted(&mut self, directory: u64) {
        self.counted.remove(&directory);
        self.saved = self.saved.saturating_sub(CHANGES_WORTH_DELEGATION);
    }

    /// A directory is not to be asked for again soon.
    pub(super) fn shun(&mut self, directory: u64, now: Instant) {
        if self.shunned.len() >= COUNTED_DIRECTORIES_MAX {
            self.shunned.clear();
        }
        self.shunned.insert(directory, now + DELEGATION_BACKOFF);
    }

    /// Whether a directory is not to be asked for now.
    pub(super) fn is_shunned(&self, directory: u64, now: Instant) -> bool {
        let until = self.shunned.get(&directory);
        until.is_some_and(|until| *until > now)
    }

    fn current(&self, now: Instant) -> u32 {
        let recent = self.noted.is_some_and(|at| now - at < CHANGE_COUNT_WINDOW);
        if recent { self.saved } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_directory_gets_a_delegation_unless_another_client_uses_it() {
        let (mut worth, now) = (Worth::default(), Instant::now());
        let asked: Vec<bool> = (0..5).map(|_| worth.count(7, now)).collect();
        assert_eq!(asked, [false, false, false, true, true]);
        worth.shun(7, now);
        assert!(!worth.count(7, now) && worth.is_shunned(7, now));
        assert!(!worth.is_shunned(7, now + DELEGATION_BACKOFF));
        for directory in 0..10 * COUNTED_DIRECTORIES_MAX as u64 {
            worth.count(directory, now);
            worth.shun(directory, now);
        }
        let bound = COUNTED_DIRECTORIES_MAX;
        assert!(worth.counted.len() <= bound && worth.shunned.len() <= bound);
    }
}
