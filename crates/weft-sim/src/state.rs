//! The state that the clients of a run and its faults share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_client::Error;
use weft_proto::Code;

use crate::history::History;
use crate::oracle::{Losses, Oracle, Time, Unexplained};

/// How often operations of one kind were acknowledged and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// They were done.
    pub acknowledged: usize,
    /// They failed, as they may under faults.
    pub failed: usize,
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By kind of operation, of all clients together.
    pub operations: BTreeMap<&'static str, Count>,
    /// By kind, the faults that were placed.
    pub faults: BTreeMap<&'static str, usize>,
    /// A digest of everything the clients saw: the same seed gives the same.
    pub digest: u64,
    /// A digest of all that went over the network, and when: it tells runs apart that the clients
    /// see alike.
    pub network: u64,
    /// Operations in order that the referee has judged.
    pub judged: u64,
    /// The first thing that nothing explains.
    pub wrong: Option<String>,
}

impl Outcome {
    /// Operations that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.operations.values().map(|c| c.acknowledged).sum()
    }

    /// Operations that failed, as they may under faults.
    pub fn failed(&self) -> usize {
        self.operations.values().map(|c| c.failed).sum()
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Outcome) {
        for (kind, count) in &other.operations {
            let sum = self.operations.entry(kind).or_default();
            sum.acknowledged += count.acknowledged;
            sum.failed += count.failed;
        }
        self.judged += other.judged;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
    }
}

pub(crate) struct Shared {
    pub(crate) outcome: Outcome,
    pub(crate) losses: Losses,
    /// Of the file that all clients write; none before one of them has it.
    pub(crate) oracle: Option<Oracle>,
    /// Of the file with cautious operations.
    pub(crate) history: History,
    /// Clients that have operations to do.
    pub(crate) busy: usize,
    /// Clients that still have to check the volume.
    pub(crate) looking: usize,
    /// Bits of a disk have changed, and not all of its blocks were written anew since.
    pub(crate) rotten: bool,
    /// A server and bytes on its disk that are to change.
    pub(crate) rot_wanted: Option<(usize, Vec<u8>)>,
    /// At how many places they did.
    pub(crate) rot_placed: Option<usize>,
    /// When the last fault was repaired: from then on every operation must complete.
    pub(crate) calm: Option<Time>,
}

/// The state of a run; clones share it.
#[derive(Clone)]
pub(crate) struct State(Arc<Mutex<Shared>>);

impl State {
    pub(crate) fn new(servers: usize, clients: usize) -> State {
        State(Arc::new(Mutex::new(Shared {
            outcome: Outcome::default(),
            losses: Losses::new(servers),
            oracle: None,
            history: History::default(),
            busy: clients,
            // And the one whose process dies.
            looking: clients + 1,
            rotten: false,
            rot_wanted: None,
            rot_placed: None,
            calm: None,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(crate) fn oracle(&mut self) -> &mut Oracle {
        self.oracle.as_mut().expect("the file was attached before")
    }

    /// No client has operations left, and no fault is active.
    pub(crate) fn is_quiet(&self) -> bool {
        self.busy == 0 && self.calm.is_some()
    }

    pub(crate) fn note_wrong(&mut self, what: String) {
        self.outcome.wrong.get_or_insert(what);
    }

    /// Counts a reported loss. A loss that no fault explains makes the run wrong.
    pub(crate) fn note_loss(&mut self, explained: bool, error: &Error) {
        let count = self.outcome.operations.entry("loss reported").or_default();
        count.acknowledged += 1;
        if !explained {
            self.note_wrong(format!("nothing was lost, but a client got: {error}"));
        }
    }

    pub(crate) fn note_unexplained(&mut self, path: &str, found: &Unexplained) {
        let Unexplained { at, value, allowed } = found;
        self.note_wrong(format!(
            "{path}: byte {at} is {value}, but may only be one of {allowed:?}"
        ));
    }

    /// Counts what came of an operation. Only what a fault explains may fail.
    pub(crate) fn count<T>(&mut self, kind: &'static str, result: &Result<T, Error>) {
        let count = self.outcome.operations.entry(kind).or_default();
        match result {
            Ok(_) => count.acknowledged += 1,
            Err(error) => {
                count.failed += 1;
                if !is_of_a_fault(error) && !self.is_of_rot(error) {
                    self.note_wrong(format!("{kind}: {error}"));
                }
            }
        }
    }

    /// Accepts an error about a bad block where one may be bad.
    pub(crate) fn tolerate(&self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(error) if self.is_of_rot(&error) => Ok(()),
            result => result,
        }
    }

    /// Whether a bad block, or one that a repair discarded, explains the error.
    fn is_of_rot(&self, error: &Error) -> bool {
        self.rotten && matches!(error.code(), Code::Corrupt | Code::Io)
    }

    pub(crate) fn digest(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let digest = &mut self.outcome.digest;
            *digest = digest.rotate_left(5).wrapping_mul(0x517c_c1b7_2722_0a95)
                ^ u64::from_le_bytes(word);
        }
    }
}

/// Whether an absent or unresponsive process explains the error.
pub(crate) fn is_of_a_fault(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::MayHaveHappened { .. } => true,
        Error::Refused { code, .. } => matches!(
            code,
            Code::Unavailable | Code::Busy | Code::Cancelled | Code::StaleMap | Code::Lost
        ),
        _ => false,
    }
}

/// The simulation's time at the host that asks.
pub(crate) fn now() -> Time {
    let elapsed = turmoil::sim_elapsed().expect("asked by a simulated process");
    elapsed.as_nanos() as Time
}
