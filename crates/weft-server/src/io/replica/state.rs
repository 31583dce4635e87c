//! What a replica knows of its server's replicas, and the role that follows from it.
//!
//! Invariants:
//! 1. A change is acknowledged only while this replica is the primary, and by all backups in sync.
//! 2. Data is shown only by the primary, and only while every backup in sync has answered lately:
//!    none of them has taken its place then.
//! 3. A set with a lower term never takes the place of one with a higher term.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use weft_kv::Position;
use weft_net::{BufferPool, Counters, Env, Identity, Link};
use weft_proto::meta::{ReplicaProgress, ReplicaSet};
use weft_proto::{Code, Failure};
use weft_store::StoreError;

use super::pace::Pace;
use super::recent::Recent;
use super::turns::{Span, Turn, Turns};
use crate::io::Rows;
use crate::limits::{INHERITED_MAX, REPLICA_LEASE, REPLICA_MARGIN, REPLICA_WAIT};
use crate::metrics::GaugeValue;

/// Who a replica is, and how it reaches the others.
pub(crate) struct ReplicaIdentity {
    /// The server.
    pub(crate) server: u32,
    /// The number of this replica.
    pub(crate) number: u32,
    /// The metadata service.
    pub(crate) meta: Link,
    pub(crate) env: Env,
    pub(crate) identity: Identity,
    pub(crate) counters: std::sync::Arc<Counters>,
}

/// How a replica takes part in changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Nothing is sent to it.
    Away,
    /// It gets changes while it catches up; if it fails, it is away.
    CatchingUp,
    /// It has caught up, and the service may have added it to the set: changes wait for it.
    Joining,
    /// It is in sync: changes wait for it.
    InSync,
}

/// Another replica, as the primary sees it.
struct Peer {
    link: Link,
    part: Part,
    /// When the last message that it answered was sent.
    answered: Option<Instant>,
    /// The incarnation of its store, as it said first since it gets changes.
    incarnation: Option<u64>,
    /// It has failed to acknowledge a change.
    suspect: Option<Suspicion>,
    /// While it is in sync: its last beacon that was answered.
    contact: Option<Contact>,
    /// Since it is not in sync: what it must have and may lack, if only that differs.
    absence: Option<Contact>,
    /// Its last attempt to catch up.
    pass: u64,
    /// How far that attempt has come, while it runs.
    progress: Option<Progress>,
    /// Why the last attempt failed; empty: it did not.
    obstacle: String,
}

/// Why a replica is to be removed from the set.
struct Suspicion {
    since: Instant,
    reason: String,
    /// It may differ in more than what it has missed.
    differs: bool,
}

/// A position that a replica said, when it was asked then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contact {
    pub(super) at: Instant,
    pub(super) position: Position,
}

impl Contact {
    /// The same, with a margin for changes that were on their way.
    fn with_margin(self, suspected: Option<Instant>) -> Option<Contact> {
        let at = suspected.map_or(self.at, |since| since.min(self.at));
        let at = at.checked_sub(REPLICA_MARGIN)?;
        Some(Contact { at, ..self })
    }
}

/// How far a replica has caught up: bytes of this store that were compared, and all of them.
#[derive(Clone, Copy)]
struct Progress {
    began: Instant,
    done: u64,
    total: u64,
}

struct State {
    /// `None`: the metadata service has not said yet.
    set: Option<ReplicaSet>,
    /// The highest term in any message.
    seen: u64,
    /// The term for which this replica serves as primary.
    serving: Option<u64>,
    since: Instant,
    /// When the primary was heard last.
    heard: Instant,
    /// Incarnations whose acknowledged changes the primary has.
    incarnations: Vec<u64>,
    /// The term and the attempt to catch up below which changes are refused.
    fence: (u64, u64),
    peers: BTreeMap<u32, Peer>,
    /// It takes no changes, and asks the service for a successor.
    handing_over: bool,
    /// While this replica is a backup in sync: its primary's last beacon.
    primary_contact: Option<(u32, Contact)>,
    /// The primary of the last set.
    known_primary: Option<u32>,
}

