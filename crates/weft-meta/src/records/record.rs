//! The stored records: one protobuf message per kind, tags explicit and never reused, so that a
//! later version reads what an earlier one wrote. `tests/golden.rs` fixes the bytes.

/// Version of all records together; see `docs/design/0004-metadata.md`.
pub(crate) const FORMAT: u32 = 2;
/// The version before usage was counted: opening counts it and upgrades the volume to `FORMAT`.
pub(crate) const FORMAT_UNCOUNTED: u32 = 1;

/// The layout of a file on the servers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LayoutRecord {
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
    /// 256 k + m for parity k+m; 0: none.
    #[prost(uint32, tag = "6")]
    pub parity: u32,
}

/// The defaults of a directory for the layouts of new files.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DefaultLayoutRecord {
    /// Cells.
    #[prost(uint32, optional, tag = "1")]
    pub cells: Option<u32>,
    /// Bytes of a basic striping unit.
    #[prost(uint64, optional, tag = "2")]
    pub bsu: Option<u64>,
    /// Bytes of a chunk.
    #[prost(uint32, optional, tag = "3")]
    pub chunk: Option<u32>,
    /// Server ids, base first.
    #[prost(uint32, repeated, tag = "4")]
    pub servers: Vec<u32>,
    /// The server of cell 0.
    #[prost(uint32, optional, tag = "5")]
    pub base: Option<u32>,
    /// 0 plain, 1 addressed.
    #[prost(uint32, optional, tag = "6")]
    pub storage: Option<u32>,
    /// The least number of replicas of the servers.
    #[prost(uint32, optional, tag = "7")]
    pub replicas: Option<u32>,
    /// 256 k + m for parity k+m; 0: none.
    #[prost(uint32, optional, tag = "8")]
    pub parity: Option<u32>,
}

/// A file, directory, link or node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a separate field on the disk"
)]
pub struct InodeRecord {
    /// `weft_proto::meta::FileKind`.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// 12 permission bits.
    #[prost(uint32, tag = "2")]
    pub mode: u32,
    /// Owner.
    #[prost(uint32, tag = "3")]
    pub uid: u32,
    /// Group.
    #[prost(uint32, tag = "4")]
    pub gid: u32,
    /// Names; directories: 2 and one for each directory inside; 0: an orphan.
    #[prost(uint32, tag = "5")]
    pub links: u32,
    /// Files: bytes as last reported. Directories: entries. Links: bytes of the text.
    #[prost(uint64, tag = "6")]
    pub size: u64,
    /// No client may have written since `size` and `written` were reported.
    #[prost(bool, tag = "7")]
    pub size_exact: bool,
    /// Last access, as far as it is kept.
    #[prost(int64, tag = "8")]
    pub accessed: i64,
    /// Last modification.
    #[prost(int64, tag = "9")]
    pub modified: i64,
    /// Last change of attributes.
    #[prost(int64, tag = "10")]
    pub changed: i64,
    /// Creation.
    #[prost(int64, tag = "11")]
    pub created: i64,
    /// When `modified` was last set explicitly; 0: never.
    #[prost(int64, tag = "12")]
    pub modified_set: i64,
    /// The latest reported time of a write: reports arrive in any order.
    #[prost(int64, tag = "13")]
    pub written: i64,
    /// Device number.
    #[prost(uint64, tag = "14")]
    pub device: u64,
    /// Regular files.
    #[prost(message, optional, tag = "15")]
    pub layout: Option<LayoutRecord>,
    /// Directories: defaults for new files.
    #[prost(message, optional, tag = "16")]
    pub layout_options: Option<DefaultLayoutRecord>,
    /// Directories: the parent; that of the root is the root.
    #[prost(uint64, tag = "17")]
    pub parent: u64,
    /// Symbolic links: the text.
    #[prost(bytes = "vec", tag = "18")]
    pub text: Vec<u8>,
    /// Bytes of all extended attributes with their names.
    #[prost(uint64, tag = "19")]
    pub xattr_bytes: u64,
    /// The newest pending truncate; 0: none.
    #[prost(uint64, tag = "20")]
    pub truncate: u64,
    /// A client wrote while a truncate was pending: its completion does not determine the size.
    #[prost(bool, tag = "21")]
    pub truncate_raced: bool,
    /// Regular files: the bytes are in an [`InlineRecord`] (without one: there are none), and the
    /// cells do not count.
    #[prost(bool, tag = "22")]
    pub inline: bool,
    /// The access ACL, if the mode does not express it.
    #[prost(message, optional, tag = "23")]
    pub acl: Option<AclRecord>,
    /// Directories: the ACL that new files in them inherit.
    #[prost(message, optional, tag = "24")]
    pub default_acl: Option<AclRecord>,
    /// It is an image of a checkpoint of a tree, and never changes.
    #[prost(message, optional, tag = "25")]
    pub frozen: Option<FrozenRecord>,
    /// The nearest directory with a quota that it is charged to, itself included; 0: none.
    #[prost(uint64, tag = "26")]
    pub tree: u64,
    /// Regular files: bytes of all forks but `data`, as the servers last reported.
    #[prost(uint64, tag = "27")]
    pub fork_bytes: u64,
    /// A client may have written or removed other forks than `data` since; the size is inexact
    /// while this is set.
    #[prost(bool, tag = "28")]
    pub forks_changed: bool,
    /// The consistency policy of a file, or what a directory gives to what is made in it.
    #[prost(string, tag = "29")]
    pub policy: String,
    /// Regular files: the state of which there is parity, and the one of which it is being made.
    #[prost(message, optional, tag = "30")]
    pub codings: Option<CodingsRecord>,
}

