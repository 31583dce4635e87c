//! What can go wrong in the namespace, and the one mapping to the codes of the wire.

use thiserror::Error;
use weft_kv::KvError;
use weft_layout::LayoutError;
use weft_proto::Code;
use weft_proto::limits::{
    GROUPS_MAX, LINKS_MAX, NAME_MAX, PATH_MAX, XATTR_TOTAL_MAX, XATTR_VALUE_MAX,
};

use super::limits::HARD_LINKS_MAX;

/// Why an operation was refused or failed. Paths are shown escaped.
#[derive(Debug, Error)]
pub enum MetaError {
    /// Nothing has this name.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path, as the caller gave it.
        path: String,
    },
    /// No checkpoint of this file or directory has this name, or none that all servers have.
    #[error(
        "{path}: there is no such checkpoint: {name}; `weft checkpoint list` shows those there are"
    )]
    NoCheckpoint {
        /// The file or directory.
        path: String,
        /// The checkpoint's name.
        name: String,
    },
    /// A directory that has checkpoints was to be removed.
    #[error(
        "{path}: a directory that keeps checkpoints cannot be removed; `weft checkpoint list` shows them, `weft checkpoint delete` \
         deletes them (one that is being deleted goes when all servers have answered)"
    )]
    HasCheckpoints {
        /// Its path, or its name in the tree that is rolled back.
        path: String,
    },
    /// A tree was to be rolled back, and with it a file to bytes that lay with its metadata, but
    /// its cells have checkpoints.
    #[error(
        "{name} was small then, and its own checkpoints would go with the cells that it has now; `weft checkpoint delete` them, or \
         copy it from the checkpoint and remove it, first"
    )]
    HasOwnCheckpoints {
        /// Its name in the tree.
        name: String,
    },
    /// It is in a checkpoint.
    #[error("it belongs to a checkpoint and stays as it is")]
    ReadOnly {
        /// Its id.
        id: u64,
    },
    /// Another client changes names there ahead of the service: it has to give these directories
    /// back first.
    #[error(
        "directories {directories:?} are delegated to another client, which does not give them back; try again"
    )]
    Delegated {
        /// Their ids.
        directories: Vec<u64>,
    },
    /// The name is taken.
    #[error("{path}: the name exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// Something on the way, or the last component, is no directory.
    #[error("{path}: a directory is needed here, and this is none")]
    NotDirectory {
        /// The path.
        path: String,
    },
    /// A directory, where something else is needed.
    #[error("{path}: this is a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// A name with a slash at its end, of which there is no directory, where a file was to be made.
    #[error(
        "{path}: a name with a slash at its end is a directory's, and there is none: leave the slash out to make a file"
    )]
    FileWithSlash {
        /// The path.
        path: String,
    },
    /// The directory holds entries.
    #[error("{path}: the directory is not empty")]
    NotEmpty {
        /// The path.
        path: String,
    },
    /// The layout of a file that has data cannot be another.
    #[error("{path}: its layout cannot change: it holds data; empty it, or copy it to a new file")]
    LayoutHasData {
        /// The path.
        path: String,
    },
    /// The layout of a file that a client has open cannot change.
    #[error("{path}: its layout cannot change while it is open; close it everywhere")]
    LayoutInUse {
        /// The path.
        path: String,
    },
    /// The mode does not give the caller what it needs.
    #[error("{path}: user {uid} has no {need} permission")]
    Denied {
        /// The path.
        path: String,
        /// The caller.
        uid: u32,
        /// read, write or search.
        need: &'static str,
    },
    /// Only the owner, or only root, may do this.
    #[error("{path}: user {uid} may not {action}")]
    NotOwner {
        /// The path.
        path: String,
        /// The caller.
        uid: u32,
        /// What was tried.
        action: &'static str,
    },
    /// A hard link to a directory was asked for.
    #[error("{path}: a directory cannot have a second name")]
    LinkToDirectory {
        /// The path.
        path: String,
    },
    /// More symbolic links than one resolution follows, or one where none may be.
    #[error("{path}: more than {LINKS_MAX} symbolic links, or a link where none is followed")]
    Loop {
        /// The path.
        path: String,
    },
    /// A name is longer than a name can be.
    #[error("a name of {length} bytes is too long: {NAME_MAX} are possible")]
    NameTooLong {
        /// Its bytes.
        length: usize,
    },
    /// A path, or a link's text, is longer than a path can be.
    #[error("a path of {length} bytes is too long: {PATH_MAX} are possible")]
    PathTooLong {
        /// Its bytes.
        length: usize,
    },
    /// The file has as many names as it can have.
    #[error("{path}: the file has {HARD_LINKS_MAX} names already, and that is the most")]
    TooManyLinks {
        /// The path.
        path: String,
    },
    /// No such extended attribute.
    #[error("{path}: there is no extended attribute {name}")]
    NoAttribute {
        /// The path.
        path: String,
        /// The attribute.
        name: String,
    },
    /// The extended attribute is there and must not be.
    #[error("{path}: the extended attribute {name} exists already")]
    AttributeExists {
        /// The path.
        path: String,
        /// The attribute.
        name: String,
    },
    /// An extended attribute's value is too large.
    #[error("{path}: an extended attribute holds at most {XATTR_VALUE_MAX} bytes, not {length}")]
    AttributeTooLarge {
        /// The path.
        path: String,
        /// Bytes of the value.
        length: usize,
    },
    /// All extended attributes of a file together are too large.
    #[error("{path}: its extended attributes would be {length} of at most {XATTR_TOTAL_MAX} bytes")]
    AttributesFull {
        /// The path.
        path: String,
        /// Bytes they would have.
        length: u64,
    },
    /// The file was deleted, or its id was never given out.
    #[error("it does not exist any more: it was removed")]
    Stale {
        /// Its id.
        id: u64,
    },
    /// The bytes lie with the metadata, and the caller needs them in the cells: spill the file,
    /// then repeat.
    #[error("its bytes lie with its metadata and must go to its cells first; try again")]
    Inline {
        /// Its id.
        id: u64,
    },
    /// The bytes are in the cells, and the caller takes them for inline.
    #[error("its bytes are in its cells and are written there")]
    Spilled {
        /// Its id.
        id: u64,
    },
    /// A size past the largest offset.
    #[error("{path}: a file cannot have {size} bytes: at most 2^63 - 1")]
    TooLarge {
        /// The path.
        path: String,
        /// The size asked for.
        size: u64,
    },
    /// The request makes no sense.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A caller with more groups than the wire allows.
    #[error("{count} supplementary groups are too many: {GROUPS_MAX} are possible")]
    TooManyGroups {
        /// How many there were.
        count: usize,
    },
    /// The layout asked for is not legal.
    #[error("{path}: {source}")]
    Layout {
        /// The path.
        path: String,
        /// What is wrong with it.
        source: LayoutError,
    },
    /// A layout or a heartbeat names a server that the volume does not have.
    #[error("the volume has no server {server}; its servers were fixed when it was formatted")]
    UnknownServer {
        /// The id.
        server: u32,
    },
    /// The base asked for is not among the servers asked for.
    #[error("{path}: server {base} cannot be the base: it is not among the file's servers")]
    BaseNotAmong {
        /// The path.
        path: String,
        /// The base asked for.
        base: u32,
    },
    /// Not possible for this kind of file, or not yet.
    #[error("{path}: {reason}")]
    Unsupported {
        /// The path.
        path: String,
        /// What is not supported.
        reason: &'static str,
    },
    /// More would be used than a bound allows.
    #[error(
        "{payer} would use {wanted} {what}, and {bound} are allowed: remove something, or have `weft quota set` allow more"
    )]
    QuotaExceeded {
        /// The payer that has the bound.
        payer: String,
        /// bytes or files.
        what: &'static str,
        /// The bound.
        bound: u64,
        /// What would be used then.
        wanted: u128,
    },
    /// A directory, or a file with several names, does not leave its tree.
    #[error("{path}: it cannot go into a tree with another quota: copy it")]
    CrossDevice {
        /// The path.
        path: String,
    },
    /// The engine holds no volume.
    #[error("there is no volume here; format one first")]
    NotFormatted,
    /// The engine holds a volume already.
    #[error("there is a volume here already ({name}); it is not formatted again")]
    AlreadyFormatted {
        /// Its name.
        name: String,
    },
    /// The volume was written by another version.
    #[error(
        "the volume has namespace format {found}, this build knows {known}; use the matching build"
    )]
    FormatVersion {
        /// What was found.
        found: u32,
        /// What this build writes.
        known: u32,
    },
    /// The settings of a new volume are not legal.
    #[error("the volume cannot be formatted: {reason}")]
    Settings {
        /// What is wrong with them.
        reason: String,
    },
    /// No such intent, or one of another kind.
    #[error("intent {number} is not a {expected}")]
    WrongIntent {
        /// Its number.
        number: u64,
        /// What the caller took it for.
        expected: &'static str,
    },
    /// A stored record cannot be read, or one that must be there is missing.
    #[error("the namespace is damaged: {what} {id}: {reason}")]
    Corrupt {
        /// What kind of record.
        what: &'static str,
        /// Of which file or number.
        id: u64,
        /// What is wrong.
        reason: String,
    },
    /// Changes that the service acknowledged are gone.
    #[error(
        "changes of names that the service acknowledged are gone since it came back without them"
    )]
    Lost {
        /// When it came back without them, in nanoseconds since the epoch.
        began: i64,
    },
    /// The engine failed.
    #[error(transparent)]
    Kv(#[from] KvError),
}

