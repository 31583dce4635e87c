//! Messages to the metadata service. A path is resolved from a directory (`at`, the root is 1) on
//! the service, so that any depth costs one request; names and paths are bytes, as in Unix.

use bytes::Bytes;

use crate::stamp::Position;

/// The root directory's id.
pub const ROOT: u64 = 1;

/// On whose behalf.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Credentials {
    /// User.
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    /// Group of new files.
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    /// Supplementary groups.
    #[prost(uint32, repeated, tag = "3")]
    pub groups: Vec<u32>,
}

/// A path and where it starts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Target {
    /// The directory (or, with an empty path, the file itself).
    #[prost(uint64, tag = "1")]
    pub at: u64,
    /// Relative path; a leading `/` starts at the root.
    #[prost(bytes = "bytes", tag = "2")]
    pub path: Bytes,
    /// Follow a symbolic link in the last component.
    #[prost(bool, tag = "3")]
    pub follow: bool,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum FileKind {
    /// Never sent.
    Unspecified = 0,
    /// A grid of cells.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A fifo.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block device.
    BlockDevice = 6,
    /// A character device.
    CharDevice = 7,
}

/// How a file lies on the servers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Layout {
    /// Cells.
    #[prost(uint32, tag = "1")]
    pub cells: u32,
    /// Bytes of a basic striping unit.
    #[prost(uint64, tag = "2")]
    pub bsu: u64,
    /// Bytes of a chunk.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
    /// Server ids, base first.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
    /// 0 plain, 1 addressed.
    #[prost(uint32, tag = "5")]
    pub storage: u32,
}

/// What the service knows of a file. Times are nanoseconds since the epoch.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Attributes {
    /// The file's id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// What it is.
    #[prost(enumeration = "FileKind", tag = "2")]
    pub kind: i32,
    /// Permission bits with setuid, setgid and sticky: 12 bits.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Owner.
    #[prost(uint32, tag = "4")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, tag = "5")]
    pub gid: u32,
    /// Names.
    #[prost(uint32, tag = "6")]
    pub links: u32,
    /// Size in canonical order as last reported (directories: entries; links: bytes of the target).
    #[prost(uint64, tag = "7")]
    pub size: u64,
    /// Nobody has the file open for writing since `size` and `modified` were reported.
    #[prost(bool, tag = "8")]
    pub size_exact: bool,
    /// Last access, as far as it is kept.
    #[prost(int64, tag = "9")]
    pub accessed: i64,
    /// Last modification as last reported or set.
    #[prost(int64, tag = "10")]
    pub modified: i64,
    /// Last change of attributes.
    #[prost(int64, tag = "11")]
    pub changed: i64,
    /// Creation.
    #[prost(int64, tag = "12")]
    pub created: i64,
    /// When `modified` was last set by hand: a server's own time counts only if it is later than
    /// this.
    #[prost(int64, tag = "13")]
    pub modified_set: i64,
    /// Device number of a device node.
    #[prost(uint64, tag = "14")]
    pub device: u64,
    /// Layout of a regular file, or what a directory gives to new files.
    #[prost(message, optional, tag = "15")]
    pub layout: Option<Layout>,
    /// The parent directory (directories only).
    #[prost(uint64, tag = "16")]
    pub parent: u64,
    /// The bytes of this regular file lie with its metadata; its cells are empty.
    #[prost(bool, tag = "17")]
    pub inline: bool,
    /// Of a file in a checkpoint of a tree whose bytes lie in cells: the file whose cells they are;
    /// else 0.
    #[prost(uint64, tag = "18")]
    pub source: u64,
    /// The number of the checkpoint that the bytes of `source` are of.
    #[prost(uint64, tag = "19")]
    pub checkpoint: u64,
    /// It has extended attributes, or permissions that `mode` does not say all of.
    #[prost(bool, tag = "20")]
    pub xattrs: bool,
}