/// The states of a file of which there is, or will be, parity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CodingsRecord {
    /// Parity is complete.
    #[prost(message, optional, tag = "1")]
    pub done: Option<CodingRecord>,
    /// It is being computed.
    #[prost(message, optional, tag = "2")]
    pub begun: Option<CodingRecord>,
}

/// A state of a file of which there is parity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CodingRecord {
    /// The number of the checkpoint.
    #[prost(uint64, tag = "1")]
    pub checkpoint: u64,
    /// The file whose cells have the parity.
    #[prost(uint64, tag = "2")]
    pub parity_file: u64,
    /// 256 k + m.
    #[prost(uint32, tag = "3")]
    pub shape: u32,
    /// For each server of the layout, the number of the replica that was primary.
    #[prost(uint32, repeated, tag = "4")]
    pub primaries: Vec<u32>,
    /// The file's times and size before the checkpoint was made: if they are the same, it has not
    /// been changed since.
    #[prost(int64, tag = "5")]
    pub written: i64,
    /// See `written`.
    #[prost(int64, tag = "6")]
    pub modified: i64,
    /// See `written`.
    #[prost(uint64, tag = "7")]
    pub size: u64,
}

/// The file that a parity file belongs to.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ParityRecord {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub file: u64,
}

/// Usage and bounds of a user, a group or a tree.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct QuotaRecord {
    /// Bytes of regular files, holes included: the low half.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// The high half.
    #[prost(uint64, tag = "2")]
    pub bytes_high: u64,
    /// Inodes.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// The most bytes.
    #[prost(uint64, optional, tag = "4")]
    pub bytes_max: Option<u64>,
    /// The most inodes.
    #[prost(uint64, optional, tag = "5")]
    pub files_max: Option<u64>,
    /// Trees: the directory with the next quota above; 0: none.
    #[prost(uint64, tag = "6")]
    pub above: u64,
}

/// The origin of an image in a checkpoint of a tree.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FrozenRecord {
    /// The checkpoint's number, here and on the servers.
    #[prost(uint64, tag = "1")]
    pub checkpoint: u64,
    /// The id of the inode that it was copied from.
    #[prost(uint64, tag = "2")]
    pub source: u64,
    /// The bytes of this inline image are also in its own cells, for readers that cannot handle
    /// inline files.
    #[prost(bool, tag = "3")]
    pub own_cells: bool,
}

/// A file with cells in a checkpoint of a tree.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TreeFileRecord {
    /// Its image in the checkpoint.
    #[prost(uint64, tag = "1")]
    pub image: u64,
}

/// A hold: checkpoints of trees need the cells of a file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HoldRecord {
    /// How many of them.
    #[prost(uint32, tag = "1")]
    pub checkpoints: u32,
    /// The file was deleted: its cells are deleted with the last of these checkpoints.
    #[prost(bool, tag = "2")]
    pub deleted: bool,
    /// It was deleted: its parity.
    #[prost(message, optional, tag = "3")]
    pub codings: Option<CodingsRecord>,
    /// It was deleted and has parity: its layout.
    #[prost(message, optional, tag = "4")]
    pub layout: Option<LayoutRecord>,
}

/// The bytes of a small file; its length is the inode's size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InlineRecord {
    /// All of them.
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// They are being written to the cells, which may have some of them: nothing else may change
    /// them until that ends.
    #[prost(bool, tag = "2")]
    pub spilling: bool,
}

