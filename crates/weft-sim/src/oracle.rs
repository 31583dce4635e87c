//! What a file may hold: the bytes that some order of the acknowledged, failed and lost writes explains.

use std::collections::BTreeSet;

/// The allowed values of every byte of a file's canonical order, written by one client at a time.
#[derive(Clone, Debug)]
pub struct Oracle {
    bytes: Vec<Allowed>,
}

#[derive(Clone, Debug)]
struct Allowed {
    /// What a read may see now.
    now: BTreeSet<u8>,
    /// What power loss may bring back: the value of the last sync and everything since.
    after_power_loss: BTreeSet<u8>,
}

impl Oracle {
    /// A file of holes.
    pub fn new(length: usize) -> Oracle {
        let zero = BTreeSet::from([0]);
        let byte = Allowed {
            now: zero.clone(),
            after_power_loss: zero,
        };
        Oracle {
            bytes: vec![byte; length],
        }
    }

    /// These bytes were written and acknowledged.
    pub fn acknowledged(&mut self, at: usize, data: &[u8]) {
        for (byte, value) in self.bytes[at..].iter_mut().zip(data) {
            byte.now = BTreeSet::from([*value]);
            byte.after_power_loss.insert(*value);
        }
    }

    /// As [`Oracle::acknowledged`], for a write that was [`Oracle::uncertain`] until now: where power was lost while
    /// it was under way (the byte allows more than `before` and the write explain), it stays uncertain.
    pub fn acknowledged_during(&mut self, at: usize, data: &[u8], before: &Oracle) {
        let pairs = self.bytes[at..].iter_mut().zip(&before.bytes[at..]);
        for ((byte, before), value) in pairs.zip(data) {
            let mut explained = before.now.clone();
            explained.insert(*value);
            if byte.now == explained {
                byte.now = BTreeSet::from([*value]);
            }
        }
    }

    /// These bytes may have been written.
    pub fn uncertain(&mut self, at: usize, data: &[u8]) {
        for (byte, value) in self.bytes[at..].iter_mut().zip(data) {
            byte.now.insert(*value);
            byte.after_power_loss.insert(*value);
        }
    }

    /// A sync was acknowledged, with nothing written while it was under way.
    pub fn synced(&mut self) {
        for byte in &mut self.bytes {
            byte.after_power_loss = byte.now.clone();
        }
    }

    /// The machine that holds the bytes chosen by `on` lost power.
    pub fn power_lost(&mut self, on: impl Fn(usize) -> bool) {
        for (at, byte) in self.bytes.iter_mut().enumerate() {
            if on(at) {
                byte.now = byte.after_power_loss.clone();
            }
        }
    }

    /// The first byte that was read and that nothing explains: `(offset, value, allowed)`.
    pub fn check(&self, at: usize, read: &[u8]) -> Option<(usize, u8, Vec<u8>)> {
        read.iter().enumerate().find_map(|(i, value)| {
            let allowed = &self.bytes[at + i].now;
            (!allowed.contains(value)).then(|| (at + i, *value, allowed.iter().copied().collect()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_byte_may_go_back_only_by_power_loss_and_only_to_the_last_sync() {
        let mut oracle = Oracle::new(1);
        oracle.acknowledged(0, b"a");
        oracle.synced();
        oracle.acknowledged(0, b"b");
        assert!(oracle.check(0, b"b").is_none());
        assert!(oracle.check(0, b"a").is_some());
        oracle.power_lost(|_| true);
        assert!(oracle.check(0, b"a").is_none());
        assert!(oracle.check(0, b"b").is_none());
        assert_eq!(oracle.check(0, b"\0"), Some((0, 0, vec![b'a', b'b'])));
    }
}
