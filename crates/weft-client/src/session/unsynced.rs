//! Acknowledged changes that may not survive power loss yet, and which of them were lost
//! (`docs/design/0021-incarnations.md`).
//!
//! Every acknowledged change comes with a position: the incarnation of the server, and a commit of
//! it that covers the change. Positions are kept by file until a sync of the file, or until the
//! server says by the way that they survive. A sync names them, and a server that came back without
//! some of them says so. Such a loss is counted, and each attachment, which remembers how many
//! losses it has reported, reports it to its program once.
//!
//! Invariant: a position is dropped only when a server has said that it survives power loss, or
//! that it is lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_layout::ServerId;
use weft_proto::stamp::{Position, ServerPosition, Stamp};

use crate::limits::UNSYNCED_FILES_MAX;

/// The last commit by server and incarnation.
pub(crate) type Positions = BTreeMap<(ServerId, u64), u64>;

/// What a client must still find out of its changes.
#[derive(Default)]
pub(crate) struct Unsynced {
    state: Mutex<State>,
    names: Mutex<Names>,
    /// Files with losses: looked at without the lock.
    lossy: AtomicU64,
}

#[derive(Default)]
struct State {
    files: HashMap<u64, Changes>,
    /// Of files beyond the bound.
    others: Positions,
    /// What is known to survive, by server and incarnation.
    durable: Positions,
}

#[derive(Default)]
struct Changes {
    at: Positions,
    losses: Losses,
}

#[derive(Default)]
struct Names {
    at: BTreeMap<u64, u64>,
    losses: Losses,
}

/// What was lost, for attachments that were there.
#[derive(Clone, Default)]
struct Losses {
    count: u64,
    /// Of the last one.
    message: String,
    /// Some attachment has reported the last one to its program.
    seen: bool,
}

impl Losses {
    fn add(&mut self, message: &str) {
        self.count += 1;
        message.clone_into(&mut self.message);
        self.seen = false;
    }

    /// How many losses count as reported for an attachment that begins now: one that no program
    /// knows of is left for it.
    fn baseline(&self) -> u64 {
        self.count - u64::from(self.count > 0 && !self.seen)
    }

    /// The loss that was not reported yet.
    fn unreported(&mut self, reported: &AtomicU64) -> Option<String> {
        if reported.swap(self.count, Ordering::AcqRel) >= self.count {
            return None;
        }
        self.seen = true;
        Some(self.message.clone())
    }
}

impl Unsynced {
    /// Takes note of a change of a file that a server acknowledged.
    pub(crate) fn note(&self, file: u64, server: ServerId, stamp: &Stamp) {
        let Some(at) = stamp.changed else { return };
        let mut state = self.state.lock();
        if stamp.durable > 0 {
            raise(&mut state.durable, (server, at.incarnation), stamp.durable);
        }
        if !state.files.contains_key(&file) && state.files.len() >= UNSYNCED_FILES_MAX {
            state.thin();
        }
        let state = &mut *state;
        let changes = match state.files.len() {
            n if n < UNSYNCED_FILES_MAX => &mut state.files.entry(file).or_default().at,
            _ => match state.files.get_mut(&file) {
                Some(changes) => &mut changes.at,
                None => &mut state.others,
            },
        };
        raise(changes, (server, at.incarnation), at.sequence);
    }

    /// As [`Unsynced::note`], of what another server acknowledged to the one that was asked.
    pub(crate) fn note_all(&self, file: u64, written: &[ServerPosition]) {
        for one in written {
            let stamp = Stamp {
                changed: Some(one.at),
                durable: 0,
            };
            self.note(file, ServerId(one.server), &stamp);
        }
    }

    /// What a sync of a file must ask for.
    pub(crate) fn of_file(&self, file: u64) -> Positions {
        let state = self.state.lock();
        let mut all = state.others.clone();
        if let Some(changes) = state.files.get(&file) {
            for (key, sequence) in &changes.at {
                raise(&mut all, *key, *sequence);
            }
        }
        all.retain(|key, sequence| state.durable.get(key).is_none_or(|d| d < sequence));
        all
    }

    /// The files of which a server acknowledged something that may not survive yet.
    pub(crate) fn files_on(&self, server: ServerId) -> Vec<u64> {
        let state = self.state.lock();
        let there = |changes: &Changes| changes.at.keys().any(|(s, _)| *s == server);
        let files = state.files.iter().filter(|(_, changes)| there(changes));
        files.map(|(file, _)| *file).collect()
    }