/// An access control list. In an access ACL the owner's, the others' and the mask's permissions are
/// the inode's mode and stay 0 here.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AclRecord {
    /// Permissions of the owner.
    #[prost(uint32, tag = "1")]
    pub owner: u32,
    /// Permissions of the owning group.
    #[prost(uint32, tag = "2")]
    pub group: u32,
    /// Permissions of others.
    #[prost(uint32, tag = "3")]
    pub other: u32,
    /// The most that groups and named users get.
    #[prost(uint32, optional, tag = "4")]
    pub mask: Option<u32>,
    /// Named users: id and permissions alternate.
    #[prost(uint32, repeated, tag = "5")]
    pub users: Vec<u32>,
    /// Named groups: id and permissions alternate.
    #[prost(uint32, repeated, tag = "6")]
    pub groups: Vec<u32>,
}

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct EntryRecord {
    /// The file that it names.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its kind, for listings that need no attributes and for checks.
    #[prost(int32, tag = "2")]
    pub kind: i32,
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct XattrRecord {
    /// Its value.
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// A file without a name that a client has, or may have, open.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OrphanRecord {
    /// When it lost its last name.
    #[prost(int64, tag = "1")]
    pub since: i64,
}

/// Pending work for I/O servers. Exactly one of `delete`, `truncate` and `checkpoint` is set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IntentRecord {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Delete the file's cells.
    #[prost(message, optional, tag = "2")]
    pub delete: Option<DeleteRecord>,
    /// Set its size.
    #[prost(message, optional, tag = "3")]
    pub truncate: Option<TruncateRecord>,
    /// Make, drop or roll back to a checkpoint.
    #[prost(message, optional, tag = "4")]
    pub checkpoint: Option<CheckpointTaskRecord>,
}

/// A checkpoint of a file.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CheckpointRecord {
    /// The intent that made it, and its number on the servers.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// When it was asked for.
    #[prost(int64, tag = "2")]
    pub made: i64,
    /// The file's size in it.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// `CHECKPOINT_MAKING`, `CHECKPOINT_THERE` or `CHECKPOINT_GOING`.
    #[prost(int32, tag = "4")]
    pub state: i32,
    /// Directories: the root of the image of the tree; 0: a file's checkpoint.
    #[prost(uint64, tag = "5")]
    pub image: u64,
    /// Directories: the names in the tree.
    #[prost(uint64, tag = "6")]
    pub names: u64,
    /// Files: it may have had other forks than `data`.
    #[prost(bool, tag = "7")]
    pub forks: bool,
}

/// Some servers may not have it yet.
pub(crate) const CHECKPOINT_MAKING: i32 = 0;
/// All servers have it.
pub(crate) const CHECKPOINT_THERE: i32 = 1;
/// Some servers may still have it.
pub(crate) const CHECKPOINT_GOING: i32 = 2;

/// The pending work for a checkpoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckpointTaskRecord {
    /// The file's layout.
    #[prost(message, optional, tag = "1")]
    pub layout: Option<LayoutRecord>,
    /// `TASK_MAKE`, `TASK_ROLL_BACK` or `TASK_DROP`.
    #[prost(int32, tag = "2")]
    pub task: i32,
    /// The number of the checkpoint; 0 where it is that of the intent.
    #[prost(uint64, tag = "3")]
    pub checkpoint: u64,
    /// The size that a rollback gives the file.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// The checkpoint's name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// For a checkpoint of a tree: the root of the image; the intent's file is the directory.
    #[prost(uint64, tag = "6")]
    pub image: u64,
}

/// Make it.
pub(crate) const TASK_MAKE: i32 = 0;
/// Roll the file back to it.
pub(crate) const TASK_ROLL_BACK: i32 = 1;
/// Drop it.
pub(crate) const TASK_DROP: i32 = 2;

/// A pending delete.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteRecord {
    /// The servers that may have cells.
    #[prost(uint32, repeated, tag = "1")]
    pub servers: Vec<u32>,
}

/// A pending truncate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TruncateRecord {
    /// The file's layout.
    #[prost(message, optional, tag = "1")]
    pub layout: Option<LayoutRecord>,
    /// The new size.
    #[prost(uint64, tag = "2")]
    pub size: u64,
}

