//! From pieces in view order to ranges in disk order, a bounded batch at a time.
//!
//! A batch holds up to [`READ_BATCH_BYTES`](crate::limits::READ_BATCH_BYTES) of consecutive pieces
//! of the stream, and reads up to [`READ_SPAN_MAX`](crate::limits::READ_SPAN_MAX) for them. Its
//! pieces are sorted by place, and neighbours are read together, gaps of up to
//! [`READ_GAP_MAX`](crate::limits::READ_GAP_MAX) bytes included. Pieces at equal distances are one
//! entry, so a batch of many small ones costs what its blocks cost, and the copy of each piece into
//! the stream.

mod batch;
mod pack;
mod range;

pub(super) use batch::{ReadBatch, ReadBatches};
pub(super) use range::{CellRange, merge};
