//! What the leader and its workers say to each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cpu::CpuTime;
use crate::latency::Latencies;
use crate::place::VolumePlace;
use crate::row::Op;
use crate::workload::{FileShape, Workload};

/// What a worker is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The volume; none where everything is done on a path.
    pub(crate) volume: Option<VolumePlace>,
}

/// What a worker does next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Nothing, but stand at the barriers.
    Idle,
    /// Move a part.
    Move(Box<Task>),
    /// End.
    End,
}

/// When what is written must be on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Syncing {
    /// At no time.
    Never,
    /// At the end of the part.
    AtEnd,
    /// After each call, or before each file is closed.
    Each,
}

/// One part of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) file: Handle,
    pub(crate) shape: FileShape,
    pub(crate) part: Workload,
    pub(crate) op: Op,
    /// The number of the write: what is written, or what must be found.
    pub(crate) seed: u64,
    /// Calls in flight.
    pub(crate) depth: usize,
    pub(crate) syncing: Syncing,
    /// Each call is timed.
    pub(crate) timed: bool,
    /// The calls are collective ones of this group.
    pub(crate) group: Option<Membership>,
    /// The clients exchange their bytes among themselves.
    pub(crate) partners: Option<Partners>,
}

impl Task {
    /// Bytes of a file, where each record is one.
    pub(crate) fn file_bytes(&self) -> usize {
        self.part.call_bytes().max(1) as usize
    }
}

/// A client's place in a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) id: String,
    pub(crate) members: u32,
    pub(crate) member: u32,
}

/// How a worker reaches the file, or the directory of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Handle {
    /// An attachment that the leader hands over.
    Weft(Vec<u8>),
    /// A path.
    Posix(PathBuf),
    /// A directory in the volume: each record of the part is a file in it.
    Directory {
        /// Its path.
        path: String,
        /// The servers of new files.
        servers: Vec<u32>,
    },
    /// A directory on a path.
    PosixDirectory(PathBuf),
}

/// What a worker tells at a barrier.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// When it began and ended, in nanoseconds of the machine's monotonic clock; 0: it did nothing.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Bytes moved.
    pub(crate) moved: u64,
    /// How long each call took, where the task says so.
    pub(crate) latencies: Latencies,
    /// Requests for data; none for POSIX calls.
    pub(crate) messages: Option<u64>,
    /// What the machine's processors had done then.
    pub(crate) cpu: [CpuTime; 2],
    /// Where it listens for other clients.
    pub(crate) port: u16,
}

/// The processes of an exchange.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Partners {
    /// What each moves.
    pub(crate) parts: Vec<Workload>,
    /// The ports at which each listens on this machine.
    pub(crate) ports: Vec<u16>,
    /// Which of them this is.
    pub(crate) me: usize,
}