/// A server of the volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ServerRecord {
    /// `host:port`, as last reported.
    #[prost(string, tag = "1")]
    pub address: String,
    /// The id of its store; empty: not reported yet.
    #[prost(bytes = "vec", tag = "2")]
    pub store: Vec<u8>,
    /// The first id that was allocated after its store was made, if it had another store before;
    /// else 0.
    #[prost(uint64, tag = "3")]
    pub since: u64,
    /// The incarnation of its durable position, as reported some seconds ago; 0: none.
    #[prost(fixed64, tag = "4")]
    pub incarnation: u64,
    /// The last frame of that position.
    #[prost(uint64, tag = "5")]
    pub sequence: u64,
    /// The administrator accepts a store without this position, if it puts its data of files below
    /// this id in doubt; 0: only a store with the position is accepted.
    #[prost(uint64, tag = "6")]
    pub doubt: u64,
    /// Its replicas, ascending by number; empty: it has one store. The fields above are those of
    /// the primary.
    #[prost(message, repeated, tag = "7")]
    pub replicas: Vec<ReplicaRecord>,
    /// The numbers of the replicas that have every acknowledged change, ascending.
    #[prost(uint32, repeated, tag = "8")]
    pub in_sync: Vec<u32>,
    /// The number of the primary.
    #[prost(uint32, tag = "9")]
    pub primary: u32,
    /// Rises with every change of `in_sync`.
    #[prost(uint64, tag = "10")]
    pub term: u64,
    /// The least number for the next replica that joins.
    #[prost(uint32, tag = "11")]
    pub next_replica: u32,
    /// It joined after the volume was formatted.
    #[prost(bool, tag = "12")]
    pub joined: bool,
    /// It was removed, and no other server gets its id.
    #[prost(bool, tag = "13")]
    pub removed: bool,
    /// How many replicas are to stay; 0: as many as do.
    #[prost(uint32, tag = "14")]
    pub wanted: u32,
}

/// A replica of a server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReplicaRecord {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// `host:port`, as last reported.
    #[prost(string, tag = "2")]
    pub address: String,
    /// The id of its store; empty: not reported yet.
    #[prost(bytes = "vec", tag = "3")]
    pub store: Vec<u8>,
    /// The incarnation of its store, as last reported; 0: not reported yet.
    #[prost(fixed64, tag = "4")]
    pub incarnation: u64,
    /// It leaves once all that stay are in sync.
    #[prost(bool, tag = "5")]
    pub leaving: bool,
    /// Its failure domain; empty: none.
    #[prost(string, tag = "6")]
    pub domain: String,
    /// It was started again while its primary was away, and stays in sync until that is back.
    #[prost(bool, tag = "7")]
    pub restarted: bool,
}

/// The volume; written once.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VolumeRecord {
    /// `FORMAT`.
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub id: Vec<u8>,
    /// Name for humans.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Ascending numbers, and counts.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CountersRecord {
    /// The next file's id.
    #[prost(uint64, tag = "1")]
    pub next_id: u64,
    /// The next intent's number.
    #[prost(uint64, tag = "2")]
    pub next_intent: u64,
    /// Inodes, orphans included.
    #[prost(uint64, tag = "3")]
    pub files: u64,
    /// Pending intents.
    #[prost(uint64, tag = "4")]
    pub intents: u64,
    /// Epoch of the server map.
    #[prost(uint64, tag = "5")]
    pub epoch: u64,
}

/// Decodes bytes and encodes the value again; `None` where they are refused.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// The decoders of the records, for fuzzing. Fields of later versions are skipped, so the output
/// may be shorter than the input; decoding the output again gives the same bytes.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("LayoutRecord", again::<LayoutRecord>),
    ("DefaultLayoutRecord", again::<DefaultLayoutRecord>),
    ("InodeRecord", again::<InodeRecord>),
    ("CodingsRecord", again::<CodingsRecord>),
    ("CodingRecord", again::<CodingRecord>),
    ("ParityRecord", again::<ParityRecord>),
    ("FrozenRecord", again::<FrozenRecord>),
    ("TreeFileRecord", again::<TreeFileRecord>),
    ("HoldRecord", again::<HoldRecord>),
    ("QuotaRecord", again::<QuotaRecord>),
    ("InlineRecord", again::<InlineRecord>),
    ("AclRecord", again::<AclRecord>),
    ("EntryRecord", again::<EntryRecord>),
    ("XattrRecord", again::<XattrRecord>),
    ("OrphanRecord", again::<OrphanRecord>),
    ("IntentRecord", again::<IntentRecord>),
    ("CheckpointRecord", again::<CheckpointRecord>),
    ("CheckpointTaskRecord", again::<CheckpointTaskRecord>),
    ("DeleteRecord", again::<DeleteRecord>),
    ("TruncateRecord", again::<TruncateRecord>),
    ("ServerRecord", again::<ServerRecord>),
    ("ReplicaRecord", again::<ReplicaRecord>),
    ("VolumeRecord", again::<VolumeRecord>),
    ("CountersRecord", again::<CountersRecord>),
];

fn again<M: prost::Message + Default>(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(M::decode(bytes).ok()?.encode_to_vec())
}