    /// Everything that a server acknowledged and that may not survive yet.
    pub(crate) fn on_server(&self, server: ServerId) -> Positions {
        let state = self.state.lock();
        let mut all = Positions::new();
        let files = state.files.values().map(|changes| &changes.at);
        for (key, sequence) in files.chain([&state.others]).flatten() {
            if key.0 == server {
                raise(&mut all, *key, *sequence);
            }
        }
        all
    }

    /// A server has said that this survives power loss, whatever file it is of.
    pub(crate) fn synced(&self, asked: &Positions, server: ServerId) {
        let mut state = self.state.lock();
        for (key, sequence) in asked.iter().filter(|(key, _)| key.0 == server) {
            raise(&mut state.durable, *key, *sequence);
        }
        if state.files.len() >= UNSYNCED_FILES_MAX / 2 {
            state.thin();
        }
        let State {
            others, durable, ..
        } = &mut *state;
        others.retain(|key, sequence| durable.get(key).is_none_or(|d| d < sequence));
    }

    /// A server has said that some of this is gone.
    pub(crate) fn lost(&self, file: u64, asked: &Positions, server: ServerId, message: &str) {
        let mut state = self.state.lock();
        let State { files, others, .. } = &mut *state;
        let changes = files.entry(file).or_default();
        let was_asked = |key: &(ServerId, u64), sequence: &mut u64| {
            key.0 == server && asked.get(key).is_some_and(|asked| asked >= sequence)
        };
        changes.at.retain(|key, sequence| !was_asked(key, sequence));
        others.retain(|key, sequence| !was_asked(key, sequence));
        changes.losses.add(message);
        self.lossy.fetch_add(1, Ordering::AcqRel);
    }

    /// How many losses count as reported for an attachment of this file that begins now.
    pub(crate) fn baseline(&self, file: u64) -> u64 {
        if self.lossy.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let state = self.state.lock();
        state.files.get(&file).map_or(0, |c| c.losses.baseline())
    }

    /// A loss of this file that an attachment has not reported to its program yet.
    pub(crate) fn unreported(&self, file: u64, reported: &AtomicU64) -> Option<String> {
        if self.lossy.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = self.state.lock();
        state.files.get_mut(&file)?.losses.unreported(reported)
    }

    /// Takes note of a change of the namespace that the service acknowledged.
    pub(crate) fn note_names(&self, stamp: &Stamp) {
        if let Some(at) = stamp.changed {
            let mut names = self.names.lock();
            if at.sequence > stamp.durable {
                let last = names.at.entry(at.incarnation).or_default();
                *last = (*last).max(at.sequence);
            }
        }
    }

    /// What a sync of the namespace must ask for.
    pub(crate) fn of_names(&self) -> Vec<Position> {
        let names = self.names.lock();
        let at = names.at.iter();
        at.map(|(incarnation, sequence)| Position {
            incarnation: *incarnation,
            sequence: *sequence,
        })
        .collect()
    }

    /// The service has said what became of these: they survive, or some are gone.
    pub(crate) fn asked_names(&self, asked: &[Position], lost: Option<&str>) {
        let mut names = self.names.lock();
        for at in asked {
            if names
                .at
                .get(&at.incarnation)
                .is_some_and(|last| *last <= at.sequence)
            {
                names.at.remove(&at.incarnation);
            }
        }
        if let Some(message) = lost {
            names.losses.add(message);
        }
    }

    /// As [`Unsynced::baseline`], of names.
    pub(crate) fn names_baseline(&self) -> u64 {
        self.names.lock().losses.baseline()
    }

    /// As [`Unsynced::unreported`], of names.
    pub(crate) fn unreported_names(&self, reported: &AtomicU64) -> Option<String> {
        self.names.lock().losses.unreported(reported)
    }
}

impl State {
    /// Drops what survives, and keeps the rest together if that is not enough.
    fn thin(&mut self) {
        let State {
            files,
            others,
            durable,
        } = self;
        files.retain(|_, changes| {
            changes
                .at
                .retain(|key, sequence| durable.get(key).is_none_or(|d| d < sequence));
            !changes.at.is_empty() || changes.losses.count > 0
        });
        if files.len() < UNSYNCED_FILES_MAX {
            return;
        }
        files.retain(|_, changes| {
            for (key, sequence) in std::mem::take(&mut changes.at) {
                raise(others, key, sequence);
            }
            changes.losses.count > 0
        });
    }
}