/// What a creator asks for; the service fills in the rest.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LayoutWish {
    /// Cells; absent: inherited from the directory, else one per server.
    #[prost(uint32, optional, tag = "1")]
    pub cells: Option<u32>,
    /// Bytes of a basic striping unit.
    #[prost(uint64, optional, tag = "2")]
    pub bsu: Option<u64>,
    /// Bytes of a chunk.
    #[prost(uint32, optional, tag = "3")]
    pub chunk: Option<u32>,
    /// Server ids, base first; empty: all that are up, from `base`.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
    /// The server of cell 0; absent: chosen pseudo-randomly.
    #[prost(uint32, optional, tag = "5")]
    pub base: Option<u32>,
}

/// Create the file if it is not there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Create {
    /// Permission bits.
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    /// Fail if it is there.
    #[prost(bool, tag = "2")]
    pub exclusive: bool,
    /// Layout of the new file.
    #[prost(message, optional, tag = "3")]
    pub layout: Option<LayoutWish>,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "4")]
    pub umask: u32,
}

/// Attach: the one request before data can be accessed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttachRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Which file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// It will be read.
    #[prost(bool, tag = "3")]
    pub read: bool,
    /// It will be written.
    #[prost(bool, tag = "4")]
    pub write: bool,
    /// Create it if needed.
    #[prost(message, optional, tag = "5")]
    pub create: Option<Create>,
    /// The client can work with an inline file; to others every file has its bytes in its cells. A
    /// file that is created so begins inline.
    #[prost(bool, tag = "6")]
    pub inline: bool,
}

/// All that is needed to access data.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttachReply {
    /// Attributes with layout.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
    /// The server map's epoch.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The file was created by this call.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// All bytes of an inline file, perhaps none yet. Absent: the file's bytes are in its cells and
    /// stay there.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub inline: Option<Bytes>,
    /// Attached for writing: size and times were exact until now, and nobody else has it open for
    /// writing.
    #[prost(bool, tag = "5")]
    pub sole: bool,
}

/// What a writer knows of size and time; closes with `detach`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own on the wire"
)]
pub struct ReportRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file's size, if the client asked all its servers; worth nothing without `turn`.
    #[prost(uint64, optional, tag = "2")]
    pub size: Option<u64>,
    /// Time of the last write; absent: nothing was written.
    #[prost(int64, optional, tag = "3")]
    pub modified: Option<i64>,
    /// The attachment ends.
    #[prost(bool, tag = "4")]
    pub detach: bool,
    /// The attachment was one for writing.
    #[prost(bool, tag = "5")]
    pub write: bool,
    /// One past the last canonical byte that this attachment wrote, if that is known: the size
    /// follows from it if nobody else wrote meanwhile.
    #[prost(uint64, optional, tag = "6")]
    pub end: Option<u64>,
    /// A writer that is not privileged wrote: the file loses its set-id bits.
    #[prost(bool, tag = "7")]
    pub kill_priv: bool,
    /// That of the answer that wanted the size, which was asked for after it.
    #[prost(uint64, optional, tag = "8")]
    pub turn: Option<u64>,
    /// The client can ask the servers for the size, if it is wanted.
    #[prost(bool, tag = "9")]
    pub can_ask: bool,
    /// Other forks than `data` were written or removed: how long they are the service asks the
    /// servers.
    #[prost(bool, tag = "10")]
    pub forks: bool,
}

/// Done, unless the size is wanted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReportReply {
    /// `end` does not tell the size, and no other writer is left to tell it: nothing was done; ask
    /// the servers and report again with `size` and `turn`.
    #[prost(bool, tag = "1")]
    pub size_wanted: bool,
    /// Attributes after it, where a writer's attachment has ended and they are exact.
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<Attributes>,
    /// Nobody else has written it while this attachment lasted.
    #[prost(bool, tag = "3")]
    pub alone: bool,
    /// What a size that is wanted is good for: until another writer comes, who may be gone before
    /// it is told, or the file is truncated.
    #[prost(uint64, tag = "4")]
    pub turn: u64,
}

