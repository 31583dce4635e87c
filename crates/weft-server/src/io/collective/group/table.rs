//! Which collectives are gathering, and the outcomes of those whose job has started.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use weft_proto::collective::Membership;
use weft_proto::{Code, Failure, limits};

use super::member::{MemberCall, MemberWrite, names};
use crate::failure;
use crate::limits::{
    GONE_MEMBER_WAIT, PASSED_MEMBER_WAIT, REMEMBERED_COLLECTIVE_MAX_AGE, REMEMBERED_COLLECTIVES_MAX,
};

/// The gatherings of one server, and its recent jobs.
#[derive(Default)]
pub(in crate::io::collective) struct GatheringTable(Mutex<Gatherings>);

#[derive(Default)]
struct Gatherings {
    gathering: HashMap<GatheringKey, Gathering>,
    started: VecDeque<StartedJob>,
}

/// Identifies a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::io::collective) struct GatheringKey {
    group: String,
    sequence: u64,
}

/// A collective that waits for members.
struct Gathering {
    members: u32,
    calls: BTreeMap<u32, MemberCall>,
    complete: Arc<Notify>,
}

/// A collective whose job has started and may have ended.
struct StartedJob {
    key: GatheringKey,
    when: Instant,
    callers: BTreeMap<u32, Caller>,
    outcome: watch::Receiver<Option<Arc<Outcome>>>,
}

/// A member that came.
#[derive(Clone, Copy)]
struct Caller {
    nonce: u64,
    client: u64,
    arrived: Instant,
}

/// Why members will not come that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io::collective) enum Absence {
    /// The time to wait is over.
    Late,
    /// They have called a later collective of the group.
    Passed,
    /// They came to the one before, and no connection of their process is left.
    Gone,
}

/// How a job ended.
#[derive(Debug)]
pub(in crate::io::collective) struct Outcome {
    /// Why it failed, for all members.
    pub(in crate::io::collective) failure: Option<Failure>,
    /// Bytes written for each member that was not lost.
    pub(in crate::io::collective) bytes: BTreeMap<u32, u64>,
    /// Members that did not come or were lost.
    pub(in crate::io::collective) missing: Vec<u32>,
}

/// What to do with a call that arrives.
pub(in crate::io::collective) enum Arrival {
    /// It opened a gathering, which its task keeps.
    Keep(GatheringKey, Arc<Notify>),
    /// It joined the gathering.
    Joined,
    /// The same call came before, on a connection that is lost, and its job has started.
    Again(Box<MemberCall>, watch::Receiver<Option<Arc<Outcome>>>),
    /// It is refused.
    Refused(Box<MemberCall>, Failure),
}

/// When a gathering's calls are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::io::collective) enum Take {
    /// Once all members are there.
    Complete,
    /// At once: the time to wait is over.
    Partial,
}

/// The calls of a job that is about to start.
pub(in crate::io::collective) struct Gathered {
    pub(in crate::io::collective) calls: Vec<MemberCall>,
    pub(in crate::io::collective) missing: Vec<u32>,
    pub(in crate::io::collective) outcome: watch::Sender<Option<Arc<Outcome>>>,
}

impl GatheringKey {
    fn of(membership: &Membership) -> GatheringKey {
        GatheringKey {
            group: membership.group.clone(),
            sequence: membership.sequence,
        }
    }
}

impl GatheringTable {
    /// Adds a call to its gathering, or opens one.
    pub(in crate::io::collective) fn arrive(&self, call: MemberCall) -> Arrival {
        let key = GatheringKey::of(&call.membership);
        let member = call.membership.member;
        let mut state = self.0.lock();
        if let Some(outcome) = state.started(&key, &call.membership) {
            return Arrival::Again(Box::new(call), outcome);
        }
        state.remove_cancelled(&key);
        if let Some(gathering) = state.gathering.get_mut(&key) {
            if let Err(failure) = gathering.admits(&call) {
                return Arrival::Refused(Box::new(call), failure);
            }
            // A second call of the same member means that the connection of the first is lost.
            gathering.calls.insert(member, call);
            if gathering.is_complete() {
                gathering.complete.notify_one();
            }
            return Arrival::Joined;
        }
        if state.gathering.len() >= limits::COLLECTIVES_MAX {
            let what = format!(
                "{} collectives wait for members on this server, which is the maximum",
                limits::COLLECTIVES_MAX
            );
            return Arrival::Refused(Box::new(call), Failure::new(Code::Busy, what));
        }
        let complete = Arc::new(Notify::new());
        let gathering = Gathering {
            members: call.membership.members,
            calls: BTreeMap::from([(member, call)]),
            complete: complete.clone(),
        };
        state.gathering.insert(key.clone(), gathering);
        Arrival::Keep(key, complete)
    }

    /// Takes the calls out of a gathering that its keeper is notified of by `complete`. `Ok(None)`:
    /// members are still missing. `Err`: the gathering is gone, and with it its callers.
    pub(in crate::io::collective) fn take(
        &self,
        key: &GatheringKey,
        complete: &Arc<Notify>,
        which: Take,
    ) -> Result<Option<Gathered>, ()> {
        let mut state = self.0.lock();
        state.remove_cancelled(key);
        let gathering = state.gathering.get(key).ok_or(())?;
        if !Arc::ptr_eq(&gathering.complete, complete) {
            return Err(());
        }
        if which == Take::Complete && !gathering.is_complete() {
            return Ok(None);
        }
        let gathering = state.gathering.remove(key).ok_or(())?;
        let missing: Vec<u32> = (0..gathering.members)
            .filter(|member| !gathering.calls.contains_key(member))
            .collect();
        let (outcome, receiver) = watch::channel(None);
        let callers = gathering.callers().collect();
        state.remember(StartedJob {
            key: key.clone(),
            when: Instant::now(),
            callers,
            outcome: receiver,
        });
        Ok(Some(Gathered {
            calls: gathering.calls.into_values().collect(),
            missing,
            outcome,
        }))
    }

