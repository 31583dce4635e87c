//! Whether writes to addressed files send the names of chunks first.
//!
//! They do as long as servers have an eighth of the chunks or more. Otherwise a large write probes
//! with a few of its chunks, after more answers in vain one of a few calls that go on with a pass
//! over a file does, and small writes probe now and then.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{
    NAMING_LARGE_SKIPPED_MAX, NAMING_PROBE_SHARE, NAMING_SKIPPED_MAX, NAMING_VAIN_CALLS,
};

/// Whether the last chunks that were named were known to their servers.
#[derive(Default)]
pub(crate) struct NamingPays {
    /// Answers without known chunks since the last one with some.
    vain: AtomicU32,
    /// Small writes since the last that probed.
    skipped: AtomicU32,
    /// Calls since the last whose large parts probed.
    calls: AtomicU32,
}

/// Which chunks of a write to name before any bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    All,
    /// So many, and the others only if one of these is known.
    Probe(u64),
    None,
}

impl NamingPays {
    /// Whether the large parts of a call probe. `anew`: it does not go on where the one before
    /// ended, so that what is known of that says nothing of it.
    pub(crate) fn probes(&self, anew: bool) -> bool {
        let vain = self.vain.load(Ordering::Relaxed);
        let most = (vain / NAMING_VAIN_CALLS).min(NAMING_LARGE_SKIPPED_MAX);
        if !anew && self.calls.fetch_add(1, Ordering::Relaxed) < most {
            return false;
        }
        self.calls.store(0, Ordering::Relaxed);
        true
    }

    /// For a part of a call with so many chunks; `probes`: as [`NamingPays::probes`].
    pub(crate) fn ask(&self, chunks: u64, probes: bool) -> Naming {
        let vain = self.vain.load(Ordering::Relaxed);
        if vain == 0 {
            return Naming::All;
        }
        let probe = chunks / NAMING_PROBE_SHARE;
        if probe > 0 {
            return if probes {
                Naming::Probe(probe)
            } else {
                Naming::None
            };
        }
        let most = (1 << vain.min(16)).min(NAMING_SKIPPED_MAX);
        if self.skipped.fetch_add(1, Ordering::Relaxed) < most {
            return Naming::None;
        }
        self.skipped.store(0, Ordering::Relaxed);
        Naming::All
    }

    /// Takes note of an answer: of so many chunks the server lacked so many.
    pub(crate) fn note(&self, named: u64, lacking: u64) {
        if lacking * 8 > named * 7 {
            self.vain.fetch_add(1, Ordering::Relaxed);
        } else {
            self.vain.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_answers_without_a_known_chunk_fewer_chunks_are_named() {
        let pays = NamingPays::default();
        let mut named = 0;
        for _ in 0..1000 {
            if pays.ask(1, true) == Naming::All {
                named += 1;
                pays.note(1, 1);
            }
        }
        assert!(named < 40, "{named}");
        for _ in 0..64 {
            pays.note(10, 10);
        }
        // Of four large calls that go on, one probes; so does each that begins anew.
        let asks = |anew| pays.ask(160, pays.probes(anew));
        let asked: Vec<_> = (0..40).map(|_| asks(false)).collect();
        let probes = asked.iter().filter(|asked| **asked == Naming::Probe(10));
        assert_eq!(probes.count(), 10);
        assert!(!asked.contains(&Naming::All));
        assert!((0..40).all(|_| asks(true) == Naming::Probe(10)));
        pays.note(10, 8);
        assert_eq!(asks(false), Naming::All);
        assert_eq!(pays.ask(1, false), Naming::All);
    }
}