/// End attachments that have nothing to tell: of readers, and of writers whose writes were all
/// stored or reported; and tell of what was read. Files that are not there, or not attached, are
/// passed over.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DetachRequest {
    /// Files, once for each attachment for reading that ends.
    #[prost(uint64, repeated, tag = "1")]
    pub reading: Vec<u64>,
    /// Files, once for each attachment for writing that ends.
    #[prost(uint64, repeated, tag = "2")]
    pub writing: Vec<u64>,
    /// When files, directories and links were read last, each once: those that have an earlier time
    /// get this one.
    #[prost(message, repeated, tag = "3")]
    pub accessed: Vec<Accessed>,
}

/// A file, directory or link was read.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Accessed {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub time: i64,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DetachReply {}

/// Attributes of one path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Which file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatReply {
    /// Attributes.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TimeWish {
    /// The service's clock instead of `nanos`.
    #[prost(bool, tag = "1")]
    pub now: bool,
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub nanos: i64,
}

/// Change what is present.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetAttributesRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Which file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Permission bits.
    #[prost(uint32, optional, tag = "3")]
    pub mode: Option<u32>,
    /// Owner.
    #[prost(uint32, optional, tag = "4")]
    pub uid: Option<u32>,
    /// Group.
    #[prost(uint32, optional, tag = "5")]
    pub gid: Option<u32>,
    /// Last access.
    #[prost(message, optional, tag = "6")]
    pub accessed: Option<TimeWish>,
    /// Last modification.
    #[prost(message, optional, tag = "7")]
    pub modified: Option<TimeWish>,
    /// Layout for new files in a directory.
    #[prost(message, optional, tag = "8")]
    pub layout: Option<LayoutWish>,
    /// As after a write by somebody who is not privileged: the file loses its set-id bits. A setgid
    /// bit without the group's execute bit stays where the caller is of the file's group, and where
    /// it is root, who speaks for somebody unknown.
    #[prost(bool, tag = "9")]
    pub kill_priv: bool,
}

/// Set a file's size; carried through to the I/O servers by the service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TruncateRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Which file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// New size in canonical order.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// The caller holds the file open for writing: permission was checked at attach.
    #[prost(bool, tag = "4")]
    pub attached: bool,
    /// Never shorter: the file is charged for so much, and the caller extends its cells
    /// ([`crate::io::ExtendCellsRequest`]); an inline file is extended by the service.
    #[prost(bool, tag = "5")]
    pub grow: bool,
}

/// Create a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Permission bits.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "4")]
    pub umask: u32,
    /// The client wants to know all names in it for as long as others change none: whoever does is
    /// answered when this client's watch has told it of that.
    #[prost(bool, tag = "5")]
    pub lease: bool,
}

/// A directory was made.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeDirectoryReply {
    /// Its attributes.
    #[prost(message, required, tag = "1")]
    pub attributes: Attributes,
    /// The client has the lease that it wanted.
    #[prost(bool, tag = "2")]
    pub leased: bool,
}

/// Create a symbolic link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeLinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// The link's text.
    #[prost(bytes = "bytes", tag = "3")]
    pub text: Bytes,
}

/// Create a fifo, socket or device node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MakeNodeRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Its path.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// What it is.
    #[prost(enumeration = "FileKind", tag = "3")]
    pub kind: i32,
    /// Permission bits.
    #[prost(uint32, tag = "4")]
    pub mode: u32,
    /// Device number.
    #[prost(uint64, tag = "5")]
    pub device: u64,
    /// Bits that `mode` loses, unless the directory's default ACL decides.
    #[prost(uint32, tag = "6")]
    pub umask: u32,
}

/// A hard link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub source: Target,
    /// Its further name.
    #[prost(message, required, tag = "3")]
    pub target: Target,
}

/// Remove a name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnlinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The name.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Remove an empty directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveDirectoryRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// Done; which file lost a name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnlinkReply {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Names it has left.
    #[prost(uint32, tag = "2")]
    pub links: u32,
    /// The directory that lost the name, as it is now.
    #[prost(message, optional, tag = "3")]
    pub directory: Option<Attributes>,
}

/// Rename.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenameRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// Old name.
    #[prost(message, required, tag = "2")]
    pub source: Target,
    /// New name.
    #[prost(message, required, tag = "3")]
    pub target: Target,
    /// Fail if the new name exists.
    #[prost(bool, tag = "4")]
    pub no_replace: bool,
    /// Swap both names.
    #[prost(bool, tag = "5")]
    pub exchange: bool,
}

