//! Extended attributes.

use bytes::Bytes;

use super::target::{Credentials, Target};

/// Read an extended attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetXattrRequest {
    /// The acting user.
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
    /// The acting user.
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
    /// Fail if it exists.
    #[prost(bool, tag = "5")]
    pub create: bool,
    /// Fail if it does not exist.
    #[prost(bool, tag = "6")]
    pub replace: bool,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct XattrDone {}

/// List extended attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListXattrRequest {
    /// The acting user.
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
    /// The acting user.
    #[prost(message, required, tag = "1")]
    pub who: Credentials,
    /// The file.
    #[prost(message, required, tag = "2")]
    pub target: Target,
    /// Full name.
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
}
