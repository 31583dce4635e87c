//! The attributes of a file on either side of a copy.

use weft_client::{Attributes, FileKind};
use weft_proto::meta::Layout;

use crate::remote;

/// The attributes of a file that a copy needs. Times are nanoseconds since the epoch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: FileKind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) accessed: i64,
    pub(super) modified: i64,
    pub(super) size: u64,
    /// Equal for two names of one file.
    pub(super) identity: (u64, u64),
    pub(super) links: u64,
    pub(super) device: u64,
    pub(super) layout: Option<Layout>,
}

/// An entry of a directory.
pub(crate) struct DirEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) node: Node,
}

/// An extended attribute.
pub(super) struct Xattr {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl From<Attributes> for Node {
    fn from(a: Attributes) -> Node {
        Node {
            kind: remote::kind(&a),
            mode: a.mode,
            uid: a.uid,
            gid: a.gid,
            accessed: a.accessed,
            modified: a.modified,
            size: a.size,
            identity: (0, a.id),
            links: a.links.into(),
            device: a.device,
            layout: a.layout,
        }
    }
}

impl Node {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}
