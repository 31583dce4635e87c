//! What a measurement says.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// From the file.
    Read,
    /// Into the file.
    Write,
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
    /// As in rows.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
        }
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
        let all = [Op::Read, Op::Write];
        let found = all.into_iter().find(|op| op.name() == text);
        found.ok_or_else(|| format!("{text:?} is neither read nor write"))
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
    /// Which way.
    pub op: Op,
    /// By which calls.
    pub interface: Interface,
    /// Bytes of a record.
    pub record: u64,
    /// I/O servers; 0 where a path does not tell.
    pub servers: u32,
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
    /// A label that the user gave: the name of its lines in pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Row {
    /// The label, empty where there is none.
    pub(crate) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }

    /// Whether both are of the same point of the same experiment.
    pub fn is_same_point(&self, other: &Row) -> bool {
        let point = |r: &Row| (r.op, r.interface, r.record, r.servers, r.clients);
        (&self.case, &self.pattern, point(self)) == (&other.case, &other.pattern, point(other))
    }
}

/// A row, with its spread and the load of the machine.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The row.
    pub row: Row,
    /// The fastest and the slowest run, in MiB/s.
    pub range: (f64, f64),
    /// How busy the machine's processors were in the median run, 0 to 1.
    pub cpu: f64,
}
