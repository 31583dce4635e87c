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
//! 1. A call sends one request to each server that holds pieces of it, whatever the view; opening a
//!    view sends none.
//! 2. Attaching sends one request, however deep the path.
//! 3. A lost server ends the call with a typed error; the next call looks for the server again.
//!    Reads are repeated once by themselves, writes never: they end in [`Error::MayHaveHappened`].
//!
//! The modules, lowest first; each imports only from those above it:
//!
//! | module | what |
//! | --- | --- |
//! | `limits.rs`, `error.rs` | timeouts and bounds; what can go wrong |
//! | `inline_task.rs` | futures that begin on the thread that makes them |
//! | `policy/` | consistency policies, and where plug-ins are found |
//! | `cache/` | names of chunks and chunks that are kept |
//! | `session/` | state to assert or report again: attachments, locks, delegated directories, unsynced writes |
//! | `volume/` | the links to the servers: connect, call, retry, reassert |
//! | `names/`, `upkeep.rs` | names, attributes and quotas; disks, scrub and space |
//! | `file/` | an attached file: attach, its policy, delayed writes, sync, close, locks, small files, delegated names |
//! | `io/` | bytes through views: read, write, copy, lists, transfers |
//! | `collective/` | requests of a group as one job on each server |
//! | `fsck/` | the check and repair of a whole volume |
//! | `pointer.rs` | shared offset pointers |
//! | `operation.rs` | operations in the background |
//!
//! Absent on purpose: the wire itself (`weft-net`).

mod cache;
mod collective;
mod error;
mod file;
mod fsck;
mod inline_task;
mod io;
mod limits;
mod names;
mod operation;
mod pointer;
mod policy;
mod scheduled;
mod session;
mod turn;
mod upkeep;
mod volume;

pub use collective::Collected;
pub use collective::Collective;
pub use collective::GROUP_WAIT;
pub use collective::Group;
pub use collective::JoinedRead;
pub use collective::JoinedWrite;
pub use collective::Missing;
pub use collective::Overlaps;
pub use collective::read_joined;
pub use collective::write_joined;
pub use error::Error;
pub use file::Closed;
pub use file::DataRanges;
pub use file::File;
pub use file::Fork;
pub use file::HeldLock;
pub use file::LockKind;
pub use file::LockOwner;
pub use file::LockRange;
pub use file::Locked;
pub use file::Store;
pub use fsck::Fault;
pub use fsck::Finding;
pub use fsck::Found;
pub use fsck::FsckOptions;
pub use fsck::FsckProgress;
pub use fsck::FsckReport;
pub use inline_task::InlineTask;
pub use io::CheckpointInfo;
pub use io::OfferedChunk;
pub use io::OpenView;
pub use io::ReadParts;
pub use io::Transfer;
pub use names::Access;
pub use names::Attributes;
pub use names::Changed;
pub use names::ChangedEntry;
pub use names::Changes;
pub use names::FileKind;
pub use names::Listed;
pub use names::Listing;
pub use names::NewBounds;
pub use names::NewDirectory;
pub use names::NewLayout;
pub use names::NewMode;
pub use names::Payer;
pub use names::Place;
pub use names::Quota;
pub use names::Removed;
pub use names::Renamed;
pub use names::Time;
pub use names::Watch;
pub use names::XattrMode;
pub use operation::Operation;
pub use operation::Outcome;
pub use operation::wait_all;
pub use operation::wait_any;
pub use pointer::OrderedPointer;
pub use pointer::SharedPointer;
pub use policy::Policies;
pub use policy::Policy;
pub use policy::UnknownPolicy;
pub use session::Refused;
pub use upkeep::AcceptLossesReply;
pub use upkeep::AcceptLossesRequest;
pub use upkeep::DiskCondition;
pub use upkeep::DiskReport;
pub use upkeep::DisksReply;
pub use upkeep::DisksRequest;
pub use upkeep::LossesReply;
pub use upkeep::LossesRequest;
pub use upkeep::ParityState;
pub use upkeep::ScrubFault;
pub use upkeep::ScrubFinding;
pub use upkeep::ScrubRequest;
pub use upkeep::ScrubState;
pub use upkeep::ScrubStatusReply;
pub use upkeep::ScrubStatusRequest;
pub use upkeep::TrimRequest;
pub use upkeep::{CleanReply, Departure, JoinServerReply, JoinServerRequest, TrimReply};
pub use volume::ConnectOptions;
pub use volume::DiskCacheOptions;
pub use volume::SpreadReads;
pub use volume::Volume;
pub use volume::open_regular;
pub use volume::read_small;
pub use volume::record_history;

pub use weft_layout::ServerId;
pub use weft_policy::Folder as PolicyFolder;
pub use weft_policy::{Kept, Values};
pub use weft_proto::quota::QuotaKind;
pub use weft_referee::Recorder;

pub use weft_proto::meta::ConnectedClient;
pub use weft_proto::meta::Credentials;
pub use weft_proto::meta::Replica;
pub use weft_proto::meta::Server;
pub use weft_proto::meta::ServerMapReply;
pub use weft_proto::meta::ServerState;
