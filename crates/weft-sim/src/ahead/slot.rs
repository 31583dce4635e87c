//! One name: everything that it stands for, stood for, or may stand for.
//!
//! The versions of a name follow one another, because only one client at a time has its *turn* and
//! changes it. Three positions among them say what must be there:
//!
//! - `acked`: the last change that a client was told of. Other clients see it as long as its maker
//!   lives.
//! - `kept`: the last change that outlives its maker.
//! - `durable`: the last change that survives power loss of the metadata service.
//!
//! What is there is some version at or after the position that applies: changes of one name reach
//! the service in the order in which they were made.
//!
//! Invariant: `durable <= kept <= acked < versions.len()`.

use super::entry::{Entry, FileState, Seen};
use crate::oracle::{Losses, Time};

/// A call of a process that died may still run at the service, which waits five seconds for each
/// silent holder of a directory on its way.
pub(super) const ZOMBIE_TIMEOUT: Time = 45_000_000_000;
/// A report meets only directories of its sender.
const LATE_REPORT_TIMEOUT: Time = 12_000_000_000;

/// A process of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Maker {
    pub(super) client: usize,
    pub(super) life: u64,
}

#[derive(Clone, Debug)]
struct Version {
    entry: Entry,
    by: Maker,
    acked_at: Time,
    kept_at: Time,
}

impl Version {
    /// Whether this process was told of it before.
    fn is_older(&self, by: Maker, than: Time) -> bool {
        self.by == by && self.acked_at < than
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    versions: Vec<Version>,
    acked: usize,
    kept: usize,
    durable: usize,
    /// How often a loss took something back.
    drops: u64,
    turn: Option<Maker>,
    /// Power loss took back what a later, unreported change of attributes followed: that is applied
    /// to an earlier content then.
    mixed: bool,
    /// Until then a call may still change it, although its caller has died or was not answered.
    late_until: Time,
}

/// What had to be there when somebody began to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
    acked: usize,
    kept: usize,
    drops: u64,
}

impl Slot {
    /// A name that was never used.
    pub(super) fn new() -> Slot {
        let never = Version {
            entry: Entry::Absent,
            by: Maker { client: 0, life: 0 },
            acked_at: 0,
            kept_at: 0,
        };
        Slot {
            versions: vec![never],
            acked: 0,
            kept: 0,
            durable: 0,
            drops: 0,
            turn: None,
            mixed: false,
            late_until: 0,
        }
    }

    fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// What it stands for as far as clients were told.
    pub(super) fn entry(&self) -> Entry {
        self.versions[self.acked].entry
    }

    pub(super) fn drops(&self) -> u64 {
        self.drops
    }

