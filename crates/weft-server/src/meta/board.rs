//! What is owed to I/O servers, as far as it was read: what may be done now, and what waits for
//! what.
//!
//! Deletes and the rest go separate ways. Nothing follows a delete, so a server does its deletes in
//! the order of their numbers, and all that is remembered of them is how far it came (`mark`). Of
//! the rest each is known by its number and files: it begins when no older one is about one of its
//! files, and when none of its servers is silent or has too much to do. One that fails because a
//! server does not answer waits for that server alone; one that a server refuses is tried again at
//! the next tick.
//!
//! Invariants:
//! 1. Of the intents about one file one is under way, the oldest.
//! 2. Of the intents that need a silent server one is under way, and those whose callers wait.
//! 3. What is remembered is bounded by [`FILES_MAX`] and the number of servers, whatever is owed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;
use weft_layout::ServerId;
use weft_meta::{Intent, OwedPage};

use super::carry::Refusal;

/// Files of all intents that are remembered; what is owed behind them is read when some of them are
/// done.
const FILES_MAX: usize = 1 << 20;
/// Intents under way that need one server.
const UNDER_WAY: usize = 128;

/// Something to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Carry this intent through.
    Intent(u64),
    /// Send a server the deletes that it owes from its mark on.
    Deletes(ServerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// An older one comes first.
    Behind,
    /// For this server to answer, or to have less to do.
    Parked(ServerId),
    /// It was refused: at the next tick.
    Later,
    UnderWay,
}

struct Entry {
    /// It is about a tree, whichever of its files are left.
    tree: bool,
    files: Vec<u64>,
    servers: Vec<ServerId>,
    stage: Stage,
    tries: u64,
    refusal: Option<Refusal>,
}

#[derive(Default)]
struct Server {
    silent: bool,
    under_way: usize,
    parked: BTreeSet<u64>,
    lane: Lane,
}

/// A server's deletes.
#[derive(Default)]
struct Lane {
    /// Those below this number are done.
    mark: u64,
    /// There are some below this number.
    wanted: u64,
    under_way: bool,
    /// The first of those that were refused, its file, and why.
    refusal: Option<(u64, u64, Refusal)>,
}

/// How an intent stands, for the caller who waits for it.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    /// It is not owed any more.
    Done,
    /// It was tried so often; under way again, or why it failed.
    Tried(u64, Option<Refusal>),
    /// This one comes first, and was tried so often.
    Behind(u64, u64, Option<Refusal>),
    /// It was not read yet: too much is owed before it.
    NotRead,
}

/// See the module.
#[derive(Default)]
pub(super) struct Board {
    /// Intents below this number were read.
    read: u64,
    /// There was more than could be read.
    more: bool,
    entries: BTreeMap<u64, Entry>,
    queues: HashMap<u64, BTreeSet<u64>>,
    later: BTreeSet<u64>,
    servers: BTreeMap<ServerId, Server>,
    files: usize,
    work: Vec<Work>,
    waiting: HashMap<u64, Vec<Arc<Notify>>>,
}

impl Board {
    /// From which number on intents are to be read, if there is room for more.
    pub(super) fn wants(&self) -> Option<u64> {
        (self.files < FILES_MAX).then_some(self.read)
    }

    /// Whether something was left unread for which there is room now.
    pub(super) fn is_behind(&self) -> bool {
        self.more && self.files < FILES_MAX
    }

    /// Takes in what was read. Answers deletes that no server owes.
    pub(super) fn add(&mut self, page: OwedPage) -> Vec<u64> {
        let mut nobodys = Vec::new();
        for intent in page.intents {
            let number = intent.number();
            // Two may read the same.
            if number < self.read {
                continue;
            }
            let servers = intent.servers();
            if let Intent::Delete { .. } = intent {
                if servers.is_empty() {
                    nobodys.push(number);
                }
                self.supersede(intent.file().0);
                for server in servers {
                    let lane = &mut self.servers.entry(server).or_default().lane;
                    lane.wanted = lane.wanted.max(number + 1);
                    self.send_deletes(server, false);
                }
                continue;
            }
            let files = intent.files();
            self.files += files.len();
            for file in &files {
                self.queues.entry(*file).or_default().insert(number);
            }
            let entry = Entry {
                tree: matches!(intent, Intent::Tree { .. }),
                files,
                servers,
                stage: Stage::Behind,
                tries: 0,
                refusal: None,
            };
            self.entries.insert(number, entry);
            self.wake(number, false);
        }
        if page.next >= self.read {
            (self.read, self.more) = (page.next, page.more);
        }
        nobodys
    }

    /// A file's delete is owed: nothing else about this file alone is any more.
    fn supersede(&mut self, file: u64) {
        let queue = self.queues.get(&file).cloned().unwrap_or_default();
        for number in queue {
            let stays = |entry: &Entry| entry.stage == Stage::UnderWay || entry.tree;
            if !self.entries.get(&number).is_some_and(stays) {
                self.done(number, false);
            }
        }
    }

