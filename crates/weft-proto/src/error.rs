//! Errors as they cross the wire: a code, an errno, a retry class and a message for people.

/// The kinds of errors, a closed list: every interface maps each of them to its own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// A code of a newer peer, or a bug of Weft.
    Internal = 0,
    /// The request is invalid: bounds, views, names.
    Invalid = 1,
    /// The peer proved no key, or a wrong one.
    Unauthenticated = 2,
    /// The peers have no version, or no protection of frames, in common.
    Version = 3,
    /// Another volume than the client means.
    WrongVolume = 4,
    /// The caller's credentials do not allow it.
    Permission = 5,
    /// Not the owner.
    NotOwner = 6,
    /// No such file or directory.
    NotFound = 7,
    /// The name exists.
    Exists = 8,
    /// Not a directory.
    NotDirectory = 9,
    /// It is a directory.
    IsDirectory = 10,
    /// The directory is not empty.
    NotEmpty = 11,
    /// Too many symbolic links in a path.
    Loop = 12,
    /// A name or path is too long.
    NameTooLong = 13,
    /// Too many hard links.
    TooManyLinks = 14,
    /// No such extended attribute.
    NoAttribute = 15,
    /// An extended attribute is too large.
    AttributeTooLarge = 16,
    /// The file was deleted.
    Stale = 17,
    /// The disk is full.
    NoSpace = 18,
    /// Past the largest offset.
    TooLarge = 19,
    /// Disk or engine failed.
    Io = 20,
    /// Stored bytes do not match their checksum.
    Corrupt = 21,
    /// The server map the client knows is out of date.
    StaleMap = 22,
    /// The server is not ready for this yet.
    Busy = 23,
    /// The server is shutting down, or a server that it needs is unavailable.
    Unavailable = 24,
    /// Not supported for this kind of file.
    Unsupported = 25,
    /// The call was cancelled.
    Cancelled = 26,
    /// A rename or link across volumes, or of a directory into itself.
    CrossDevice = 27,
    /// The file is no longer inline: its bytes are in its cells.
    Spilled = 28,
    /// It belongs to a checkpoint, which is immutable.
    ReadOnly = 29,
    /// A quota does not allow it.
    QuotaExceeded = 30,
    /// Members of a group are missing or lost, and the request needs all of them.
    MembersMissing = 31,
    /// Acknowledged changes are lost: the server lost power, or its store was rolled back.
    Lost = 32,
    /// The server's store is older than it reported before, so it is not used.
    RolledBack = 33,
    /// Applications share the file, and one writes it: operations must have a claim. Or the file's
    /// policy may ask for order: a truncation must come from an attachment.
    Cautious = 34,
}

/// What a client may do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Retry {
    /// The same call will fail again.
    Never = 0,
    /// The same call may succeed later.
    Later = 1,
    /// Refresh the server map, then repeat.
    Refresh = 2,
    /// It may have happened: check before repeating.
    Unknown = 3,
}

/// The body of a failed reply.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Failure {
    /// What went wrong.
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    /// The closest errno of Linux.
    #[prost(int32, tag = "2")]
    pub errno: i32,
    /// The retry class.
    #[prost(enumeration = "Retry", tag = "3")]
    pub retry: i32,
    /// What happened, to what, and what the user can do.
    #[prost(string, tag = "4")]
    pub message: String,
}

impl Code {
    /// Every code, in ascending order of number.
    pub const ALL: [Code; 35] = [
        Code::Internal,
        Code::Invalid,
        Code::Unauthenticated,
        Code::Version,
        Code::WrongVolume,
        Code::Permission,
        Code::NotOwner,
        Code::NotFound,
        Code::Exists,
        Code::NotDirectory,
        Code::IsDirectory,
        Code::NotEmpty,
        Code::Loop,
        Code::NameTooLong,
        Code::TooManyLinks,
        Code::NoAttribute,
        Code::AttributeTooLarge,
        Code::Stale,
        Code::NoSpace,
        Code::TooLarge,
        Code::Io,
        Code::Corrupt,
        Code::StaleMap,
        Code::Busy,
        Code::Unavailable,
        Code::Unsupported,
        Code::Cancelled,
        Code::CrossDevice,
        Code::Spilled,
        Code::ReadOnly,
        Code::QuotaExceeded,
        Code::MembersMissing,
        Code::Lost,
        Code::RolledBack,
        Code::Cautious,
    ];

    /// The closest errno of Linux.
    pub fn errno(self) -> i32 {
        match self {
            Code::Invalid => 22,
            Code::Unauthenticated | Code::Permission => 13,
            Code::Version => 71,
            Code::WrongVolume | Code::CrossDevice => 18,
            Code::NotOwner => 1,
            Code::NotFound => 2,
            Code::Exists => 17,
            Code::NotDirectory => 20,
            Code::IsDirectory => 21,
            Code::NotEmpty => 39,
            Code::Loop => 40,
            Code::NameTooLong => 36,
            Code::TooManyLinks => 31,
            Code::NoAttribute => 61,
            Code::AttributeTooLarge => 7,
            Code::Stale | Code::StaleMap => 116,
            Code::NoSpace => 28,
            Code::TooLarge => 27,
            Code::Io | Code::Corrupt | Code::Internal | Code::Lost | Code::RolledBack => 5,
            Code::Busy | Code::Spilled | Code::Cautious => 11,
            Code::Unavailable => 112,
            Code::Unsupported => 95,
            Code::Cancelled => 125,
            Code::ReadOnly => 30,
            Code::QuotaExceeded => 122,
            Code::MembersMissing => 110,
        }
    }

    /// What a client may do about it.
    pub fn retry(self) -> Retry {
        match self {
            Code::Busy | Code::Unavailable => Retry::Later,
            Code::StaleMap => Retry::Refresh,
            Code::Cancelled | Code::MembersMissing => Retry::Unknown,
            _ => Retry::Never,
        }
    }
}

impl Failure {
    /// A failure with the errno and retry class of its code.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure {
            code: code as i32,
            errno: code.errno(),
            retry: code.retry() as i32,
            message: message.into(),
        }
    }
}