fn raise(positions: &mut Positions, key: (ServerId, u64), sequence: u64) {
    let last = positions.entry(key).or_default();
    *last = (*last).max(sequence);
}

/// The positions of one server, for a request.
pub(crate) fn on(positions: &Positions, server: ServerId) -> Vec<Position> {
    let here = positions.iter().filter(|(key, _)| key.0 == server);
    here.map(|(key, sequence)| Position {
        incarnation: key.1,
        sequence: *sequence,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(incarnation: u64, sequence: u64, durable: u64) -> Stamp {
        Stamp {
            changed: Some(Position {
                incarnation,
                sequence,
            }),
            durable,
        }
    }

    const SERVER: ServerId = ServerId(3);

    #[test]
    fn each_attachment_reports_a_loss_once_and_later_attachments_do_not() {
        let unsynced = Unsynced::default();
        let (one, other) = (AtomicU64::new(0), AtomicU64::new(unsynced.baseline(7)));
        unsynced.note(7, SERVER, &stamp(5, 10, 0));
        let asked = unsynced.of_file(7);
        assert_eq!(on(&asked, SERVER).len(), 1);
        unsynced.lost(7, &asked, SERVER, "gone");
        assert!(unsynced.of_file(7).is_empty());
        assert_eq!(unsynced.unreported(7, &one).as_deref(), Some("gone"));
        assert_eq!(unsynced.unreported(7, &one), None);
        let late = AtomicU64::new(unsynced.baseline(7));
        assert_eq!(unsynced.unreported(7, &other).as_deref(), Some("gone"));
        assert_eq!(unsynced.unreported(7, &late), None);
        assert_eq!(unsynced.unreported(8, &AtomicU64::new(0)), None);
    }

    #[test]
    fn an_unreported_loss_is_reported_by_the_next_attachment() {
        let unsynced = Unsynced::default();
        unsynced.note(7, SERVER, &stamp(5, 10, 0));
        unsynced.lost(7, &unsynced.of_file(7), SERVER, "gone");
        let late = AtomicU64::new(unsynced.baseline(7));
        assert!(unsynced.unreported(7, &late).is_some());
    }

    #[test]
    fn only_writes_since_the_sync_remain_unsynced() {
        let unsynced = Unsynced::default();
        unsynced.note(7, SERVER, &stamp(5, 10, 0));
        let asked = unsynced.of_file(7);
        unsynced.note(7, SERVER, &stamp(5, 20, 0));
        unsynced.synced(&asked, SERVER);
        assert_eq!(unsynced.of_file(7)[&(SERVER, 5)], 20);
        // The reply to a write of another file reports a later durable position.
        unsynced.note(8, SERVER, &stamp(5, 30, 25));
        assert!(unsynced.of_file(7).is_empty());
        // A new incarnation has its own positions.
        unsynced.note(7, SERVER, &stamp(6, 2, 1));
        assert_eq!(unsynced.of_file(7).len(), 1);
    }

    #[test]
    fn positions_of_very_many_files_are_merged_and_none_is_dropped() {
        let unsynced = Unsynced::default();
        for file in 0..UNSYNCED_FILES_MAX as u64 + 10 {
            unsynced.note(file, SERVER, &stamp(5, file + 1, 0));
        }
        for file in [0, 77, UNSYNCED_FILES_MAX as u64 + 9] {
            let at = unsynced.of_file(file)[&(SERVER, 5)];
            assert!(at > file, "file {file}");
        }
        assert!(unsynced.state.lock().files.len() <= UNSYNCED_FILES_MAX);
    }

    #[test]
    fn name_changes_remain_unsynced_until_they_survive_or_are_lost() {
        let unsynced = Unsynced::default();
        let reported = AtomicU64::new(unsynced.names_baseline());
        unsynced.note_names(&stamp(5, 10, 0));
        let asked = unsynced.of_names();
        unsynced.note_names(&stamp(5, 11, 0));
        unsynced.asked_names(&asked, None);
        assert_eq!(unsynced.of_names()[0].sequence, 11);
        unsynced.asked_names(&unsynced.of_names(), Some("gone"));
        assert!(unsynced.of_names().is_empty());
        assert!(unsynced.unreported_names(&reported).is_some());
        assert!(unsynced.unreported_names(&reported).is_none());
    }
}
