//! Operations on segments, which are runs of bytes that no operation touches in part.

use crate::history::OpenId;

/// What a segment consists of: a hash of its bytes, or zeros.
pub(crate) type Value = u64;
/// The value of zeros.
pub(crate) const ZEROS: Value = 0;

/// A part of an operation: one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) segment: u32,
    pub(crate) value: Value,
}

/// A read or a change.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) open: OpenId,
    pub(crate) begin: i64,
    /// `None`: it may have happened or not, or may happen yet. A delayed change ends when it has
    /// left its client.
    pub(crate) end: Option<i64>,
    /// When it was answered.
    pub(crate) answered: Option<i64>,
    pub(crate) changes: bool,
    /// It is atomic, and in one order with others that are.
    pub(crate) in_order: bool,
    /// Ascending; of what was changed twice by one operation the last.
    pub(crate) parts: Vec<Part>,
}

/// Where a segment lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) cell: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What was done with one file.
pub(crate) struct FileOps {
    pub(crate) path: String,
    /// Its bytes were zeros at first.
    pub(crate) created: bool,
    pub(crate) segments: Vec<Segment>,
    /// By their begin.
    pub(crate) ops: Vec<Op>,
}
