//! All names of a run and the processes that change them: which name a client may change now, and
//! what must be there after deaths, losses of power and cut links.
//!
//! A process is *disturbed* from a fault between it and the metadata service until it has reported
//! everything over a sound connection: meanwhile the service may take its directories away, and
//! what it was told of may be seen later, or be refused. The fault model promises no more
//! (`docs/semantics.md`, 13).

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;

use super::contest::Contest;
use super::entry::{Entry, Seen};
use super::processes::Processes;
use super::slot::{Maker, Slot};
use super::turn::{Look, Turn, Want};
use crate::oracle::{Losses, Time};

/// Names of files and of directories in each directory.
const FILES: usize = 4;
const DIRECTORIES: usize = 2;

/// A directory of the run; the first is its root.
struct Directory {
    path: String,
    id: Option<u64>,
    /// The directory that it is in, and its name there.
    parent: Option<(usize, String)>,
    maker: Maker,
    slots: BTreeMap<String, Slot>,
    /// A loss took it back, and another one has its path.
    replaced: bool,
}

/// See the module.
pub(super) struct Names {
    directories: Vec<Directory>,
    processes: Processes,
    stamps: u64,
    contests: Vec<Contest>,
    /// What shows that the run tested anything.
    counts: BTreeMap<&'static str, usize>,
    /// The first thing that nothing explains.
    pub(super) wrong: Option<String>,
}

impl Names {
    pub(super) fn new(clients: usize, operations: usize) -> Names {
        let root = Directory {
            path: "/ahead".to_owned(),
            id: None,
            parent: None,
            maker: Maker {
                client: usize::MAX,
                life: 0,
            },
            slots: BTreeMap::new(),
            replaced: false,
        };
        Names {
            directories: vec![root],
            processes: Processes::new(clients, operations),
            stamps: 0,
            contests: Vec::new(),
            counts: BTreeMap::new(),
            wrong: None,
        }
    }