/// Done; which files it was about.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RenameReply {
    /// The file that has another name now.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The file that had the new name; 0: none.
    #[prost(uint64, tag = "2")]
    pub other: u64,
}

/// One page of a directory.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The directory.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Continue after this name; empty: from the start.
    #[prost(bytes = "bytes", tag = "3")]
    pub after: Bytes,
    /// At most so many entries.
    #[prost(uint32, tag = "4")]
    pub limit: u32,
}

/// A name and what it names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    /// Name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Attributes.
    #[prost(message, required, tag = "2")]
    pub attributes: Attributes,
}

/// Entries in ascending order of the names' bytes, without `.` and `..`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListReply {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// There are more: ask again after the last one.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// The directory itself.
    #[prost(message, required, tag = "3")]
    pub directory: Attributes,
}

/// Read a symbolic link.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadLinkRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The link.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The link's text.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadLinkReply {
    /// The text.
    #[prost(bytes = "bytes", tag = "1")]
    pub text: Bytes,
}

/// Read an extended attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetXattrRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Full name, e.g. `user.mime_type`.
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
}

/// The value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetXattrReply {
    /// The value.
    #[prost(bytes = "bytes", tag = "1")]
    pub value: Bytes,
}

/// Set an extended attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetXattrRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Full name.
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
    /// The value.
    #[prost(bytes = "bytes", tag = "4")]
    pub value: Bytes,
    /// Fail if it is there.
    #[prost(bool, tag = "5")]
    pub create: bool,
    /// Fail if it is not there.
    #[prost(bool, tag = "6")]
    pub replace: bool,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct XattrDone {}

/// List extended attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListXattrRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
}

/// The names, ascending.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListXattrReply {
    /// The names.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub names: Vec<Bytes>,
}

/// Remove an extended attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveXattrRequest {
    /// On whose behalf.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Full name.
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
}

/// Ask for the server map.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ServerMapRequest {}

/// Whether a server takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ServerState {
    /// Never heard of.
    Unknown = 0,
    /// Heard of lately.
    Up = 1,
    /// Not heard of lately.
    Down = 2,
    /// There, and refused: its store is older than what it said before.
    RolledBack = 3,
}

/// How full a server is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Usage {
    /// All there is.
    #[prost(uint64, tag = "1")]
    pub capacity: u64,
    /// Held by files.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// Left for files.
    #[prost(uint64, tag = "3")]
    pub available: u64,
}

/// One server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Server {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// `host:port`.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Whether it is there.
    #[prost(enumeration = "ServerState", tag = "3")]
    pub state: i32,
    /// How full it is.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// `host:port` of its metrics, if it serves any.
    #[prost(string, tag = "5")]
    pub metrics: String,
    /// Files of smaller ids are older than its store.
    #[prost(uint64, tag = "6")]
    pub since: u64,
    /// Of one that is refused: when the newest bytes of its store were written, in nanoseconds
    /// since the epoch; 0: there are none.
    #[prost(int64, tag = "7")]
    pub newest: i64,
}

/// The server map.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServerMapReply {
    /// Rises with every change of a server's set or address.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Ascending by id.
    #[prost(message, repeated, tag = "2")]
    pub servers: Vec<Server>,
    /// Files, directories and other names' targets.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Operations owed to I/O servers (deletes and truncates under way).
    #[prost(uint64, tag = "4")]
    pub intents: u64,
    /// The volume's name.
    #[prost(string, tag = "5")]
    pub volume: String,
    /// The namespace is older than what servers heard of it: nothing else is answered.
    #[prost(bool, tag = "6")]
    pub rolled_back: bool,
    /// The service was started after it had died, and clients may not have told yet what they have
    /// open: every file counts as open.
    #[prost(bool, tag = "7")]
    pub recovering: bool,
}

/// Which clients are connected.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListClientsRequest {}

/// All but the one that asks, in no order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListClientsReply {
    /// A mount, or another program.
    #[prost(message, repeated, tag = "1")]
    pub clients: Vec<ConnectedClient>,
}

