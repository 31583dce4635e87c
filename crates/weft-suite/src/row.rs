//! What a measurement says.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What clients did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Read from the file; in the life of files: open, read to the end, close.
    Read,
    /// Write into the file.
    Write,
    /// Create a file, write all its bytes, close it.
    Create,
    /// Ask for a file's attributes by its path.
    Stat,
    /// Remove a file.
    Remove,
}

/// How the application said which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// One call per record.
    Traditional,
    /// Many records by one call.
    Strided,
    /// Many records of all clients by one collective call.
    Collective,
    /// `pread` and `pwrite` on a mounted path, one per run of bytes.
    Posix,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 5] = [Op::Write, Op::Create, Op::Stat, Op::Read, Op::Remove];

    /// As in rows.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Create => "create",
            Op::Stat => "stat",
            Op::Remove => "remove",
        }
    }

    /// Whether it makes new bytes.
    pub(crate) fn makes_bytes(self) -> bool {
        matches!(self, Op::Write | Op::Create)
    }

    /// Whether it changes nothing, so that it can be left out.
    pub(crate) fn only_looks(self) -> bool {
        matches!(self, Op::Read | Op::Stat)
    }
}

impl Interface {
    /// As in rows.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Traditional => "traditional",
            Interface::Strided => "strided",
            Interface::Collective => "collective",
            Interface::Posix => "posix",
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let found = Op::ALL.into_iter().find(|op| op.name() == text);
        found
            .ok_or_else(|| format!("{text:?} is no operation: read, write, create, stat or remove"))
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Interface, String> {
        use Interface::{Collective, Posix, Strided, Traditional};
        let all = [Traditional, Strided, Collective, Posix];
        let found = all.into_iter().find(|i| i.name() == text);
        found.ok_or_else(|| {
            format!("{text:?} is no interface: traditional, strided, collective or posix")
        })
    }
}

/// One measured point; what `weft bench --json` prints a list of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub case: String,
    /// The access pattern, by name.
    pub pattern: String,
    /// What was done.
    pub op: Op,
    /// By which calls.
    pub interface: Interface,
    /// Bytes of a record.
    pub record: u64,
    /// I/O servers; 0 where a path does not tell.
    pub servers: u32,
    /// Replicas of each server, where the volume was the benchmark's own; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Client processes.
    pub clients: u32,
    /// Bytes moved by all clients.
    pub bytes: u64,
    /// Median over the runs, from the first client's begin to the last one's end.
    pub seconds: f64,
    /// `bytes` over `seconds`.
    pub mib_per_s: f64,
    /// Requests for data that the clients sent, syncs not counted; none for POSIX calls.
    pub messages: Option<u64>,
    /// How fast calls were, where a case times them.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
    /// A label that the user gave: the name of its lines in pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// How fast calls were in the median run. An operation is one call of the application on a record,
/// or all of a step's calls on one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Operations of all clients.
    pub ops: u64,
    /// `ops` over the row's `seconds`.
    pub ops_per_s: f64,
    /// Microseconds of one operation: the mean of all.
    pub mean_us: f64,
    /// As many took longer as did not.
    pub median_us: f64,
    /// One in a hundred took longer.
    pub p99_us: f64,
}

impl Row {
    /// The label, empty where there is none.
    pub(crate) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }

    /// Whether both are of the same point of the same experiment.
    pub fn is_same_point(&self, other: &Row) -> bool {
        let point = |r: &Row| {
            let servers = (r.servers, r.replicas);
            (r.op, r.interface, r.record, servers, r.clients)
        };
        (&self.case, &self.pattern, point(self)) == (&other.case, &other.pattern, point(other))
    }
}

/// A row, with its spread and the load of the machine.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The row.
    pub row: Row,
    /// The slowest and the fastest run: in operations per second where the row has [`Rates`],
    /// otherwise in MiB/s.
    pub range: (f64, f64),
    /// How busy the machine's processors were in the median run, 0 to 1.
    pub cpu: f64,
}
