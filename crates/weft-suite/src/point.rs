//! What is measured: a case, and one point of it.

use weft_client::Policy;

use crate::row::{Interface, Op};
use crate::workload::{FileShape, Workload};

/// Steps of a point whose clients move the bytes of one file.
pub(crate) const TRANSFERS: &[Op] = &[Op::Write, Op::Read];
/// One step of them.
pub(crate) const READ: &[Op] = &[Op::Read];
/// The other.
pub(crate) const WRITE: &[Op] = &[Op::Write];
/// The life of a file, in the order of mdtest's phases.
pub(crate) const LIFE: &[Op] = &[Op::Create, Op::Stat, Op::Read, Op::Remove];

/// An experiment: one of the papers, or what users of fio and mdtest measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Galley: broadcast, partitioned, interleaved; one call per record against strided calls.
    Galley,
    /// PVFS: against the local disk; many servers; stripe sizes; matching and mismatched
    /// partitions.
    Pvfs,
    /// Vesta §5.5: orthogonal views.
    VestaViews,
    /// Vesta §5.4: scaling.
    VestaScale,
    /// sfs: transfer sizes on growing numbers of servers.
    Sfs,
    /// CAPFS: tiled visualisation.
    Tile,
    /// A three-dimensional array: collectives against an exchange written by hand.
    Array,
    /// Vesta §5.6: FastMeshSort.
    Sort,
    /// Vesta §4.3: what the order of operations costs that do not conflict.
    Order,
    /// CAPFS §4.1: addressed files, with new contents and with contents that servers know.
    Addressed,
    /// CAPFS §4.1: consistency policies.
    Policies,
    /// Small records of one file by plain calls, in order and at random.
    Small,
    /// The life of small files.
    Files,
}

/// One measurement: the workload of each client, and the interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The experiment.
    pub case: Case,
    /// The access pattern, by name.
    pub pattern: String,
    /// By which calls.
    pub interface: Interface,
    /// Bytes of a record, or what the experiment varies in its place.
    pub record: u64,
    /// I/O servers.
    pub servers: u32,
    /// Layout of the file.
    pub shape: FileShape,
    /// Calls that each client keeps in flight.
    pub depth: usize,
    /// What each client moves; as many as there are clients.
    pub parts: Vec<Workload>,
    /// What all clients do in each run, one step after the other.
    pub steps: &'static [Op],
    /// What they write before the first run, unmeasured.
    pub fill: Option<Vec<Workload>>,
    /// On the local file system beside the volume instead of in it.
    pub local: bool,
    /// The clients exchange the bytes among themselves, so that each moves a contiguous share of
    /// the file.
    pub exchange: bool,
    /// The consistency policy of the clients.
    pub policy: Option<Policy>,
    /// When writes are synced.
    pub sync: SyncRule,
    /// Servers must not have in memory what is read, as far as this is ours to decide.
    pub cold: bool,
}

/// When the writes of a point are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRule {
    /// At the end of a client's part, or not at all, as the sweep says.
    AsAsked,
    /// Every write, or every new file, before the next.
    Each,
    /// Not at all.
    Never,
}

impl Point {
    /// A point of a case with what most points have, and nothing to do yet.
    pub(crate) fn of(case: Case) -> Point {
        Point {
            case,
            pattern: String::new(),
            interface: Interface::Traditional,
            record: 0,
            servers: 1,
            shape: FileShape::default(),
            depth: 1,
            parts: Vec::new(),
            steps: TRANSFERS,
            fill: None,
            local: false,
            exchange: false,
            policy: None,
            sync: SyncRule::AsAsked,
            cold: false,
        }
    }

    /// Whether this is on the local disk what the point before it is in the place that is measured.
    pub(crate) fn is_beside(&self, other: &Point) -> bool {
        self.local && !other.local && self.case.times_calls()
    }
}

impl Case {
    /// All of them.
    pub const ALL: [Case; 13] = [
        Case::Galley,
        Case::Pvfs,
        Case::VestaViews,
        Case::VestaScale,
        Case::Sfs,
        Case::Tile,
        Case::Array,
        Case::Sort,
        Case::Order,
        Case::Addressed,
        Case::Policies,
        Case::Small,
        Case::Files,
    ];

    /// As in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Case::Galley => "galley",
            Case::Pvfs => "pvfs",
            Case::VestaViews => "vesta-views",
            Case::VestaScale => "vesta-scale",
            Case::Sfs => "sfs",
            Case::Tile => "tile",
            Case::Array => "array",
            Case::Sort => "sort",
            Case::Order => "order",
            Case::Addressed => "addressed",
            Case::Policies => "policies",
            Case::Small => "small",
            Case::Files => "files",
        }
    }

    /// Whether single calls are timed, and rows tell their rate. The papers' cases tell bandwidth
    /// only.
    pub(crate) fn times_calls(self) -> bool {
        matches!(self, Case::Small | Case::Files)
    }
}