    /// Nobody is changing it, and no unanswered change may come late.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.turn.is_none() && now >= self.late_until
    }

    /// It is known what it stands for.
    pub(super) fn is_certain(&self) -> bool {
        self.acked == self.last()
    }

    /// The processes whose changes may be lost with them.
    pub(super) fn unkept(&self) -> impl Iterator<Item = Maker> {
        self.versions[self.kept + 1..]
            .iter()
            .map(|version| version.by)
    }

    pub(super) fn take_turn(&mut self, by: Maker) {
        assert_eq!(self.turn, None, "one client at a time");
        self.turn = Some(by);
    }

    /// Ends a turn; with `late`, a call was not answered and may still take effect.
    pub(super) fn end_turn(&mut self, by: Maker, late: bool, now: Time) {
        if self.turn == Some(by) {
            self.turn = None;
            if late {
                self.late_until = now + ZOMBIE_TIMEOUT;
            }
        }
    }

    /// A change begins.
    pub(super) fn begin(&mut self, entry: Entry, by: Maker) {
        self.versions.push(Version {
            entry,
            by,
            acked_at: 0,
            kept_at: 0,
        });
    }

    /// The last change did not happen, and will not.
    pub(super) fn withdraw(&mut self) {
        if self.last() > self.acked {
            self.versions.pop();
        }
    }

    /// The id of what is being made has become known.
    pub(super) fn identify(&mut self, made: u64) {
        let last = self.last();
        match &mut self.versions[last].entry {
            Entry::Absent => {}
            Entry::Directory { id } => *id = Some(made),
            Entry::File(file) => file.id = Some(made),
        }
    }

    /// The last change was acknowledged.
    pub(super) fn acknowledge(&mut self, now: Time) {
        self.acked = self.last();
        self.versions[self.acked].acked_at = now;
    }

    /// What was acknowledged outlives its maker from now on.
    pub(super) fn keep(&mut self, now: Time) {
        self.keep_to(self.acked, now);
    }

    /// As [`Slot::keep`], of what this process was told before `begun`. Whether there was any.
    pub(super) fn keep_of(&mut self, by: Maker, begun: Time, now: Time) -> bool {
        let before = self.kept;
        while self.kept < self.acked && self.versions[self.kept + 1].is_older(by, begun) {
            self.keep_to(self.kept + 1, now);
        }
        self.kept > before
    }

    /// It certainly exists: something was found in it.
    pub(super) fn exists(&mut self, now: Time) {
        self.keep_to(self.last(), now);
    }

    fn keep_to(&mut self, version: usize, now: Time) {
        while self.kept < version {
            self.kept += 1;
            self.versions[self.kept].kept_at = now;
        }
        self.acked = self.acked.max(self.kept);
    }

    /// What was kept before `begun` survives power loss.
    pub(super) fn synced(&mut self, begun: Time) {
        while self.durable < self.kept && self.versions[self.durable + 1].kept_at < begun {
            self.durable += 1;
        }
    }

    /// As [`Slot::synced`], and what this process was told before `begun`.
    pub(super) fn synced_by(&mut self, by: Maker, begun: Time) {
        self.synced(begun);
        while self.durable < self.kept && self.versions[self.durable + 1].is_older(by, begun) {
            self.durable += 1;
        }
    }

    /// What was kept survives power loss.
    pub(super) fn all_synced(&mut self) {
        self.durable = self.kept;
    }

    /// A process has died. What it was told of before `reported` had reached the service.
    /// Whether something that it was told of is lost.
    pub(super) fn died(&mut self, by: Maker, now: Time, reported: Time) -> bool {
        let mut lost = self.turn == Some(by);
        self.end_turn(by, true, now);
        let unkept = self.versions[self.kept + 1..].iter();
        lost |= unkept.clone().any(|version| version.by == by);
        if !lost {
            return false;
        }
        let until = self.kept
            + unkept
                .take(self.acked - self.kept)
                .take_while(|version| version.is_older(by, reported))
                .count();
        self.keep_to(until, now);
        let told = self.acked > self.kept;
        self.acked = self.kept;
        self.drops += 1;
        self.late_until = self.late_until.max(now + LATE_REPORT_TIMEOUT);
        told
    }

    /// The metadata service has lost power. What it had before `settled` was durable.
    pub(super) fn power_lost(&mut self, settled: Time) {
        self.synced(settled);
        if self.last() > self.durable {
            self.mixed |= self.last() > self.kept && self.kept > self.durable;
            self.kept = self.durable;
            self.acked = self.durable;
            self.drops += 1;
        }
    }

    /// A change that was acknowledged was refused later, or may have been.
    pub(super) fn refused(&mut self) {
        self.acked = self.kept;
        self.drops += 1;
    }

    /// Somebody begins to look.
    pub(super) fn glance(&self) -> Glance {
        Glance {
            acked: self.acked,
            kept: self.kept,
            drops: self.drops,
        }
    }

    /// Somebody who began to look at `glance` has seen this. With `trusted`, the holders of
    /// unreported changes could be asked all the time. Whether it was unreported at the beginning.
    ///
    /// # Errors
    /// What may have been there, if this may not.
    pub(super) fn judge(
        &mut self,
        glance: Glance,
        (seen, losses): (&Seen, &Losses),
        trusted: bool,
        now: Time,
    ) -> Result<bool, String> {
        let same = self.drops == glance.drops;
        let floor = match (same, trusted) {
            (true, true) => glance.acked,
            (true, false) => glance.kept,
            (false, _) => self.durable.min(glance.kept),
        };
        let allowed = (floor..=self.last()).find(|version| {
            let version = &self.versions[*version];
            version.entry.may_be(seen, losses)
        });
        if allowed.is_none() && self.mixed && self.mixes(floor, (seen, losses)) {
            return Ok(false);
        }
        let Some(found) = allowed else {
            let allowed: Vec<_> = self.versions[floor..].iter().map(|v| v.entry).collect();
            return Err(format!(
                "{seen} is there, but may only be one of {allowed:?}; {self:?}"
            ));
        };
        if same {
            self.keep_to(found, now);
        }
        Ok(same && trusted && floor > glance.kept)
    }

    /// The content of one version with the mode of another one, from `floor` on, that were seen.
    fn mix(&self, floor: usize, seen: (&Seen, &Losses)) -> Option<Entry> {
        let files = || self.versions[floor..].iter().filter_map(|v| v.entry.file());
        let mixed = files().flat_map(|file| {
            files().map(move |other| {
                Entry::File(FileState {
                    mode: other.mode,
                    ..file
                })
            })
        });
        mixed.into_iter().find(|entry| entry.may_be(seen.0, seen.1))
    }

    fn mixes(&self, floor: usize, seen: (&Seen, &Losses)) -> bool {
        self.mix(floor, seen).is_some()
    }

    /// What was seen is the only version from now on.
    fn take_mixed(&mut self, seen: (&Seen, &Losses)) {
        if let Some(entry) = self.mix(self.durable, seen) {
            self.versions.truncate(self.durable + 1);
            let by = self.versions[self.durable].by;
            self.begin(entry, by);
            (self.acked, self.kept) = (self.last(), self.last());
        }
    }

    /// As [`Slot::judge`] of a name at rest: what was seen stays.
    ///
    /// # Errors
    /// As [`Slot::judge`].
    pub(super) fn settle(
        &mut self,
        glance: Glance,
        seen: (&Seen, &Losses),
        now: Time,
    ) -> Result<(), String> {
        if self.drops != glance.drops || !self.is_at_rest(now) {
            return Ok(());
        }
        if self.mixed && self.mixes(self.durable, seen) {
            self.take_mixed(seen);
        }
        self.judge(self.glance(), seen, true, now)?;
        self.mixed = false;
        // The last version that fits may be a later one: equal ones are not told apart.
        self.versions.truncate(self.acked + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Maker = Maker { client: 0, life: 1 };

    fn directory(id: u64) -> Entry {
        Entry::Directory { id: Some(id) }
    }

    fn sees(slot: &Slot, seen: &Seen) -> bool {
        let losses = Losses::new(1);
        let glance = slot.glance();
        let judged = slot.clone().judge(glance, (seen, &losses), true, 9);
        judged.is_ok()
    }

    #[test]
    fn a_death_takes_back_what_was_not_kept_and_power_loss_what_was_not_durable() {
        let mut slot = Slot::new();
        let (none, made) = (Seen::Absent, Seen::Directory { id: 7 });
        slot.begin(directory(7), ONE);
        assert!(sees(&slot, &none) && sees(&slot, &made), "it is under way");
        slot.acknowledge(5);
        assert!(!sees(&slot, &none) && sees(&slot, &made));
        let mut dead = slot.clone();
        dead.died(ONE, 6, 5);
        assert!(sees(&dead, &none) && sees(&dead, &made));
        let mut old = slot.clone();
        old.died(ONE, 60, 50);
        assert!(!sees(&old, &none), "it was reported long ago");
        slot.keep(6);
        slot.died(ONE, 7, 0);
        assert!(!sees(&slot, &none));
        let mut dark = slot.clone();
        dark.power_lost(0);
        assert!(sees(&dark, &none) && sees(&dark, &made));
        slot.synced(7);
        slot.power_lost(0);
        assert!(!sees(&slot, &none) && sees(&slot, &made));
    }

    #[test]
    fn what_was_seen_stays() {
        let mut slot = Slot::new();
        let losses = Losses::new(1);
        slot.begin(directory(7), ONE);
        slot.acknowledge(5);
        let seen = Seen::Directory { id: 7 };
        let glance = slot.glance();
        slot.judge(glance, (&seen, &losses), true, 6).unwrap();
        slot.died(ONE, 7, 0);
        assert!(!sees(&slot, &Seen::Absent));
        assert!(!sees(&slot, &Seen::Directory { id: 8 }), "another one");
    }

    #[test]
    fn a_settled_name_stands_for_what_was_found() {
        let mut slot = Slot::new();
        let losses = Losses::new(1);
        slot.begin(directory(7), ONE);
        slot.acknowledge(5);
        slot.died(ONE, 7, 0);
        assert!(!slot.is_certain() && !slot.is_at_rest(8));
        let later = 8 + ZOMBIE_TIMEOUT;
        let glance = slot.glance();
        let absent = (&Seen::Absent, &losses);
        slot.settle(glance, absent, later).unwrap();
        assert!(slot.is_certain() && slot.entry() == Entry::Absent);
        assert!(!sees(&slot, &Seen::Directory { id: 7 }));
    }
}
