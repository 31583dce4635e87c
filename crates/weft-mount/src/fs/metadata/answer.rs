//! An answer of the service about a file.

use weft_client::Attributes;

use super::attr::Attr;

/// Attributes of a file, and how certain they are.
#[derive(Clone, Copy, Debug)]
pub(in crate::fs) struct Answer {
    /// The attributes, with what this mount has written and not sent.
    pub(in crate::fs) attr: Attr,
    /// They are true until an invalidation arrives.
    pub(in crate::fs) exact: bool,
    /// It has no extended attributes.
    pub(in crate::fs) bare: bool,
}

impl Answer {
    /// Attributes of a file that no other client writes.
    pub(in crate::fs) fn exact(attributes: &Attributes) -> Answer {
        Answer {
            attr: Attr::from(attributes),
            exact: true,
            bare: !attributes.xattrs,
        }
    }
}
