//! The client of a volume.
//!
//! ```no_run
//! # async fn example() -> Result<(), weft_client::Error> {
//! use weft_client::{Access, ConnectOptions, Volume};
//! use weft_layout::{CellIndex, View, ViewOffset};
//!
//! let volume = Volume::connect(ConnectOptions::from_folder("weft-volume")?).await?;
//! let file = volume.attach("/grid", Access::read_write().create(0o644)).await?; // one request
//! let cell = file.view(View::Cell(CellIndex(2)))?; // no message
//! cell.write_at(ViewOffset(0), "third column".into()).await?; // one request to one server
//! let mut buffer = [0; 5];
//! cell.read_at(ViewOffset(0), &mut buffer).await?;
//! file.sync().await?; // now it survives power loss
//! file.close().await?;
//! # Ok(()) }
//! ```
//!
//! Invariants:
//! 1. A call sends one request to each server that holds pieces of it, whatever the view; opening a view sends none.
//! 2. Attaching sends one request, however deep the path.
//! 3. A lost server ends the call with a typed error; the next call looks for the server again. Reads are repeated
//!    once by themselves, writes never: they end in [`Error::MayHaveHappened`].
//!
//! Absent on purpose: caches and consistency policies, the wire itself (`weft-net`).

mod advise;
mod ahead;
mod append;
mod array;
mod attach;
mod checkpoint;
mod clear;
mod collective;
mod copy;
mod data_ranges;
mod detach;
mod error;
mod extend;
mod file;
mod fsck;
mod inline;
mod list;
mod locks;
mod namespace;
mod operation;
mod options;
mod parts;
mod place;
mod quota;
mod read;
mod servers;
mod small_file;
mod span;
mod stat;
mod transfer;
mod unsynced;
mod upkeep;
mod view;
mod volume;
mod watch;
mod write;

pub use ahead::Refused;
pub use attach::{Access, NewLayout};
pub use checkpoint::CheckpointInfo;
pub use collective::{
    Collected, Collective, GROUP_WAIT, Group, JoinedRead, JoinedWrite, Missing, Overlaps,
    read_joined, write_joined,
};
pub use data_ranges::DataRanges;
pub use error::Error;
pub use file::{Closed, File, Fork};
pub use fsck::{Fault, Finding, Found, FsckOptions, FsckProgress, FsckReport};
pub use inline::Store;
pub use locks::{HeldLock, LockKind, LockOwner, LockRange, Locked};
pub use namespace::{
    Changes, Listed, Listing, NewDirectory, NewMode, Removed, Renamed, Time, XattrMode,
};
pub use operation::{Operation, Outcome, wait_all, wait_any};
pub use options::ConnectOptions;
pub use parts::ReadParts;
pub use place::Place;
pub use quota::{NewBounds, Payer, Quota};
pub use small_file::{open_regular, read_small};
pub use stat::{Attributes, FileKind};
pub use transfer::Transfer;
pub use upkeep::{
    AcceptLossesReply, AcceptLossesRequest, DiskCondition, DiskReport, DisksReply, DisksRequest,
    LossesReply, LossesRequest, ScrubFault, ScrubFinding, ScrubRequest, ScrubState,
    ScrubStatusReply, ScrubStatusRequest, TrimReply, TrimRequest,
};
pub use view::OpenView;
pub use volume::Volume;
pub use watch::{Changed, ChangedEntry, Watch};

pub use weft_layout::ServerId;
pub use weft_proto::quota::QuotaKind;

pub use weft_proto::meta::{ConnectedClient, Credentials, Server, ServerMapReply, ServerState};
