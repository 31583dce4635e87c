//! Which collectives gather, and what became of those that have ended.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use weft_proto::collective::Membership;
use weft_proto::{Code, Failure, limits};

use super::{Part, names};
use crate::failure;

/// Collectives that have ended and are remembered, for members that come again.
const REMEMBERED: usize = 4096;
/// How long they are remembered.
const MEMORY: Duration = Duration::from_mins(10);

/// The collectives of one server.
#[derive(Default)]
pub(super) struct Table(Mutex<State>);

#[derive(Default)]
struct State {
    gathering: HashMap<Key, Gathering>,
    begun: VecDeque<Begun>,
}

/// A group's collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    group: String,
    sequence: u64,
}

/// Waits for members.
struct Gathering {
    members: u32,
    parts: BTreeMap<u32, Part>,
    complete: Arc<Notify>,
}

/// A collective whose job has begun, perhaps ended.
struct Begun {
    key: Key,
    when: Instant,
    nonces: BTreeMap<u32, u64>,
    outcome: watch::Receiver<Option<Arc<Outcome>>>,
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Why it failed for all.
    pub(super) failure: Option<Failure>,
    /// How many bytes were written of each member that was not lost.
    pub(super) bytes: BTreeMap<u32, u64>,
    /// Members that did not come or were lost.
    pub(super) missing: Vec<u32>,
}

/// What is to be done for a part that arrives.
pub(super) enum Arrived {
    /// Keep the gathering that it began.
    Keep(Key, Arc<Notify>),
    /// Nothing: it is in the gathering.
    Joined,
    /// It came before its connection was lost, and the job has begun.
    Again(Box<Part>, watch::Receiver<Option<Arc<Outcome>>>),
    /// Refuse it.
    Refused(Box<Part>, Failure),
}

/// A job's parts.
pub(super) struct Gathered {
    pub(super) parts: Vec<Part>,
    pub(super) missing: Vec<u32>,
    pub(super) outcome: watch::Sender<Option<Arc<Outcome>>>,
}

impl Key {
    fn of(membership: &Membership) -> Key {
        Key {
            group: membership.group.clone(),
            sequence: membership.sequence,
        }
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a part.
    pub(super) fn arrive(&self, part: Part) -> Arrived {
        let key = Key::of(&part.membership);
        let member = part.membership.member;
        let mut state = self.state();
        if let Some(outcome) = state.begun(&key, &part.membership) {
            return Arrived::Again(Box::new(part), outcome);
        }
        state.forget_who_left(&key);
        if let Some(gathering) = state.gathering.get_mut(&key) {
            if let Err(failure) = gathering.admits(&part) {
                return Arrived::Refused(Box::new(part), failure);
            }
            // Of two requests of one member the older one's connection is lost.
            gathering.parts.insert(member, part);
            if gathering.is_complete() {
                gathering.complete.notify_one();
            }
            return Arrived::Joined;
        }
        if state.gathering.len() >= limits::COLLECTIVES_MAX {
            let what = format!(
                "{} collectives wait for members on this server, which is as many as may",
                limits::COLLECTIVES_MAX
            );
            return Arrived::Refused(Box::new(part), Failure::new(Code::Busy, what));
        }
        let complete = Arc::new(Notify::new());
        let gathering = Gathering {
            members: part.membership.members,
            parts: BTreeMap::from([(member, part)]),
            complete: complete.clone(),
        };
        state.gathering.insert(key.clone(), gathering);
        Arrived::Keep(key, complete)
    }

    /// Takes the parts of the gathering that `complete` is told of out if all are there, or `now`
    /// whoever is there. `Ok(None)`: go on waiting. `Err`: nobody waits any more.
    pub(super) fn take(
        &self,
        key: &Key,
        complete: &Arc<Notify>,
        now: bool,
    ) -> Result<Option<Gathered>, ()> {
        let mut state = self.state();
        state.forget_who_left(key);
        let gathering = state.gathering.get(key).ok_or(())?;
        if !Arc::ptr_eq(&gathering.complete, complete) {
            return Err(());
        }
        if !now && !gathering.is_complete() {
            return Ok(None);
        }
        let gathering = state.gathering.remove(key).ok_or(())?;
        let missing: Vec<u32> = (0..gathering.members)
            .filter(|member| !gathering.parts.contains_key(member))
            .collect();
        let (outcome, told) = watch::channel(None);
        let nonces = gathering
            .parts
            .iter()
            .map(|(member, part)| (*member, part.membership.nonce));
        state.remember(Begun {
            key: key.clone(),
            when: Instant::now(),
            nonces: nonces.collect(),
            outcome: told,
        });
        Ok(Some(Gathered {
            parts: gathering.parts.into_values().collect(),
            missing,
            outcome,
        }))
    }
}

impl State {
    /// Takes out members that gave up, and their gathering with the last of them: whoever comes
    /// then begins another, of which nobody agreed on anything yet.
    fn forget_who_left(&mut self, key: &Key) {
        if let Some(gathering) = self.gathering.get_mut(key) {
            gathering.parts.retain(|_, part| !part.reply.cancelled());
            if gathering.parts.is_empty() {
                self.gathering.remove(key);
            }
        }
    }