impl MetaError {
    /// The code that crosses the wire.
    pub fn code(&self) -> Code {
        match self {
            MetaError::NotFound { .. } | MetaError::NoCheckpoint { .. } => Code::NotFound,
            MetaError::ReadOnly { .. } => Code::ReadOnly,
            MetaError::Exists { .. } | MetaError::AttributeExists { .. } => Code::Exists,
            MetaError::NotDirectory { .. } => Code::NotDirectory,
            MetaError::IsDirectory { .. } | MetaError::FileWithSlash { .. } => Code::IsDirectory,
            MetaError::NotEmpty { .. }
            | MetaError::HasCheckpoints { .. }
            | MetaError::HasOwnCheckpoints { .. }
            | MetaError::LayoutHasData { .. } => Code::NotEmpty,
            MetaError::Denied { .. } => Code::Permission,
            MetaError::NotOwner { .. } | MetaError::LinkToDirectory { .. } => Code::NotOwner,
            MetaError::Loop { .. } => Code::Loop,
            MetaError::NameTooLong { .. } | MetaError::PathTooLong { .. } => Code::NameTooLong,
            MetaError::TooManyLinks { .. } => Code::TooManyLinks,
            MetaError::NoAttribute { .. } => Code::NoAttribute,
            MetaError::AttributeTooLarge { .. } => Code::AttributeTooLarge,
            MetaError::AttributesFull { .. } | MetaError::Kv(KvError::NoSpace { .. }) => {
                Code::NoSpace
            }
            MetaError::Stale { .. } => Code::Stale,
            MetaError::QuotaExceeded { .. } => Code::QuotaExceeded,
            MetaError::CrossDevice { .. } => Code::CrossDevice,
            MetaError::Inline { .. }
            | MetaError::LayoutInUse { .. }
            | MetaError::Delegated { .. } => Code::Busy,
            MetaError::Spilled { .. } => Code::Spilled,
            MetaError::TooLarge { .. } => Code::TooLarge,
            MetaError::Invalid { .. }
            | MetaError::TooManyGroups { .. }
            | MetaError::Layout { .. }
            | MetaError::UnknownServer { .. }
            | MetaError::BaseNotAmong { .. }
            | MetaError::AlreadyFormatted { .. }
            | MetaError::Settings { .. }
            | MetaError::WrongIntent { .. } => Code::Invalid,
            MetaError::Unsupported { .. } => Code::Unsupported,
            MetaError::NotFormatted => Code::WrongVolume,
            MetaError::FormatVersion { .. } => Code::Version,
            MetaError::Corrupt { .. } => Code::Corrupt,
            MetaError::Lost { .. } => Code::Lost,
            MetaError::Kv(_) => Code::Io,
        }
    }
}

/// A path for a message, escaped: the reader's terminal must not interpret another user's bytes.
pub(crate) fn text(path: &[u8]) -> String {
    weft_proto::text::escape(path)
}