    /// What is to be begun now.
    pub(super) fn take_work(&mut self) -> Vec<Work> {
        std::mem::take(&mut self.work)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        let busy = |server: &Server| server.under_way > 0 || server.lane.under_way;
        self.work.is_empty() && !self.servers.values().any(busy)
    }

    /// Whether an intent was never tried in this life of the service.
    pub(super) fn is_new(&self, number: u64) -> bool {
        self.entries
            .get(&number)
            .is_none_or(|entry| entry.tries == 0)
    }

    /// Begins an intent if nothing stands in its way; with `force` also where a server is silent or
    /// has much to do.
    pub(super) fn wake(&mut self, number: u64, force: bool) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        if entry.stage == Stage::UnderWay {
            return;
        }
        unlist(&mut self.later, &mut self.servers, number, entry.stage);
        let first = |file: &u64| self.queues[file].first() == Some(&number);
        if !entry.files.iter().all(first) {
            entry.stage = Stage::Behind;
            return;
        }
        for server in entry.servers.iter().filter(|_| !force) {
            let state = self.servers.entry(*server).or_default();
            if state.silent || state.under_way >= UNDER_WAY {
                entry.stage = Stage::Parked(*server);
                state.parked.insert(number);
                return;
            }
        }
        entry.stage = Stage::UnderWay;
        for server in &entry.servers {
            self.servers.entry(*server).or_default().under_way += 1;
        }
        self.work.push(Work::Intent(number));
    }

    /// An intent is carried through, after its servers were asked, or is not owed any more.
    pub(super) fn done(&mut self, number: u64, asked: bool) {
        let Some(entry) = self.leave(number) else {
            return;
        };
        self.files -= entry.files.len();
        let (mut next, mut behind) = (BTreeSet::new(), BTreeSet::new());
        for file in &entry.files {
            if let Some(queue) = self.queues.get_mut(file) {
                queue.remove(&number);
                next.extend(queue.first());
                behind.extend(queue.iter().filter(|n| self.waiting.contains_key(n)));
                if queue.is_empty() {
                    self.queues.remove(file);
                }
            }
        }
        self.tell(number);
        // Whoever waits further behind may have something else before it now, and sees to that.
        for number in behind {
            self.tell(number);
        }
        for number in next {
            self.wake(number, false);
        }
        for server in entry.servers {
            if asked {
                self.answered(server);
            } else {
                self.unpark(server);
            }
        }
    }

    /// An intent was tried in vain.
    pub(super) fn failed(&mut self, number: u64, refusal: &Refusal) {
        let Some(mut entry) = self.leave(number) else {
            return;
        };
        entry.tries += 1;
        entry.refusal = Some(refusal.clone());
        let servers = entry.servers.clone();
        if let Some(server) = refusal.server.filter(|_| refusal.silent) {
            entry.stage = Stage::Parked(server);
            let state = self.servers.entry(server).or_default();
            state.silent = true;
            state.parked.insert(number);
        } else {
            entry.stage = Stage::Later;
            self.later.insert(number);
        }
        let behind = entry.files.iter().filter_map(|file| self.queues.get(file));
        let behind = behind.filter(|queue| queue.len() > 1).flatten();
        let told: BTreeSet<u64> = behind.copied().chain([number]).collect();
        self.entries.insert(number, entry);
        for number in told {
            self.tell(number);
        }
        for server in servers {
            if refusal.server == Some(server) && !refusal.silent {
                self.answered(server);
            } else {
                self.unpark(server);
            }
        }
    }

    /// Takes an entry out of where it stands.
    fn leave(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        unlist(&mut self.later, &mut self.servers, number, entry.stage);
        let begun = entry.stage == Stage::UnderWay;
        for server in entry.servers.iter().filter(|_| begun) {
            if let Some(server) = self.servers.get_mut(server) {
                server.under_way = server.under_way.saturating_sub(1);
            }
        }
        Some(entry)
    }

    /// A server answers.
    fn answered(&mut self, server: ServerId) {
        if let Some(state) = self.servers.get_mut(&server) {
            state.silent = false;
        }
        self.unpark(server);
        self.send_deletes(server, false);
    }

    fn unpark(&mut self, server: ServerId) {
        let room = match self.servers.get(&server) {
            Some(state) if !state.silent => UNDER_WAY.saturating_sub(state.under_way),
            _ => 0,
        };
        for _ in 0..room {
            let state = self.servers.get_mut(&server);
            let Some(number) = state.and_then(|state| state.parked.pop_first()) else {
                return;
            };
            self.wake(number, false);
        }
    }

    fn send_deletes(&mut self, server: ServerId, force: bool) {
        let Some(state) = self.servers.get_mut(&server) else {
            return;
        };
        let lane = &mut state.lane;
        let held = state.silent || lane.refusal.is_some();
        if lane.under_way || lane.wanted <= lane.mark || held && !force {
            return;
        }
        lane.under_way = true;
        self.work.push(Work::Deletes(server));
    }

    /// From which number on a server's deletes are to be sent.
    pub(super) fn mark(&self, server: ServerId) -> u64 {
        self.servers.get(&server).map_or(0, |state| state.lane.mark)
    }

    /// A server has done its deletes below this number; it was asked, unless there were none.
    pub(super) fn deleted(&mut self, server: ServerId, below: u64, asked: bool) {
        let lane = &mut self.servers.entry(server).or_default().lane;
        (lane.under_way, lane.refusal) = (false, None);
        lane.mark = lane.mark.max(below);
        if asked {
            self.answered(server);
        } else {
            self.send_deletes(server, false);
        }
    }

    /// Whether all these servers have done the delete of this number.
    pub(super) fn is_deleted(&self, number: u64, servers: &[ServerId]) -> bool {
        servers.iter().all(|server| self.mark(*server) > number)
    }

    /// A delete that all servers have done could not be noted: it is done again.
    pub(super) fn delete_again(&mut self, server: ServerId, number: u64) {
        let lane = &mut self.servers.entry(server).or_default().lane;
        lane.mark = lane.mark.min(number);
    }

    /// A server did not do its deletes; `first` is the first of them and its file.
    pub(super) fn not_deleted(&mut self, server: ServerId, first: (u64, u64), refusal: Refusal) {
        let state = self.servers.entry(server).or_default();
        if refusal.server == Some(server) {
            state.silent = refusal.silent;
        }
        state.lane.under_way = false;
        state.lane.refusal = Some((first.0, first.1, refusal));
        self.unpark(server);
    }

    /// Tries again what was refused, and one thing with each silent server.
    pub(super) fn tick(&mut self) {
        for number in std::mem::take(&mut self.later) {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.stage = Stage::Behind;
            }
            self.wake(number, false);
        }
        let servers: Vec<ServerId> = self.servers.keys().copied().collect();
        for server in servers {
            self.send_deletes(server, true);
            let Some(state) = self.servers.get(&server).filter(|state| state.silent) else {
                continue;
            };
            if state.under_way == 0
                && !state.lane.under_way
                && let Some(first) = state.parked.first().copied()
            {
                self.wake(first, true);
            }
        }
    }

    /// How an intent stands.
    pub(super) fn standing(&self, number: u64) -> Standing {
        let Some(entry) = self.entries.get(&number) else {
            if number < self.read {
                return Standing::Done;
            }
            return Standing::NotRead;
        };
        let heads = entry
            .files
            .iter()
            .filter_map(|file| self.queues[file].first());
        if let Some(first) = heads.min().filter(|first| **first < number) {
            let of = &self.entries[first];
            let refusal = of.refusal.clone();
            Standing::Behind(*first, of.tries, refusal)
        } else {
            let under_way = entry.stage == Stage::UnderWay;
            let refusal = entry.refusal.clone().filter(|_| !under_way);
            Standing::Tried(entry.tries, refusal)
        }
    }

    /// What servers refuse for reasons that do not go away by themselves: number, file, why.
    pub(super) fn refused(&self) -> Vec<(u64, u64, Refusal)> {
        let entries = self.entries.iter().filter_map(|(number, entry)| {
            let refusal = entry.refusal.clone()?;
            Some((*number, entry.files.first().copied()?, refusal))
        });
        let lanes = self.servers.values().filter_map(|s| s.lane.refusal.clone());
        let all = entries.chain(lanes);
        all.filter(|(_, _, refusal)| refusal.lasting).collect()
    }

    /// Whether this intent is one of those.
    pub(super) fn is_refused(&self, number: u64) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|e| e.refusal.as_ref().is_some_and(|refusal| refusal.lasting))
    }

    /// Who is told when something becomes of an intent, until [`Board::forget`].
    pub(super) fn wait(&mut self, number: u64) -> Arc<Notify> {
        let caller = Arc::new(Notify::new());
        self.waiting.entry(number).or_default().push(caller.clone());
        caller
    }

    pub(super) fn forget(&mut self, number: u64, caller: &Arc<Notify>) {
        if let Some(callers) = self.waiting.get_mut(&number) {
            callers.retain(|other| !Arc::ptr_eq(other, caller));
            if callers.is_empty() {
                self.waiting.remove(&number);
            }
        }
    }

    fn tell(&self, number: u64) {
        for caller in self.waiting.get(&number).into_iter().flatten() {
            caller.notify_one();
        }
    }

    /// Everybody who waits.
    pub(super) fn tell_all(&self) {
        self.waiting.values().flatten().for_each(|c| c.notify_one());
    }
}

/// Takes an intent off the lists that its stage has it on.
fn unlist(
    later: &mut BTreeSet<u64>,
    servers: &mut BTreeMap<ServerId, Server>,
    number: u64,
    stage: Stage,
) {
    match stage {
        Stage::Later => drop(later.remove(&number)),
        Stage::Parked(server) => {
            if let Some(server) = servers.get_mut(&server) {
                server.parked.remove(&number);
            }
        }
        Stage::Behind | Stage::UnderWay => {}
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
