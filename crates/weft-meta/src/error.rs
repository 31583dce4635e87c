//! Errors of the namespace, and their mapping to the codes of the wire.

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
        "{path}: there is no checkpoint {name}; `weft checkpoint list` shows the existing ones"
    )]
    NoCheckpoint {
        /// The file or directory.
        path: String,
        /// The checkpoint's name.
        name: String,
    },
    /// A directory that has checkpoints cannot be removed.
    #[error(
        "{path}: a directory that has checkpoints cannot be removed; `weft checkpoint list` shows them, `weft checkpoint delete` \
         deletes them (one that is being deleted ends when all servers have answered)"
    )]
    HasCheckpoints {
        /// Its path, or its name in the tree that is rolled back.
        path: String,
    },
    /// A rollback of a tree would make a file inline again, but its cells have checkpoints.
    #[error(
        "{name} was stored with its metadata then, and its own checkpoints would be lost with its present cells; first delete them \
         (`weft checkpoint delete`), or copy the file from the checkpoint and remove it"
    )]
    HasOwnCheckpoints {
        /// Its name in the tree.
        name: String,
    },
    /// It belongs to a checkpoint.
    #[error("file {id} belongs to a checkpoint and cannot change")]
    ReadOnly {
        /// Its id.
        id: u64,
    },
    /// These directories are delegated to another client, which must return them first.
    #[error(
        "directories {directories:?} are delegated to another client, which does not return them; try again"
    )]
    Delegated {
        /// Their ids.
        directories: Vec<u64>,
    },
    /// Other clients have the file open for writing and must first send what was written.
    #[error("other clients have not sent what was written to file {id}; try again")]
    Unsent {
        /// Its id.
        id: u64,
    },
    /// The file's policy may ask for order: only an attachment may truncate it.
    #[error(
        "{path} has the policy {policy}, under which a truncation needs an attachment for writing"
    )]
    NeedsAttachment {
        /// The path.
        path: String,
        /// The policy's name.
        policy: String,
    },
    /// The name is taken.
    #[error("{path}: the name exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// A component on the way, or the last one, is no directory.
    #[error("{path}: not a directory")]
    NotDirectory {
        /// The path.
        path: String,
    },
    /// A directory, where another file is needed.
    #[error("{path}: is a directory")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// A file cannot be created under a name that ends with a slash.
    #[error(
        "{path}: a name that ends with a slash needs a directory, and there is none; omit the slash to create a file"
    )]
    FileWithSlash {
        /// The path.
        path: String,
    },
    /// The directory has entries.
    #[error("{path}: the directory is not empty")]
    NotEmpty {
        /// The path.
        path: String,
    },
    /// The layout of a file that has data cannot change.
    #[error("{path}: its layout cannot change: it has data; empty it, or copy it to a new file")]
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
    /// The caller lacks a permission.
    #[error("{path}: user {uid} has no {need} permission")]
    Denied {
        /// The path.
        path: String,
        /// The caller.
        uid: u32,
        /// The permission: read, write or search.
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
    /// A name is too long.
    #[error("a name of {length} bytes is too long: the maximum is {NAME_MAX}")]
    NameTooLong {
        /// Its bytes.
        length: usize,
    },
    /// A path, or a link's text, is too long.
    #[error("a path of {length} bytes is too long: the maximum is {PATH_MAX}")]
    PathTooLong {
        /// Its bytes.
        length: usize,
    },
    /// The file has the most names that it can have.
    #[error("{path}: the file has {HARD_LINKS_MAX} names already, the most possible")]
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
    /// The extended attribute exists, and the caller wants to create it.
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
    /// The extended attributes of a file are too large together.
    #[error(
        "{path}: its extended attributes would have {length} of at most {XATTR_TOTAL_MAX} bytes"
    )]
    AttributesFull {
        /// The path.
        path: String,
        /// The bytes that they would have.
        length: u64,
    },
    /// The file was deleted, or its id was never allocated.
    #[error("file {id} no longer exists: it was removed")]
    Stale {
        /// Its id.
        id: u64,
    },
    /// The file is inline, and the caller needs its bytes in the cells: spill the file, then
    /// repeat.
    #[error(
        "the bytes of file {id} are stored with its metadata and must be moved to its cells first; try again"
    )]
    Inline {
        /// Its id.
        id: u64,
    },
    /// The bytes are in the cells, and the caller assumes them inline.
    #[error("the bytes of file {id} are in its cells and must be written there")]
    Spilled {
        /// Its id.
        id: u64,
    },
    /// A size beyond the largest offset.
    #[error("{path}: a file cannot have {size} bytes: at most 2^63 - 1")]
    TooLarge {
        /// The path.
        path: String,
        /// The size asked for.
        size: u64,
    },
    /// The request is invalid.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A caller with more groups than the wire allows.
    #[error("{count} supplementary groups are too many: the maximum is {GROUPS_MAX}")]
    TooManyGroups {
        /// Their number.
        count: usize,
    },
    /// The requested layout is not legal.
    #[error("{path}: {source}")]
    Layout {
        /// The path.
        path: String,
        /// What is wrong with it.
        source: LayoutError,
    },
    /// A layout or a heartbeat names a server that the volume does not have.
    #[error("the volume has no server {server}: `weft server list` shows its servers")]
    UnknownServer {
        /// The id.
        server: u32,
    },
    /// The requested base is not among the requested servers.
    #[error("{path}: server {base} cannot be the base: it is not among the file's servers")]
    BaseNotAmong {
        /// The path.
        path: String,
        /// The requested base.
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
    /// The usage would exceed a bound.
    #[error(
        "{payer} would use {wanted} {what}, and {bound} are allowed; remove files, or raise the bound with `weft quota set`"
    )]
    QuotaExceeded {
        /// The payer that has the bound.
        payer: String,
        /// bytes or files.
        what: &'static str,
        /// The bound.
        bound: u64,
        /// The usage that was refused.
        wanted: u128,
    },
    /// A directory, or a file with several names, cannot leave its tree.
    #[error("{path}: it cannot move to a tree with another quota; copy it")]
    CrossDevice {
        /// The path.
        path: String,
    },
    /// The engine has no volume.
    #[error("there is no volume here; format one first")]
    NotFormatted,
    /// The engine has a volume already.
    #[error("there is a volume here already ({name}); it is not formatted again")]
    AlreadyFormatted {
        /// Its name.
        name: String,
    },
    /// The volume was written by another version.
    #[error(
        "the volume has namespace format {found}, this build supports {known}; use the matching build"
    )]
    FormatVersion {
        /// The volume's format.
        found: u32,
        /// The format of this build.
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
        /// The kind that the caller expects.
        expected: &'static str,
    },
    /// A stored record is unreadable, or a necessary one is missing.
    #[error("the namespace is damaged: {what} {id}: {reason}")]
    Corrupt {
        /// The kind of record.
        what: &'static str,
        /// Its file or number.
        id: u64,
        /// What is wrong.
        reason: String,
    },
    /// Changes that the service acknowledged are lost.
    #[error("acknowledged changes of names were lost when it restarted")]
    Lost {
        /// When it restarted without them, in nanoseconds since the epoch.
        began: i64,
    },
    /// The engine failed.
    #[error(transparent)]
    Kv(#[from] KvError),
}

impl MetaError {
    /// The code on the wire.
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
            | MetaError::Unsent { .. }
            | MetaError::Delegated { .. } => Code::Busy,
            MetaError::Spilled { .. } => Code::Spilled,
            MetaError::TooLarge { .. } => Code::TooLarge,
            MetaError::NeedsAttachment { .. } => Code::Cautious,
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

/// Escapes a path for a message: a terminal must not interpret another user's bytes.
pub(crate) fn text(path: &[u8]) -> String {
    weft_proto::text::escape(path)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
