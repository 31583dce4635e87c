//! The intent scheduler: which intents may run now, and which wait for what.
//!
//! Deletes and other intents are scheduled separately. Nothing follows a delete, so a server does
//! its deletes in the order of their numbers, and the scheduler remembers only how far it is
//! (`mark`). Every other intent is known by its number and files. It starts when no older intent
//! concerns one of its files, and when none of its servers is silent or busy. An intent that fails
//! because a server does not answer waits for that server alone; one that a server refuses is
//! retried at the next tick.
//!
//! Invariants:
//! 1. Of the intents about one file one is running, the oldest.
//! 2. Of the intents that need a silent server one is running, and those with waiting callers.
//! 3. Memory is bounded by [`SCHEDULED_FILES_MAX`] and the number of servers, however many intents
//!    are pending.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;
use weft_layout::ServerId;
use weft_meta::{Intent, IntentPage};

use super::waiters::Waiters;
use crate::limits::{SCHEDULED_FILES_MAX, SERVER_INTENTS_MAX};
use crate::meta::servers::Refusal;

/// Work that can start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Run this intent.
    Intent(u64),
    /// Send a server its pending deletes, from its mark on.
    Deletes(ServerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Behind an older intent.
    Queued,
    /// Until this server answers, or has fewer intents running.
    AwaitsServer(ServerId),
    /// It was refused and is retried at the next tick.
    AwaitsTick,
    Running,
}

struct PendingIntent {
    /// It concerns a tree, whatever files it still has.
    tree: bool,
    files: Vec<u64>,
    servers: Vec<ServerId>,
    stage: Stage,
    tries: u64,
    refusal: Option<Refusal>,
}

#[derive(Default)]
struct ServerState {
    silent: bool,
    running: usize,
    waiting_intents: BTreeSet<u64>,
    deletes: DeleteQueue,
}

/// The deletes of one server.
#[derive(Default)]
struct DeleteQueue {
    /// Deletes below this number are done.
    mark: u64,
    /// There are deletes below this number.
    wanted: u64,
    running: bool,
    /// The first refused delete, its file, and why.
    refusal: Option<(u64, u64, Refusal)>,
}

/// The status of an intent, for a waiting caller.
#[derive(Clone, Debug)]
pub(super) enum IntentStatus {
    /// It is no longer pending.
    Done,
    /// It was tried; the refusal is of the last try, unless the next one is running.
    Tried {
        tries: u64,
        refusal: Option<Refusal>,
    },
    /// The intent `first` comes before it, and was tried.
    Behind {
        first: u64,
        tries: u64,
        refusal: Option<Refusal>,
    },
    /// It was not read yet: too many intents are pending before it.
    NotRead,
}

/// Whether an intent may start although a server is silent or busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// No: it waits for its servers.
    Normal,
    /// Yes: a caller waits for it, or its server is probed.
    Forced,
}

/// Whether servers have answered while an intent ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    Answered,
    /// No server had to be asked.
    NotAsked,
}

/// See the module.
#[derive(Default)]
pub(super) struct IntentScheduler {
    /// Intents below this number were read.
    read: u64,
    /// There are more than could be read.
    more: bool,
    entries: BTreeMap<u64, PendingIntent>,
    /// The intents about each file, oldest first.
    queues: HashMap<u64, BTreeSet<u64>>,
    retries: BTreeSet<u64>,
    servers: BTreeMap<ServerId, ServerState>,
    /// Files of all entries.
    files: usize,
    tasks: Vec<Task>,
    /// The callers that wait for an intent.
    waiting: Waiters,
}

impl IntentScheduler {
    /// The number from which on intents are to be read; `None` while the scheduler is full.
    pub(super) fn read_from(&self) -> Option<u64> {
        (self.files < SCHEDULED_FILES_MAX).then_some(self.read)
    }

    /// Whether intents were left unread and the scheduler has space for them now.
    pub(super) fn has_unread(&self) -> bool {
        self.more && self.files < SCHEDULED_FILES_MAX
    }

