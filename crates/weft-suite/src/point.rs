//! What is measured: a case, and one point of it.

use weft_client::Policy;

use crate::row::Interface;
use crate::workload::{FileShape, Workload};

/// An experiment of one of the papers.
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
    /// Where clients only read: what they write before, unmeasured.
    pub fill: Option<Vec<Workload>>,
    /// On the local file system beside the volume instead of in it.
    pub local: bool,
    /// The clients exchange the bytes among themselves, so that each moves a contiguous share of
    /// the file.
    pub exchange: bool,
    /// The consistency policy of the clients.
    pub policy: Option<Policy>,
}

impl Case {
    /// All of them.
    pub const ALL: [Case; 11] = [
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
        }
    }
}