    fn remember(&mut self, begun: Begun) {
        let now = begun.when;
        while self.begun.len() >= REMEMBERED
            || self
                .begun
                .front()
                .is_some_and(|b| now.duration_since(b.when) > MEMORY)
        {
            self.begun.pop_front();
        }
        self.begun.push_back(begun);
    }

    /// The job that has this very part.
    fn begun(
        &self,
        key: &Key,
        membership: &Membership,
    ) -> Option<watch::Receiver<Option<Arc<Outcome>>>> {
        let (member, nonce) = (membership.member, Some(&membership.nonce));
        let mut all = self.begun.iter().rev();
        let begun = all.find(|b| b.key == *key && b.nonces.get(&member) == nonce)?;
        Some(begun.outcome.clone())
    }
}

impl Gathering {
    fn is_complete(&self) -> bool {
        self.parts.len() == self.members as usize
    }

    /// Whether a part belongs to the others.
    fn admits(&self, part: &Part) -> Result<(), Failure> {
        let Some(other) = self.parts.values().next() else {
            return Ok(());
        };
        let group = &part.membership.group;
        if let Some(what) = differs(other, part) {
            let (one, two) = (other.membership.member, part.membership.member);
            let what = format!(
                "members {one} and {two} of group `{group}` do not agree on {what}; did an earlier run leave members \
                 behind? Use another group id or sequence number"
            );
            return Err(failure::invalid(what));
        }
        let same = self.parts.get(&part.membership.member);
        match same {
            Some(old) if old.membership.nonce != part.membership.nonce => {
                let who = names(&[part.membership.member]);
                let what =
                    format!("{who} of group `{group}` has come already, from another process");
                Err(Failure::new(Code::Exists, what))
            }
            _ => Ok(()),
        }
    }
}

/// What two members do not agree on.
fn differs(one: &Part, other: &Part) -> Option<&'static str> {
    let (a, b) = (&one.membership, &other.membership);
    let terms = |w: &super::WritePart| (w.chunk, w.member_order);
    let layout = |part: &Part| (*part.job.map.grid(), part.job.slot);
    let differences = [
        (a.members != b.members, "how many members there are"),
        (a.go_on != b.go_on, "what to do without missing members"),
        (
            one.write.is_some() != other.write.is_some(),
            "whether to read or to write",
        ),
        (one.job.file != other.job.file, "the file"),
        (one.job.fork != other.job.fork, "the fork"),
        (one.job.checkpoint != other.job.checkpoint, "the checkpoint"),
        (layout(one) != layout(other), "the file's layout"),
        (
            one.write.as_ref().map(terms) != other.write.as_ref().map(terms),
            "what happens to bytes that several of them write",
        ),
    ];
    let first = differences.into_iter().find(|(differ, _)| *differ);
    first.map(|(_, what)| what)
}