    /// Adds intents that were read. Returns deletes that concern no server.
    pub(super) fn add(&mut self, page: IntentPage) -> Vec<u64> {
        let mut without_server = Vec::new();
        for intent in page.intents {
            let number = intent.number();
            // Two tasks may read the same page.
            if number < self.read {
                continue;
            }
            let servers = intent.servers();
            if let Intent::Delete { .. } = intent {
                if servers.is_empty() {
                    without_server.push(number);
                }
                self.supersede(intent.file().0);
                for server in servers {
                    let deletes = &mut self.servers.entry(server).or_default().deletes;
                    deletes.wanted = deletes.wanted.max(number + 1);
                    self.send_deletes(server, Urgency::Normal);
                }
                continue;
            }
            let files = intent.files();
            self.files += files.len();
            for file in &files {
                self.queues.entry(*file).or_default().insert(number);
            }
            let entry = PendingIntent {
                tree: matches!(intent, Intent::Tree { .. }),
                files,
                servers,
                stage: Stage::Queued,
                tries: 0,
                refusal: None,
            };
            self.entries.insert(number, entry);
            self.schedule(number, Urgency::Normal);
        }
        if page.next >= self.read {
            (self.read, self.more) = (page.next, page.more);
        }
        without_server
    }

    /// The file is to be deleted: drops the other intents about this file alone.
    fn supersede(&mut self, file: u64) {
        let queue = self.queues.get(&file).cloned().unwrap_or_default();
        for number in queue {
            let stays = |entry: &PendingIntent| entry.stage == Stage::Running || entry.tree;
            if !self.entries.get(&number).is_some_and(stays) {
                self.done(number, Contact::NotAsked);
            }
        }
    }

    /// The tasks to start now.
    pub(super) fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Whether no task is running.
    pub(super) fn is_idle(&self) -> bool {
        let busy = |server: &ServerState| server.running > 0 || server.deletes.running;
        self.tasks.is_empty() && !self.servers.values().any(busy)
    }

    /// Whether an intent was not tried yet by this incarnation of the service.
    pub(super) fn is_new(&self, number: u64) -> bool {
        self.entries
            .get(&number)
            .is_none_or(|entry| entry.tries == 0)
    }