/// A client that has a connection to the metadata service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectedClient {
    /// Where it is.
    #[prost(string, tag = "1")]
    pub address: String,
    /// What it calls itself; may be empty.
    #[prost(string, tag = "2")]
    pub name: String,
    /// When it came, in nanoseconds since the epoch.
    #[prost(int64, tag = "3")]
    pub since: i64,
}

/// A server reports.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatRequest {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Where it listens.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Where its metrics are.
    #[prost(string, tag = "3")]
    pub metrics: String,
    /// How full it is.
    #[prost(message, required, tag = "4")]
    pub usage: Usage,
    /// The id of its store, made when that was formatted; empty: it has none, or whoever asks
    /// speaks of the address only.
    #[prost(bytes = "bytes", tag = "5")]
    pub store: bytes::Bytes,
    /// What survives power loss of its store; absent: it does not say.
    #[prost(message, optional, tag = "6")]
    pub durable: Option<Position>,
    /// Positions that an earlier reply asked for and that its store has.
    #[prost(message, repeated, tag = "7")]
    pub has: Vec<Position>,
    /// Its store lacks a position that an earlier reply asked for.
    #[prost(bool, tag = "8")]
    pub rolled_back: bool,
    /// What it last heard to be durable of the namespace; absent: nothing.
    #[prost(message, optional, tag = "9")]
    pub service: Option<Position>,
    /// All that its store has of files below this id was put in doubt, durably, since a reply asked
    /// for it; 0: nothing was.
    #[prost(uint64, tag = "10")]
    pub doubted: u64,
    /// When the newest bytes of its store were written, in nanoseconds since the epoch: told with
    /// `rolled_back`, else 0.
    #[prost(int64, tag = "11")]
    pub newest: i64,
}

/// What a server must know of the volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeartbeatReply {
    /// The server map's epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Files of smaller ids are older than the server's store: what it does not have of them is
    /// lost.
    #[prost(uint64, tag = "2")]
    pub since: u64,
    /// What the server said to be durable before: until it says that its store has all of these it
    /// takes no part.
    #[prost(message, repeated, tag = "3")]
    pub check: Vec<Position>,
    /// What survives power loss of the namespace; absent: nothing is known.
    #[prost(message, optional, tag = "4")]
    pub service: Option<Position>,
    /// The administrator takes the server although its store lacks some of `check`: it is to put in
    /// doubt what it has of files below this id, and to say so. 0: nobody has.
    #[prost(uint64, tag = "5")]
    pub doubt: u64,
}

/// Take a server, or the metadata service, in although its store is older than what it said before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptRollbackRequest {
    /// The server; absent: the metadata service.
    #[prost(uint32, optional, tag = "1")]
    pub server: Option<u32>,
}

/// Done, and survives power loss.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptRollbackReply {
    /// It was refused until now.
    #[prost(bool, tag = "1")]
    pub refused: bool,
}

/// What a client still has open after its connection was lost.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReassertRequest {
    /// Files, one entry per attachment.
    #[prost(uint64, repeated, tag = "1")]
    pub reading: Vec<u64>,
    /// Files attached for writing, one entry per attachment.
    #[prost(uint64, repeated, tag = "2")]
    pub writing: Vec<u64>,
    /// Locks that it holds.
    #[prost(message, repeated, tag = "3")]
    pub locks: Vec<crate::coord::HeldLock>,
    /// To this client operations may be acknowledged before they survive power loss: at most about
    /// a second before.
    #[prost(bool, tag = "4")]
    pub lazy: bool,
    /// What the client calls itself, for the administrator's eyes.
    #[prost(string, tag = "5")]
    pub name: String,
}

/// Which of them no longer exist.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReassertReply {
    /// Files that were deleted meanwhile.
    #[prost(uint64, repeated, tag = "1")]
    pub gone: Vec<u64>,
    /// Locks that it holds no longer: others hold what they exclude.
    #[prost(message, repeated, tag = "2")]
    pub lost: Vec<crate::coord::HeldLock>,
}
