//! What the size of a file may be.

use crate::oracle::Losses;

/// Bounds of the size of a file that one client writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    low: usize,
    high: usize,
    /// What `low` falls back to when a machine loses power.
    durable: usize,
    /// Losses of power that are in these bounds.
    losses: usize,
}

impl Size {
    /// It is this, also after power loss.
    pub(super) fn exactly(size: usize, losses: &Losses) -> Size {
        Size {
            low: size,
            high: size,
            durable: size,
            losses: losses.count(),
        }
    }

    /// These bounds for what survives power loss from now on.
    pub(super) fn kept(mut self, losses: &Losses) -> Size {
        self.take_in(losses);
        Size {
            durable: self.low,
            ..self
        }
    }

    /// Bytes up to `end` are about to be written.
    pub(super) fn begin_write(&mut self, end: usize, losses: &Losses) {
        self.take_in(losses);
        self.high = self.high.max(end);
    }

    /// They were.
    pub(super) fn written(&mut self, end: usize, losses: &Losses) {
        if !self.take_in(losses) {
            self.low = self.low.max(end);
        }
    }

    /// A sync is about to begin.
    pub(super) fn begin_sync(&mut self, losses: &Losses) {
        self.take_in(losses);
    }

    /// It was acknowledged.
    pub(super) fn synced(&mut self, losses: &Losses) {
        if !self.take_in(losses) {
            self.durable = self.low;
        }
    }

    /// Whether a file may have this size now.
    pub(super) fn allows(&mut self, size: u64, losses: &Losses) -> bool {
        self.take_in(losses);
        (self.low as u64..=self.high as u64).contains(&size)
    }

    /// Takes losses in that came since; whether there were any.
    fn take_in(&mut self, losses: &Losses) -> bool {
        let lost = self.losses != losses.count();
        if lost {
            self.low = self.durable;
            self.losses = losses.count();
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_loss_may_reduce_a_size_to_the_synced_one_but_not_below() {
        let mut losses = Losses::new(1);
        let mut size = Size::exactly(10, &losses);
        size.begin_write(20, &losses);
        size.written(20, &losses);
        assert!(!size.allows(10, &losses));
        size.begin_sync(&losses);
        size.synced(&losses);
        size.begin_write(30, &losses);
        losses.note(0, 1);
        size.written(30, &losses);
        assert!(size.allows(20, &losses) && size.allows(30, &losses));
        assert!(!size.allows(19, &losses) && !size.allows(31, &losses));
    }
}