    /// Why members of a gathering will not come, if that is known before its time is over.
    /// `connected`: whether a client has a connection.
    pub(in crate::io::collective) fn absence(
        &self,
        key: &GatheringKey,
        connected: impl Fn(u64) -> bool,
    ) -> Option<Absence> {
        let state = self.0.lock();
        let gathering = state.gathering.get(key)?;
        let missing = (0..gathering.members).filter(|m| !gathering.calls.contains_key(m));
        let now = Instant::now();
        let mut gone = false;
        for member in missing {
            let Some((sequence, caller)) = state.latest(&key.group, member) else {
                continue;
            };
            let since = now.duration_since(caller.arrived);
            if sequence > key.sequence && since >= PASSED_MEMBER_WAIT {
                return Some(Absence::Passed);
            }
            gone |= !connected(caller.client);
        }
        let began = gathering.callers().map(|(_, caller)| caller.arrived).min();
        let waited = began.is_some_and(|began| now.duration_since(began) >= GONE_MEMBER_WAIT);
        (gone && waited).then_some(Absence::Gone)
    }
}

impl Gatherings {
    /// The latest collective of a group to which a member came.
    fn latest(&self, group: &str, member: u32) -> Option<(u64, Caller)> {
        let gathering = self.gathering.iter().filter(|(key, _)| key.group == group);
        let gathering = gathering.filter_map(|(key, gathering)| {
            let (_, caller) = gathering.callers().find(|(m, _)| *m == member)?;
            Some((key.sequence, caller))
        });
        let started = self.started.iter().rev();
        let started = started
            .filter(|job| job.key.group == group)
            .find_map(|job| Some((job.key.sequence, *job.callers.get(&member)?)));
        gathering
            .chain(started)
            .max_by_key(|(sequence, _)| *sequence)
    }

    /// Removes cancelled calls, and a gathering without calls: the next call opens a new one, whose
    /// terms are still open.
    fn remove_cancelled(&mut self, key: &GatheringKey) {
        if let Some(gathering) = self.gathering.get_mut(key) {
            gathering.calls.retain(|_, call| !call.reply.cancelled());
            if gathering.calls.is_empty() {
                self.gathering.remove(key);
            }
        }
    }

    fn remember(&mut self, started: StartedJob) {
        let now = started.when;
        while self.started.len() >= REMEMBERED_COLLECTIVES_MAX
            || self
                .started
                .front()
                .is_some_and(|b| now.duration_since(b.when) > REMEMBERED_COLLECTIVE_MAX_AGE)
        {
            self.started.pop_front();
        }
        self.started.push_back(started);
    }

    /// The job that has this call.
    fn started(
        &self,
        key: &GatheringKey,
        membership: &Membership,
    ) -> Option<watch::Receiver<Option<Arc<Outcome>>>> {
        let member = membership.member;
        let is_same = |caller: &Caller| caller.nonce == membership.nonce;
        let mut all = self.started.iter().rev();
        let started = all.find(|b| b.key == *key && b.callers.get(&member).is_some_and(is_same))?;
        Some(started.outcome.clone())
    }
}

impl Gathering {
    fn callers(&self) -> impl Iterator<Item = (u32, Caller)> {
        self.calls.iter().map(|(member, call)| {
            let caller = Caller {
                nonce: call.membership.nonce,
                client: call.from,
                arrived: call.arrived,
            };
            (*member, caller)
        })
    }

    fn is_complete(&self) -> bool {
        self.calls.len() == self.members as usize
    }

    /// Checks that a call agrees with the others.
    fn admits(&self, call: &MemberCall) -> Result<(), Failure> {
        let Some(other) = self.calls.values().next() else {
            return Ok(());
        };
        let group = &call.membership.group;
        if let Some(what) = differs(other, call) {
            let (one, two) = (other.membership.member, call.membership.member);
            let what = format!(
                "members {one} and {two} of group `{group}` do not agree on {what}; did an earlier run leave members \
                 behind? Use another group id or sequence number"
            );
            return Err(failure::invalid(what));
        }
        let same = self.calls.get(&call.membership.member);
        match same {
            Some(old) if old.membership.nonce != call.membership.nonce => {
                let member = names(&[call.membership.member]);
                let what =
                    format!("{member} of group `{group}` has come already, from another process");
                Err(Failure::new(Code::Exists, what))
            }
            _ => Ok(()),
        }
    }
}

/// What two members disagree on.
fn differs(one: &MemberCall, other: &MemberCall) -> Option<&'static str> {
    let (a, b) = (&one.membership, &other.membership);
    let terms = |w: &MemberWrite| (w.chunk, w.member_order);
    let layout = |call: &MemberCall| (*call.job.map.grid(), call.job.slot);
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
            "what happens to bytes that several members write",
        ),
    ];
    let first = differences.into_iter().find(|(differ, _)| *differ);
    first.map(|(_, what)| what)
}