    /// Starts an intent if it is the oldest of all its files and its servers are free.
    pub(super) fn schedule(&mut self, number: u64, urgency: Urgency) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        if entry.stage == Stage::Running {
            return;
        }
        unlist(&mut self.retries, &mut self.servers, number, entry.stage);
        let first = |file: &u64| self.queues[file].first() == Some(&number);
        if !entry.files.iter().all(first) {
            entry.stage = Stage::Queued;
            return;
        }
        let forced = urgency == Urgency::Forced;
        for server in entry.servers.iter().filter(|_| !forced) {
            let state = self.servers.entry(*server).or_default();
            if state.silent || state.running >= SERVER_INTENTS_MAX {
                entry.stage = Stage::AwaitsServer(*server);
                state.waiting_intents.insert(number);
                return;
            }
        }
        entry.stage = Stage::Running;
        for server in &entry.servers {
            self.servers.entry(*server).or_default().running += 1;
        }
        self.tasks.push(Task::Intent(number));
    }

    /// An intent is done, or no longer pending.
    pub(super) fn done(&mut self, number: u64, contact: Contact) {
        let Some(entry) = self.leave(number) else {
            return;
        };
        self.files -= entry.files.len();
        let (mut next, mut behind) = (BTreeSet::new(), BTreeSet::new());
        for file in &entry.files {
            if let Some(queue) = self.queues.get_mut(file) {
                queue.remove(&number);
                next.extend(queue.first());
                behind.extend(queue.iter().filter(|n| self.waiting.has(**n)));
                if queue.is_empty() {
                    self.queues.remove(file);
                }
            }
        }
        self.waiting.notify(number);
        // Callers further behind may have another intent before theirs now.
        for number in behind {
            self.waiting.notify(number);
        }
        for number in next {
            self.schedule(number, Urgency::Normal);
        }
        for server in entry.servers {
            match contact {
                Contact::Answered => self.answered(server),
                Contact::NotAsked => self.resume(server),
            }
        }
    }

    /// A try of an intent failed.
    pub(super) fn failed(&mut self, number: u64, refusal: &Refusal) {
        let Some(mut entry) = self.leave(number) else {
            return;
        };
        entry.tries += 1;
        entry.refusal = Some(refusal.clone());
        let servers = entry.servers.clone();
        if let Some(server) = refusal.server.filter(|_| refusal.is_silent()) {
            entry.stage = Stage::AwaitsServer(server);
            let state = self.servers.entry(server).or_default();
            state.silent = true;
            state.waiting_intents.insert(number);
        } else {
            entry.stage = Stage::AwaitsTick;
            self.retries.insert(number);
        }
        let behind = entry.files.iter().filter_map(|file| self.queues.get(file));
        let behind = behind.filter(|queue| queue.len() > 1).flatten();
        let notified: BTreeSet<u64> = behind.copied().chain([number]).collect();
        self.entries.insert(number, entry);
        for number in notified {
            self.waiting.notify(number);
        }
        for server in servers {
            if refusal.server == Some(server) && !refusal.is_silent() {
                self.answered(server);
            } else {
                self.resume(server);
            }
        }
    }

    /// Removes an entry, and from the lists of its stage.
    fn leave(&mut self, number: u64) -> Option<PendingIntent> {
        let entry = self.entries.remove(&number)?;
        unlist(&mut self.retries, &mut self.servers, number, entry.stage);
        let begun = entry.stage == Stage::Running;
        for server in entry.servers.iter().filter(|_| begun) {
            if let Some(server) = self.servers.get_mut(server) {
                server.running = server.running.saturating_sub(1);
            }
        }
        Some(entry)
    }

    /// A server has answered.
    fn answered(&mut self, server: ServerId) {
        if let Some(state) = self.servers.get_mut(&server) {
            state.silent = false;
        }
        self.resume(server);
        self.send_deletes(server, Urgency::Normal);
    }

    /// Starts intents that wait for a server, as many as it may have running.
    fn resume(&mut self, server: ServerId) {
        let free = match self.servers.get(&server) {
            Some(state) if !state.silent => SERVER_INTENTS_MAX.saturating_sub(state.running),
            _ => 0,
        };
        for _ in 0..free {
            let state = self.servers.get_mut(&server);
            let Some(number) = state.and_then(|state| state.waiting_intents.pop_first()) else {
                return;
            };
            self.schedule(number, Urgency::Normal);
        }
    }

    fn send_deletes(&mut self, server: ServerId, urgency: Urgency) {
        let Some(state) = self.servers.get_mut(&server) else {
            return;
        };
        let deletes = &mut state.deletes;
        let held = state.silent || deletes.refusal.is_some();
        let held = held && urgency == Urgency::Normal;
        if deletes.running || deletes.wanted <= deletes.mark || held {
            return;
        }
        deletes.running = true;
        self.tasks.push(Task::Deletes(server));
    }

    /// The number from which on a server's deletes are to be sent.
    pub(super) fn mark(&self, server: ServerId) -> u64 {
        self.servers
            .get(&server)
            .map_or(0, |state| state.deletes.mark)
    }

    /// A server has done its deletes below this number.
    pub(super) fn deleted(&mut self, server: ServerId, below: u64, contact: Contact) {
        let deletes = &mut self.servers.entry(server).or_default().deletes;
        (deletes.running, deletes.refusal) = (false, None);
        deletes.mark = deletes.mark.max(below);
        match contact {
            Contact::Answered => self.answered(server),
            Contact::NotAsked => self.send_deletes(server, Urgency::Normal),
        }
    }

    /// Whether all these servers have done this delete.
    pub(super) fn is_deleted(&self, number: u64, servers: &[ServerId]) -> bool {
        servers.iter().all(|server| self.mark(*server) > number)
    }

    /// A delete is done on all servers, but could not be removed from the namespace: it is
    /// repeated.
    pub(super) fn delete_again(&mut self, server: ServerId, number: u64) {
        let deletes = &mut self.servers.entry(server).or_default().deletes;
        deletes.mark = deletes.mark.min(number);
    }

    /// A server did not do its deletes; `first` is the first of them, and its file.
    pub(super) fn not_deleted(&mut self, server: ServerId, first: (u64, u64), refusal: Refusal) {
        let state = self.servers.entry(server).or_default();
        if refusal.server == Some(server) {
            state.silent = refusal.is_silent();
        }
        state.deletes.running = false;
        state.deletes.refusal = Some((first.0, first.1, refusal));
        self.resume(server);
    }

    /// Retries what was refused, and one intent with each silent server.
    pub(super) fn tick(&mut self) {
        for number in std::mem::take(&mut self.retries) {
            if let Some(entry) = self.entries.get_mut(&number) {
                entry.stage = Stage::Queued;
            }
            self.schedule(number, Urgency::Normal);
        }
        let servers: Vec<ServerId> = self.servers.keys().copied().collect();
        for server in servers {
            self.send_deletes(server, Urgency::Forced);
            let Some(state) = self.servers.get(&server).filter(|state| state.silent) else {
                continue;
            };
            if state.running == 0
                && !state.deletes.running
                && let Some(first) = state.waiting_intents.first().copied()
            {
                self.schedule(first, Urgency::Forced);
            }
        }
    }

    /// The status of an intent.
    pub(super) fn status(&self, number: u64) -> IntentStatus {
        let Some(entry) = self.entries.get(&number) else {
            if number < self.read {
                return IntentStatus::Done;
            }
            return IntentStatus::NotRead;
        };
        let heads = entry
            .files
            .iter()
            .filter_map(|file| self.queues[file].first());
        if let Some(first) = heads.min().filter(|first| **first < number) {
            let of = &self.entries[first];
            IntentStatus::Behind {
                first: *first,
                tries: of.tries,
                refusal: of.refusal.clone(),
            }
        } else {
            let running = entry.stage == Stage::Running;
            IntentStatus::Tried {
                tries: entry.tries,
                refusal: entry.refusal.clone().filter(|_| !running),
            }
        }
    }

    /// The intents that servers refuse until an administrator acts: number, file, why.
    pub(super) fn refused(&self) -> Vec<(u64, u64, Refusal)> {
        let entries = self.entries.iter().filter_map(|(number, entry)| {
            let refusal = entry.refusal.clone()?;
            Some((*number, entry.files.first().copied()?, refusal))
        });
        let deletes = self
            .servers
            .values()
            .filter_map(|s| s.deletes.refusal.clone());
        let all = entries.chain(deletes);
        all.filter(|(_, _, refusal)| refusal.is_permanent())
            .collect()
    }

    /// Whether a server refuses this intent until an administrator acts.
    pub(super) fn is_refused(&self, number: u64) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|e| e.refusal.as_ref().is_some_and(Refusal::is_permanent))
    }

    /// Registers a caller, which is notified of each change of an intent until
    /// [`IntentScheduler::forget`].
    pub(super) fn wait(&mut self, number: u64) -> Arc<Notify> {
        self.waiting.add(number)
    }

    pub(super) fn forget(&mut self, number: u64, caller: &Arc<Notify>) {
        self.waiting.remove(number, caller);
    }

    /// Notifies all callers.
    pub(super) fn notify_all(&self) {
        self.waiting.notify_all();
    }
}

/// Removes an intent from the lists of its stage.
fn unlist(
    retries: &mut BTreeSet<u64>,
    servers: &mut BTreeMap<ServerId, ServerState>,
    number: u64,
    stage: Stage,
) {
    match stage {
        Stage::AwaitsTick => drop(retries.remove(&number)),
        Stage::AwaitsServer(server) => {
            if let Some(server) = servers.get_mut(&server) {
                server.waiting_intents.remove(&number);
            }
        }
        Stage::Queued | Stage::Running => {}
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