    pub(super) fn note_wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// The stamp of new content.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    pub(super) fn processes(&mut self) -> &mut Processes {
        &mut self.processes
    }

    // What was promised.

    /// The process of a client has died.
    pub(super) fn died(&mut self, client: usize, now: Time) {
        let (by, reported) = self.processes.died(client, now);
        let lost = self.slots().map(|slot| slot.died(by, now, reported));
        let lost = lost.filter(|lost| *lost).count();
        *self.counts.entry("lost with its maker").or_default() += lost;
    }

    /// The metadata service is about to lose power.
    pub(super) fn power_lost(&mut self, now: Time) {
        let settled = self.processes.power_lost(now);
        for slot in self.slots() {
            slot.power_lost(settled);
        }
    }

    /// A call of this process that began then has reported everything before it.
    pub(super) fn caught_up(&mut self, by: Maker, begun: Time, now: Time) {
        for slot in self.slots() {
            slot.keep_of(by, begun, now);
        }
    }

    /// A sync of the namespace by this process that began then was acknowledged.
    pub(super) fn synced(&mut self, by: Maker, begun: Time, now: Time) {
        self.caught_up(by, begun, now);
        for slot in self.slots() {
            slot.synced_by(by, begun);
        }
    }

    /// The service refused a change that was acknowledged to this process.
    pub(super) fn refused(&mut self, by: Maker, (parent, name): (u64, &str), reason: &str) {
        if self.processes.is_alive(by, false) {
            self.note_wrong(format!(
                "{name} in directory {parent} was acknowledged, and refused: {reason}"
            ));
        }
        let known = self.directories.iter_mut().find(|d| d.id == Some(parent));
        if let Some(slot) = known.and_then(|directory| directory.slots.get_mut(name)) {
            slot.refused();
        }
    }

    // Turns.

    /// Gives a process a name to change, in its own directories or in those of others.
    pub(super) fn take_turn(
        &mut self,
        by: Maker,
        (want, own): (Want, bool),
        rng: &mut SmallRng,
        now: Time,
    ) -> Option<Turn> {
        let mut found = Vec::new();
        for (number, directory) in self.directories.iter().enumerate().skip(1) {
            let is_own = directory.maker == by;
            if is_own == own && directory.id.is_some() && self.is_there(number) {
                let slots = directory.slots.iter();
                let free = slots.filter(|(name, slot)| {
                    self.is_free(slot, by, now) && want.is_met(name, &slot.entry())
                });
                found.extend(free.map(|(name, _)| (number, name.clone())));
            }
        }
        if found.is_empty() {
            return None;
        }
        let (directory, name) = found.swap_remove(rng.random_range(0..found.len()));
        self.begin_turn(by, directory, name)
    }

    /// Gives a process a new name in the root.
    pub(super) fn new_name(&mut self, by: Maker) -> Option<Turn> {
        self.directories[0].id?;
        let number = self.directories[0].slots.len();
        let name = format!("d{}-{}-{number}", by.client, by.life);
        self.directories[0].slots.insert(name.clone(), Slot::new());
        self.begin_turn(by, 0, name)
    }

    fn begin_turn(&mut self, by: Maker, directory: usize, name: String) -> Option<Turn> {
        let slot = self.slot(directory, &name);
        slot.take_turn(by);
        let entry = slot.entry();
        let own = self.directories[directory].maker == by;
        let path = (!own).then(|| self.path(directory, &name));
        Some(Turn {
            directory,
            path,
            parent: self.directories[directory].id?,
            by,
            entry,
            drops: self.drops(directory, &name),
            disturbances: self.processes.disturbances(),
            name,
        })
    }

    /// Ends a turn; with `late`, its last change may still take effect.
    pub(super) fn end_turn(&mut self, turn: &Turn, late: bool, now: Time) {
        let slot = self.slot(turn.directory, &turn.name);
        slot.end_turn(turn.by, late, now);
    }

    pub(super) fn begin(&mut self, turn: &Turn, entry: Entry) {
        self.slot(turn.directory, &turn.name).begin(entry, turn.by);
    }

    /// The last change did not happen, and will not.
    pub(super) fn withdraw(&mut self, turn: &Turn) {
        if self.is_sound(turn) {
            self.slot(turn.directory, &turn.name).withdraw();
        }
    }

    /// What is being made has this id.
    pub(super) fn identify(&mut self, turn: &Turn, id: u64) {
        self.slot(turn.directory, &turn.name).identify(id);
    }

    /// The last change was acknowledged; with `kept`, it outlives the process. Whether that says
    /// anything: a fault since the turn began may have taken the basis of the change away.
    pub(super) fn acknowledge(&mut self, turn: &Turn, kept: bool, now: Time) -> bool {
        if !self.is_sound(turn) {
            return false;
        }
        let slot = self.slot(turn.directory, &turn.name);
        slot.acknowledge(now);
        if kept {
            self.keep(turn, now);
        }
        true
    }

    /// What was acknowledged in this turn outlives the process.
    pub(super) fn keep(&mut self, turn: &Turn, now: Time) {
        if self.is_sound(turn) {
            self.slot(turn.directory, &turn.name).keep(now);
            self.found_in(turn.directory, now);
        }
    }

    /// It also survives power loss.
    pub(super) fn all_synced(&mut self, turn: &Turn) {
        if self.is_sound(turn) {
            self.slot(turn.directory, &turn.name).all_synced();
            let mut at = turn.directory;
            while let Some((parent, name)) = self.directories[at].parent.clone() {
                self.slot(parent, &name).all_synced();
                at = parent;
            }
        }
    }

    /// An operation ended in a way that what was there before does not explain.
    pub(super) fn contradicted(&mut self, turn: &Turn, what: &str) {
        if self.is_sound(turn) {
            let path = self.path(turn.directory, &turn.name);
            let slot = self.slot(turn.directory, &turn.name).clone();
            self.note_wrong(format!("{path}: {what}; {slot:?}"));
        }
    }

    /// No fault since the turn began may have changed what it found.
    fn is_sound(&self, turn: &Turn) -> bool {
        let drops = self.drops(turn.directory, &turn.name);
        let undisturbed = turn.disturbances == self.processes.disturbances();
        let alive = |disturbed| self.processes.is_alive(turn.by, disturbed);
        drops == turn.drops && (undisturbed || self.is_own(turn)) && (alive(true) || alive(false))
    }

    /// No other process can have anything to do with this name.
    fn is_own(&self, turn: &Turn) -> bool {
        self.directories[turn.directory].maker == turn.by && self.processes.is_alive(turn.by, false)
    }

    // Contests.

    /// Several clients may make a name in a new directory of this process.
    pub(super) fn open_contest(&mut self, by: Maker) -> Option<(u64, String)> {
        let directory = self.directories.len() - 1;
        let Directory { id, maker, .. } = &self.directories[directory];
        let (id, name) = (
            id.filter(|_| *maker == by)?,
            format!("x{}", self.contests.len()),
        );
        let faults = self.processes.faults();
        let contest = Contest::new(directory, name.clone(), by.client, faults);
        self.contests.push(contest);
        Some((id, name))
    }

    /// The path of a name that this client has not tried to make yet.
    pub(super) fn enter_contest(&mut self, client: usize) -> Option<(String, String)> {
        let last = self.contests.last_mut()?;
        let entered = last.enter(client);
        let (directory, name) = (last.directory, last.name.clone());
        entered.then(|| (self.path(directory, &name), name))
    }

    /// A client was told that it made the name.
    pub(super) fn won(&mut self, by: Maker, name: &str) {
        let faults = self.processes.faults();
        let mut contests = self.contests.iter_mut();
        let contest = contests.find(|contest| contest.name == name);
        if let Some(other) = contest.and_then(|contest| contest.won(by, faults)) {
            self.note_wrong(format!("both {other:?} and {by:?} have made {name}"));
        }
    }

    /// What the run has tested.
    pub(super) fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    // Directories.

    /// Names in a new directory.
    pub(super) fn add_directory(&mut self, turn: &Turn, id: u64) {
        let names = (0..FILES).map(|n| format!("f{n}"));
        let depth = self.path(turn.directory, &turn.name).matches('/').count();
        let nested = if depth < 4 { DIRECTORIES } else { 0 };
        let names = names.chain((0..nested).map(|n| format!("d{n}")));
        let place = Some((turn.directory, turn.name.clone()));
        for earlier in self.directories.iter_mut().filter(|d| d.parent == place) {
            earlier.replaced = true;
        }
        self.directories.push(Directory {
            path: self.path(turn.directory, &turn.name),
            id: Some(id),
            parent: place,
            maker: turn.by,
            slots: names.map(|name| (name, Slot::new())).collect(),
            replaced: false,
        });
    }

    pub(super) fn root_made(&mut self, id: u64) {
        self.directories[0].id = Some(id);
    }

    /// How many directories this process has made, and all have.
    pub(super) fn directories_of(&self, by: Maker) -> (usize, usize) {
        let own = self.directories.iter().filter(|d| d.maker == by).count();
        (own, self.directories.len())
    }

    /// The number of a directory that somebody could look into.
    pub(super) fn any_directory(&self, rng: &mut SmallRng) -> usize {
        // The newest ones have changes that are under way.
        let recent = self.directories.len().saturating_sub(8);
        let first = if rng.random() { 0 } else { recent };
        rng.random_range(first..self.directories.len())
    }

    pub(super) fn path_of(&self, directory: usize) -> String {
        self.directories[directory].path.clone()
    }

    pub(super) fn path(&self, directory: usize, name: &str) -> String {
        format!("{}/{name}", self.directories[directory].path)
    }

    pub(super) fn names_in(&self, directory: usize) -> Vec<String> {
        if self.is_replaced(directory) {
            return Vec::new();
        }
        self.directories[directory].slots.keys().cloned().collect()
    }

    /// Whether it, or a directory above it, is another one now.
    pub(super) fn is_replaced(&self, directory: usize) -> bool {
        let directory = &self.directories[directory];
        let above = directory.parent.as_ref();
        directory.replaced || above.is_some_and(|(above, _)| self.is_replaced(*above))
    }

    pub(super) fn directory_count(&self) -> usize {
        self.directories.len()
    }

    // Looks.

    pub(super) fn begin_look(&self, directory: usize, name: &str) -> Look {
        let slot = &self.directories[directory].slots[name];
        Look {
            directory,
            name: name.to_owned(),
            glance: slot.glance(),
            drops: self.drops(directory, name),
            trusted: self.is_trusted(slot),
            disturbances: self.processes.disturbances(),
        }
    }

    /// Somebody has seen this.
    pub(super) fn judge(&mut self, look: &Look, seen: &Seen, losses: &Losses, now: Time) {
        let (directory, name) = (look.directory, &look.name[..]);
        if self.drops(directory, name) != look.drops || self.is_replaced(directory) {
            return;
        }
        let trusted = look.trusted && look.disturbances == self.processes.disturbances();
        let slot = self.slot(directory, name);
        let judged = slot.judge(look.glance, (seen, losses), trusted, now);
        if judged == Ok(true) {
            *self.counts.entry("seen before its report").or_default() += 1;
        }
        self.judged(look, seen, judged.map(drop), now);
    }

    /// As [`Names::judge`] of a name that nobody can be changing: what was seen stays.
    pub(super) fn settle(&mut self, look: &Look, seen: &Seen, losses: &Losses, now: Time) {
        let (directory, name) = (look.directory, &look.name[..]);
        let sound = look.trusted
            && look.disturbances == self.processes.disturbances()
            && self.drops(directory, name) == look.drops
            && !self.is_replaced(directory);
        if sound {
            let slot = self.slot(directory, name);
            let judged = slot.settle(look.glance, (seen, losses), now);
            self.judged(look, seen, judged, now);
        }
    }

    fn judged(&mut self, look: &Look, seen: &Seen, judged: Result<(), String>, now: Time) {
        if let Err(wrong) = judged {
            let path = self.path(look.directory, &look.name);
            self.note_wrong(format!("{path}: {wrong}"));
        } else if !matches!(seen, Seen::Absent) {
            self.found_in(look.directory, now);
        }
    }

    /// A name whose state is not known and that nobody can be changing.
    pub(super) fn uncertain(&self, now: Time) -> Option<(usize, String)> {
        let directories = self.directories.iter().enumerate();
        let current = directories.filter(|(number, _)| !self.is_replaced(*number));
        let mut all = current.flat_map(|(number, directory)| {
            let slots = directory.slots.iter();
            slots.map(move |(name, slot)| (number, name, slot))
        });
        let found = all.find(|(_, _, slot)| {
            !slot.is_certain() && slot.is_at_rest(now) && self.is_trusted(slot)
        });
        found.map(|(number, name, _)| (number, name.clone()))
    }

    /// Whether the state of every name is known.
    pub(super) fn all_certain(&self) -> bool {
        let directories = self.directories.iter().enumerate();
        let mut current = directories.filter(|(number, _)| !self.is_replaced(*number));
        current.all(|(_, directory)| directory.slots.values().all(Slot::is_certain))
    }

    fn slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        let directories = self.directories.iter_mut();
        directories.flat_map(|directory| directory.slots.values_mut())
    }

    fn slot(&mut self, directory: usize, name: &str) -> &mut Slot {
        let slots = &mut self.directories[directory].slots;
        slots.get_mut(name).expect("the directory has such a name")
    }

    /// Something was found in a directory: it and those above it exist.
    fn found_in(&mut self, directory: usize, now: Time) {
        let mut at = directory;
        while let Some((parent, name)) = self.directories[at].parent.clone() {
            self.slot(parent, &name).exists(now);
            at = parent;
        }
    }

    /// How often losses took something back from a name, or from the directories above it.
    fn drops(&self, directory: usize, name: &str) -> u64 {
        let of = |directory: usize, name: &str| self.directories[directory].slots[name].drops();
        let (mut drops, mut at) = (of(directory, name), directory);
        while let Some((parent, name)) = &self.directories[at].parent {
            drops += of(*parent, name);
            at = *parent;
        }
        drops
    }

    fn is_there(&self, directory: usize) -> bool {
        if self.is_replaced(directory) {
            return false;
        }
        let mut at = directory;
        while let Some((parent, name)) = &self.directories[at].parent {
            let slot = &self.directories[*parent].slots[name];
            if !slot.is_certain() || slot.entry() == Entry::Absent || !self.is_trusted(slot) {
                return false;
            }
            at = *parent;
        }
        true
    }

    fn is_free(&self, slot: &Slot, by: Maker, now: Time) -> bool {
        let own = slot.unkept().all(|maker| maker == by);
        slot.is_certain() && slot.is_at_rest(now) && (own || self.is_trusted(slot))
    }

    /// Whether the service can ask the makers of unreported changes.
    fn is_trusted(&self, slot: &Slot) -> bool {
        !slot
            .unkept()
            .any(|maker| self.processes.is_alive(maker, true))
    }
}