/// A change that has its turn.
pub(super) struct Changing<'a> {
    recent: &'a Recent,
    spans: Vec<Span>,
    _turn: Turn,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.recent.note(&self.spans);
    }
}

/// The next step of replicas that leave: all that stay are in sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Departure {
    /// This backup leaves.
    Backup(u32),
    /// The primary leaves, and this one takes its place.
    Own(u32),
}

/// The role that follows from a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Unknown,
    Primary,
    Backup { in_sync: bool },
}

impl State {
    fn role(&self, number: u32) -> Role {
        match &self.set {
            None => Role::Unknown,
            // A message with a higher term means that the set has changed.
            Some(set) if set.term < self.seen => Role::Unknown,
            Some(set) if set.primary == number => Role::Primary,
            Some(set) => Role::Backup {
                in_sync: set.in_sync.contains(&number),
            },
        }
    }

    fn term(&self) -> u64 {
        self.set.as_ref().map_or(0, |set| set.term)
    }
}

/// A replica to which changes are sent.
pub(super) struct Target {
    pub(super) number: u32,
    pub(super) link: Link,
    /// Changes wait for it.
    pub(super) required: bool,
    /// Its last attempt to catch up.
    pub(super) pass: u64,
}

/// The replicas of this server, as this one knows them.
pub(crate) struct Replicas {
    pub(super) me: ReplicaIdentity,
    state: Mutex<State>,
    /// Changes with the state.
    changed: watch::Sender<u64>,
    pub(super) turns: Turns,
    pub(super) recent: Recent,
    /// Where bytes come from that are only in parity.
    pub(super) rows: Rows,
    /// Held while this backup drops coded blocks of a file.
    pub(super) coding: tokio::sync::Mutex<()>,
    pub(super) pace: Pace,
    /// The process ends: nobody else is to be taken for lost.
    stopping: AtomicBool,
    /// Held shared by every change that a primary sends; exclusively by a takeover.
    pub(super) applying: tokio::sync::RwLock<()>,
    /// Held while the service changes the set.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl Replicas {
    /// `rate`: bytes per second at which others are made equal; 0: no limit.
    pub(crate) fn new(me: ReplicaIdentity, rate: u64, rows: Rows) -> Replicas {
        let (now, pace) = (Instant::now(), Pace::new(rate));
        Replicas {
            me,
            state: Mutex::new(State {
                set: None,
                seen: 0,
                serving: None,
                since: now,
                heard: now,
                incarnations: Vec::new(),
                fence: (0, 0),
                peers: BTreeMap::new(),
                handing_over: false,
                primary_contact: None,
                known_primary: None,
            }),
            stopping: AtomicBool::new(false),
            changed: watch::Sender::new(0),
            turns: Turns::default(),
            recent: Recent::new(),
            rows,
            coding: tokio::sync::Mutex::new(()),
            pace,
            applying: tokio::sync::RwLock::new(()),
            changing: tokio::sync::Mutex::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn notify(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Changes with the state.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn role(&self) -> Role {
        self.state().role(self.me.number)
    }

    /// The term of the set that is known; 0: none.
    pub(super) fn term(&self) -> u64 {
        self.state().term()
    }

    /// Takes a set that the metadata service has said; an older one changes nothing.
    pub(crate) fn learn(&self, set: &ReplicaSet) {
        let number = self.me.number;
        {
            let mut state = self.state();
            if set.term < state.seen || state.set.as_ref() == Some(set) {
                return;
            }
            let was = state.role(number);
            state.seen = state.seen.max(set.term);
            state.set = Some(set.clone());
            let role = state.role(number);
            let now = Instant::now();
            let primary_is_other = state.known_primary != Some(set.primary);
            state.known_primary = Some(set.primary);
            if role != was || primary_is_other && role != Role::Primary {
                (state.since, state.heard) = (now, now);
            }
            if role != Role::Primary {
                (state.serving, state.handing_over) = (None, false);
            }
            // With more replicas, a third one may have had changes that this one has not.
            let followed = (role == Role::Primary && set.members.len() == 2)
                .then(|| state.primary_contact)
                .flatten();
            if role != (Role::Backup { in_sync: true }) {
                state.primary_contact = None;
            }
            let is_member = |number: &u32| set.members.iter().any(|m| m.number == *number);
            state.peers.retain(|number, _| is_member(number));
            if role == (Role::Backup { in_sync: false }) {
                // It may be made equal to a primary that has lost some of them.
                state.incarnations.clear();
            }
            for member in set.members.iter().filter(|m| m.number != number) {
                let peer = state.peers.entry(member.number);
                let peer = peer.or_insert_with(|| Peer {
                    link: self.link(&member.address),
                    part: Part::Away,
                    answered: None,
                    incarnation: None,
                    suspect: None,
                    contact: None,
                    absence: None,
                    pass: 0,
                    progress: None,
                    obstacle: String::new(),
                });
                if peer.link.address() != member.address {
                    peer.link.set_address(&member.address);
                }
                let in_sync = set.in_sync.contains(&member.number);
                let keep = role == Role::Primary && was == Role::Primary;
                if !keep {
                    (peer.contact, peer.incarnation) = (None, None);
                    let followed = followed.filter(|(number, _)| *number == member.number);
                    peer.absence = followed.and_then(|(_, contact)| contact.with_margin(None));
                } else if peer.part == Part::InSync && !in_sync {
                    let suspicion = peer.suspect.as_ref();
                    let contact = peer
                        .contact
                        .filter(|_| suspicion.is_none_or(|s| !s.differs));
                    let since = suspicion.map(|s| s.since);
                    peer.absence = contact.and_then(|contact| contact.with_margin(since));
                }
                if in_sync {
                    peer.absence = None;
                    peer.obstacle.clear();
                } else {
                    peer.contact = None;
                }
                peer.part = match peer.part {
                    _ if in_sync => Part::InSync,
                    Part::InSync | Part::Joining => Part::Away,
                    part if keep => part,
                    _ => Part::Away,
                };
                if !in_sync {
                    peer.suspect = None;
                } else if !keep {
                    peer.answered = None;
                }
            }
        }
        self.notify();
    }

    fn link(&self, address: &str) -> Link {
        Link::new(
            self.me.env.clone(),
            self.me.identity.clone(),
            address.to_owned(),
            Some(self.me.server),
            BufferPool::default(),
            self.me.counters.clone(),
        )
    }

    /// Whether this replica is the primary and does not serve as such yet.
    pub(super) fn must_begin(&self) -> Option<u64> {
        let state = self.state();
        let term = state.term();
        let is_primary = state.role(self.me.number) == Role::Primary;
        (is_primary && state.serving.is_none() && !state.handing_over).then_some(term)
    }

    /// The process ends, perhaps with all others: the set stays as it is.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.notify();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// What must happen in this term so that replicas can leave.
    pub(super) fn departure(&self) -> Option<(u64, Departure)> {
        let state = self.state();
        let set = state.set.as_ref()?;
        if state.serving.is_none() || state.role(self.me.number) != Role::Primary {
            return None;
        }
        let leaves = |number: &u32| set.leaving.contains(number);
        let mut stay = set.members.iter().map(|m| m.number).filter(|n| !leaves(n));
        let first = stay.clone().find(|n| *n != self.me.number);
        if set.leaving.is_empty() || !stay.all(|n| set.in_sync.contains(&n)) {
            return None;
        }
        let backup = set.leaving.iter().find(|n| **n != self.me.number);
        let departure = match backup {
            Some(backup) => Departure::Backup(*backup),
            None => Departure::Own(first?),
        };
        Some((set.term, departure))
    }

    /// Takes no more changes, and shows nothing more, until [`Replicas::resume`] or the set has
    /// changed.
    pub(super) fn step_down(&self) {
        let mut state = self.state();
        (state.serving, state.handing_over) = (None, true);
    }

    /// Serves again, if it is still the primary.
    pub(super) fn resume(&self) {
        self.state().handing_over = false;
        self.notify();
    }

    /// Notes how far a replica has caught up; `None`: the attempt has ended.
    pub(super) fn set_progress(&self, number: u32, done: Option<(u64, u64)>) {
        let mut state = self.state();
        if let Some(peer) = state.peers.get_mut(&number) {
            let began = peer.progress.map_or_else(Instant::now, |p| p.began);
            peer.progress = done.map(|(done, total)| Progress { began, done, total });
            peer.obstacle.clear();
        }
    }

    /// Notes why a replica cannot catch up.
    pub(super) fn set_obstacle(&self, number: u32, reason: &str) {
        let mut state = self.state();
        if let Some(peer) = state.peers.get_mut(&number) {
            reason.clone_into(&mut peer.obstacle);
        }
    }

    /// The replicas that catch up.
    pub(crate) fn progress(&self) -> Vec<ReplicaProgress> {
        let state = self.state();
        let peers = state.peers.iter();
        let running = peers.filter_map(|(number, peer)| {
            let progress = peer.progress;
            let is_known = progress.is_some() || !peer.obstacle.is_empty();
            is_known.then(|| ReplicaProgress {
                number: *number,
                done: progress.map_or(0, |p| p.done),
                total: progress.map_or(0, |p| p.total),
                elapsed: progress.map_or(0, |p| p.began.elapsed().as_nanos() as u64),
                obstacle: peer.obstacle.clone(),
            })
        });
        running.collect()
    }

    /// What the process reports of the replicas of its server.
    pub(crate) fn gauges(&self) -> Vec<GaugeValue> {
        let state = self.state();
        let is_primary = state.serving.is_some();
        let (members, in_sync) = state.set.as_ref().map_or((0, 0), |set| {
            (set.members.len() as u64, set.in_sync.len() as u64)
        });
        let running = state.peers.values().filter_map(|peer| peer.progress);
        let left: u64 = running.map(|p| p.total.saturating_sub(p.done)).sum();
        vec![
            (
                "weft_replica_is_primary",
                "1 if calls of the server go to this replica",
                is_primary.into(),
            ),
            (
                "weft_replicas",
                "Replicas of the server, as this one knows",
                members,
            ),
            (
                "weft_replicas_in_sync",
                "Replicas that have every acknowledged change, as this one knows",
                in_sync,
            ),
            (
                "weft_rebuild_left_bytes",
                "Bytes that this primary has still to compare with replicas that catch up",
                left,
            ),
        ]
    }

    /// Serves as primary from now on, unless the set has changed again.
    pub(super) fn begin(&self, term: u64) {
        {
            let mut state = self.state();
            if state.role(self.me.number) == Role::Primary && state.term() >= term {
                state.serving = Some(term);
            }
        }
        self.notify();
    }

    /// A message of a primary with this term has arrived.
    ///
    /// # Errors
    /// [`Code::StaleMap`] if a higher term is known, or this replica is the primary.
    pub(super) fn heard(&self, term: u64) -> Result<(), Failure> {
        let mut state = self.state();
        let known = state.term().max(state.seen);
        if term < known || state.role(self.me.number) == Role::Primary && term == known {
            let what = format!("the term of this primary, {term}, is over: {known} is in force");
            return Err(Failure::new(Code::StaleMap, what));
        }
        if term > state.seen {
            state.seen = term;
            state.serving = None;
            drop(state);
            self.notify();
            self.state().heard = Instant::now();
            return Ok(());
        }
        state.heard = Instant::now();
        Ok(())
    }

    /// Refuses a change of an attempt to catch up that is over.
    pub(super) fn check_pass(&self, term: u64, pass: u64) -> Result<(), Failure> {
        let fence = self.state().fence;
        if (term, pass) < fence {
            let what = format!(
                "attempt {pass} to catch up is over: {} is in force",
                fence.1
            );
            return Err(Failure::new(Code::StaleMap, what));
        }
        Ok(())
    }

    /// Refuses changes of earlier attempts to catch up from now on.
    pub(super) fn set_fence(&self, term: u64, pass: u64) {
        let mut state = self.state();
        state.fence = state.fence.max((term, pass));
    }

    /// Another attempt of a replica to catch up; its number.
    pub(super) fn next_pass(&self, number: u32) -> u64 {
        let mut state = self.state();
        state.peers.get_mut(&number).map_or(0, |peer| {
            peer.pass += 1;
            peer.pass
        })
    }

    /// Waits until no change waits for a replica that differs from this one.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`].
    pub(super) async fn gone(&self, number: u32) -> Result<(), StoreError> {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if !self.is_required(number)? {
                return Ok(());
            }
            let _ = changes.changed().await;
        }
    }

    /// How long the primary has not been heard; since it became known, if never.
    pub(super) fn silence(&self) -> Duration {
        self.state().heard.elapsed()
    }

    /// The primary has all acknowledged changes of these incarnations, and so has this replica.
    /// Those that it knew before stay: a primary that was started again does not name them.
    pub(super) fn learn_incarnations(&self, incarnations: &[u64]) {
        let mut state = self.state();
        for incarnation in incarnations {
            if !state.incarnations.contains(incarnation) {
                state.incarnations.push(*incarnation);
            }
        }
        let more = state.incarnations.len().saturating_sub(INHERITED_MAX);
        state.incarnations.drain(..more);
    }

    pub(super) fn incarnations(&self) -> Vec<u64> {
        self.state().incarnations.clone()
    }

    /// The other replicas that get changes, and the term.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`].
    pub(super) fn targets(&self) -> Result<(u64, Vec<Target>), StoreError> {
        let state = self.state();
        if state.serving.is_none() || state.role(self.me.number) != Role::Primary {
            return Err(StoreError::NotPrimary);
        }
        let others = state.peers.iter().filter(|(_, p)| p.part != Part::Away);
        let targets = others.map(|(number, peer)| Target {
            number: *number,
            link: peer.link.clone(),
            required: peer.part != Part::CatchingUp,
            pass: peer.pass,
        });
        Ok((state.term(), targets.collect()))
    }

    /// The term, whether or not this primary takes new changes.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`].
    pub(super) fn term_as_primary(&self) -> Result<u64, StoreError> {
        let state = self.state();
        match state.role(self.me.number) {
            Role::Primary => Ok(state.term()),
            _ => Err(StoreError::NotPrimary),
        }
    }

    /// The term, if this replica is a backup in sync.
    pub(super) fn term_as_backup(&self) -> Option<u64> {
        let state = self.state();
        let in_sync = state.role(self.me.number) == (Role::Backup { in_sync: true });
        in_sync.then(|| state.term())
    }

    /// The link to the primary, if it is another replica.
    pub(super) fn primary_link(&self) -> Option<Link> {
        let state = self.state();
        let primary = state.set.as_ref()?.primary;
        Some(state.peers.get(&primary)?.link.clone())
    }

    /// Whether this replica serves as primary.
    pub(in crate::io) fn serves(&self) -> bool {
        self.may_show() == Ok(true)
    }

    /// The other replicas, and how each takes part.
    pub(super) fn peers(&self) -> Vec<(u32, Link, Part)> {
        let state = self.state();
        let peers = state.peers.iter();
        peers.map(|(n, p)| (*n, p.link.clone(), p.part)).collect()
    }

    pub(super) fn part(&self, number: u32) -> Part {
        let state = self.state();
        state.peers.get(&number).map_or(Part::Away, |p| p.part)
    }

    /// Whether a change that is sent in this term still waits for a replica.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`].
    pub(super) fn is_required(&self, number: u32) -> Result<bool, StoreError> {
        let state = self.state();
        if state.role(self.me.number) != Role::Primary {
            return Err(StoreError::NotPrimary);
        }
        let part = state.peers.get(&number).map_or(Part::Away, |p| p.part);
        Ok(matches!(part, Part::InSync | Part::Joining))
    }

    /// Lets a replica that is not in sync take part in another way; false if it is in sync, or this
    /// replica is not the primary.
    pub(super) fn set_part(&self, number: u32, part: Part) -> bool {
        let done = {
            let mut state = self.state();
            let is_primary = state.role(self.me.number) == Role::Primary;
            match state.peers.get_mut(&number) {
                Some(peer) if is_primary && peer.part != Part::InSync => {
                    peer.part = part;
                    if part != Part::Joining {
                        // It was of an attempt that is over.
                        peer.suspect = None;
                    }
                    if part == Part::CatchingUp {
                        (peer.answered, peer.incarnation) = (Some(Instant::now()), None);
                    }
                    true
                }
                _ => false,
            }
        };
        self.notify();
        done
    }

    /// Notes what a change touches, and waits for all earlier ones that touch the same. It is noted
    /// again when it ends: whatever had not ended when contact with a replica was lost is noted
    /// later than that.
    ///
    /// # Cancellation
    /// As [`Turns::take`].
    pub(super) async fn begin_change(&self, spans: Vec<Span>) -> Changing<'_> {
        self.recent.note(&spans);
        Changing {
            recent: &self.recent,
            spans: spans.clone(),
            _turn: self.turns.take(spans).await,
        }
    }

    /// Whether all changes that began some time ago have ended, so that a backup may rely on what
    /// it has noted since.
    pub(super) fn is_flowing(&self) -> bool {
        let suspected = self.state().peers.values().any(|p| p.suspect.is_some());
        !suspected && self.turns.oldest() < REPLICA_MARGIN / 3
    }

    /// A backup has answered a beacon that was sent then, with its position.
    pub(super) fn contacted(&self, number: u32, at: Instant, position: Position) {
        if self.has_another_incarnation(number, position.incarnation) {
            // It may have lost what it had acknowledged.
            return self.suspect(number, "its process was started again");
        }
        let mut state = self.state();
        if let Some(peer) = state.peers.get_mut(&number)
            && peer.part == Part::InSync
            && peer.contact.is_none_or(|known| known.at < at)
        {
            peer.contact = Some(Contact { at, position });
        }
    }

    /// Notes the incarnation of a backup; whether it has had another one.
    fn has_another_incarnation(&self, number: u32, incarnation: u64) -> bool {
        let mut state = self.state();
        let peer = state.peers.get_mut(&number);
        peer.is_some_and(|peer| *peer.incarnation.get_or_insert(incarnation) != incarnation)
    }

    /// Whether a replica is in sync, in this incarnation all the time.
    pub(super) fn is_in_sync_as(&self, number: u32, incarnation: u64) -> bool {
        let state = self.state();
        let peer = state.peers.get(&number);
        peer.is_some_and(|peer| peer.part == Part::InSync && peer.incarnation == Some(incarnation))
    }

    /// The primary has sent a beacon, with its position.
    pub(super) fn heard_position(&self, primary: u32, position: Position) {
        let mut state = self.state();
        if state.role(self.me.number) == (Role::Backup { in_sync: true }) {
            let at = Instant::now();
            state.primary_contact = Some((primary, Contact { at, position }));
        }
    }

    /// What a replica that is not in sync must have, and since when it may lack changes; `None`: it
    /// may differ in anything.
    pub(super) fn absence(&self, number: u32) -> Option<Contact> {
        self.state().peers.get(&number)?.absence
    }

    /// A replica has answered a message that was sent then.
    pub(super) fn answered(&self, number: u32, sent: Instant) {
        let mut state = self.state();
        let Some(peer) = state.peers.get_mut(&number) else {
            return;
        };
        let fresh = peer
            .answered
            .is_none_or(|at| at.elapsed() > REPLICA_LEASE / 2);
        if peer.answered.is_none_or(|at| at < sent) {
            peer.answered = Some(sent);
        }
        drop(state);
        if fresh {
            // Reads may wait for it.
            self.notify();
        }
    }

    /// A replica has failed to acknowledge a change: away if it is catching up, else to be removed.
    pub(super) fn suspect(&self, number: u32, reason: &str) {
        self.suspect_of(number, reason, false);
    }

    /// A replica may have bytes that this one has not: as [`Replicas::suspect`], and when it is
    /// back all of it is compared.
    pub(super) fn suspect_content(&self, number: u32, reason: &str) {
        self.suspect_of(number, reason, true);
    }

    fn suspect_of(&self, number: u32, reason: &str, differs: bool) {
        {
            let mut state = self.state();
            let Some(peer) = state.peers.get_mut(&number) else {
                return;
            };
            if differs {
                peer.absence = None;
            }
            match (&mut peer.suspect, peer.part) {
                (_, Part::Away) => return,
                (_, Part::CatchingUp) => peer.part = Part::Away,
                (Some(known), _) => known.differs |= differs,
                (none, _) => {
                    *none = Some(Suspicion {
                        since: Instant::now(),
                        reason: reason.to_owned(),
                        differs,
                    });
                }
            }
        }
        self.notify();
    }

    /// The replicas that must be removed from the set before anything goes on, and why.
    ///
    /// One that is silent while it catches up is away.
    pub(super) fn to_remove(&self) -> Vec<(u32, String)> {
        let mut state = self.state();
        if state.role(self.me.number) != Role::Primary {
            return Vec::new();
        }
        let mut left = false;
        for peer in state.peers.values_mut() {
            let silent = peer.answered.is_none_or(|at| at.elapsed() > REPLICA_LEASE);
            if peer.part == Part::CatchingUp && silent {
                peer.part = Part::Away;
                left = true;
            }
        }
        if left {
            self.notify();
        }
        let silent = |peer: &Peer| {
            let since = peer.answered.map_or(state.since, |at| at.max(state.since));
            (since.elapsed() > REPLICA_LEASE).then(|| "it does not answer".to_owned())
        };
        let reason = |peer: &Peer| peer.suspect.as_ref().map(|s| s.reason.clone());
        let required = state
            .peers
            .iter()
            .filter(|(_, p)| matches!(p.part, Part::InSync | Part::Joining));
        let found = required.filter_map(|(n, p)| Some((*n, reason(p).or_else(|| silent(p))?)));
        found.collect()
    }

    pub(super) fn may_show(&self) -> Result<bool, ()> {
        let state = self.state();
        if state.role(self.me.number) != Role::Primary {
            return match state.role(self.me.number) {
                Role::Unknown => Ok(false),
                _ => Err(()),
            };
        }
        let fresh = |p: &Peer| p.answered.is_some_and(|at| at.elapsed() < REPLICA_LEASE);
        let mut required = state
            .peers
            .values()
            .filter(|p| matches!(p.part, Part::InSync | Part::Joining));
        Ok(state.serving.is_some() && required.all(fresh))
    }

    /// Waits until this replica may show data and take changes.
    ///
    /// # Errors
    /// [`Code::StaleMap`] if it is a backup; [`Code::Unavailable`] if backups do not answer and the
    /// service cannot remove them.
    pub(in crate::io) async fn admit(&self) -> Result<(), Failure> {
        self.pace.note_call();
        let mut changes = self.changes();
        let deadline = Instant::now() + REPLICA_WAIT;
        loop {
            changes.mark_unchanged();
            match self.may_show() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(()) => {
                    let what = "this process is a backup of the server: another one is its primary";
                    return Err(Failure::new(Code::StaleMap, what));
                }
            }
            if tokio::time::timeout_at(deadline, changes.changed())
                .await
                .is_err()
            {
                let what = format!(
                    "the primary of server {} has no contact with its backups, or not with the metadata service, which would remove them; try again",
                    self.me.server
                );
                return Err(Failure::new(Code::Unavailable, what));
            }
        }
    }
}
