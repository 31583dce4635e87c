//! What is wrong with a layout, or with a request that a map was asked for.

use thiserror::Error;

use crate::limits::{BSU_MAX, CELLS_MAX, CHUNK_MAX, CHUNK_MIN, SERVERS_MAX};
use crate::{CellIndex, OFFSET_MAX, ServerId, ServerSlot};

/// Why a layout, or a grid, is not legal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number of cells is out of range.
    #[error("a file cannot have {cells} cells: choose 1 to {CELLS_MAX}")]
    Cells {
        /// The number asked for.
        cells: u32,
    },
    /// The BSU is out of range.
    #[error("the BSU cannot be {bsu} bytes: choose 1 to {BSU_MAX}")]
    Bsu {
        /// The size asked for.
        bsu: u64,
    },
    /// The number of servers is out of range.
    #[error("a file cannot live on {servers} servers: choose 1 to {SERVERS_MAX}")]
    Servers {
        /// The number asked for.
        servers: u32,
    },
    /// The chunk is out of range.
    #[error("a chunk cannot be {chunk} bytes: choose {CHUNK_MIN} to {CHUNK_MAX}")]
    Chunk {
        /// The size asked for.
        chunk: u32,
    },
    /// A server is named more than once.
    #[error("server {server} is named more than once: a file names each of its servers once")]
    DuplicateServer {
        /// The server, the smallest of those named twice.
        server: ServerId,
    },
}

/// Why a place cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Bytes are past the largest offset: in the view itself, or in the cell or the file that the
    /// view maps them to.
    #[error(
        "{length} bytes from offset {offset} on reach past {OFFSET_MAX}, in the view or where it maps them to"
    )]
    PastLimit {
        /// The first byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
    },
    /// The file has no such cell.
    #[error("there is no cell {cell}: the file has {cells}, numbered from 0")]
    NoSuchCell {
        /// The cell asked for.
        cell: CellIndex,
        /// Number of cells.
        cells: u32,
    },
    /// The layout has no such slot.
    #[error("there is no server slot {slot}: the layout has {servers}, numbered from 0")]
    NoSuchSlot {
        /// The slot asked for.
        slot: ServerSlot,
        /// Number of servers.
        servers: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{ArrayError, Slab};
    use crate::{PatternError, ViewError};

    /// Asserts that a message is one line in lower case without a full stop and names these values.
    fn check(message: &str, values: &[&dyn std::fmt::Display]) {
        assert!(
            !message.starts_with(char::is_uppercase) && !message.ends_with('.'),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        for value in values {
            assert!(message.contains(&value.to_string()), "{message}: {value}");
        }
    }

    #[test]
    fn messages_of_layouts_and_places_name_the_refused_values() {
        let server = ServerId(7);
        for error in [
            LayoutError::Cells { cells: 70_001 },
            LayoutError::Bsu { bsu: 0 },
            LayoutError::Servers { servers: 5001 },
            LayoutError::Chunk { chunk: 17 },
            LayoutError::DuplicateServer { server },
        ] {
            let message = error.to_string();
            match &error {
                LayoutError::Cells { cells } => check(&message, &[cells]),
                LayoutError::Bsu { bsu } => check(&message, &[bsu]),
                LayoutError::Servers { servers } => check(&message, &[servers]),
                LayoutError::Chunk { chunk } => check(&message, &[chunk]),
                LayoutError::DuplicateServer { server } => check(&message, &[server]),
            }
        }
        let (cell, slot) = (CellIndex(12), ServerSlot(13));
        for error in [
            MapError::PastLimit {
                offset: 21,
                length: 22,
            },
            MapError::NoSuchCell { cell, cells: 5 },
            MapError::NoSuchSlot { slot, servers: 6 },
        ] {
            let message = error.to_string();
            match &error {
                MapError::PastLimit { offset, length } => check(&message, &[offset, length]),
                MapError::NoSuchCell { cell, cells } => check(&message, &[cell, cells]),
                MapError::NoSuchSlot { slot, servers } => check(&message, &[slot, servers]),
            }
        }
    }

    #[test]
    fn messages_of_views_name_the_refused_values() {
        let (cell, parameter) = (CellIndex(12), "vbs");
        for error in [
            ViewError::Zero { parameter },
            ViewError::Index {
                index: 21,
                hn: 22,
                vn: 23,
            },
            ViewError::TooWide { hbs: 31, hn: 32 },
            ViewError::TooLong {
                vbs: 41,
                vn: 42,
                bsu: 43,
            },
            ViewError::TooLarge {
                width: 51,
                vbs: 52,
                bsu: 53,
            },
            ViewError::GroupPastStride {
                group: 61,
                stride: 62,
            },
            ViewError::PastLimit {
                parameter,
                value: 71,
            },
            ViewError::NoSuchCell { cell, cells: 5 },
        ] {
            let message = error.to_string();
            match &error {
                ViewError::Zero { parameter } => check(&message, &[parameter]),
                ViewError::Index { index, hn, vn } => check(&message, &[index, hn, vn]),
                ViewError::TooWide { hbs, hn } => check(&message, &[hbs, hn]),
                ViewError::TooLong { vbs, vn, bsu } => check(&message, &[vbs, vn, bsu]),
                ViewError::TooLarge { width, vbs, bsu } => check(&message, &[width, vbs, bsu]),
                ViewError::GroupPastStride { group, stride } => check(&message, &[group, stride]),
                ViewError::PastLimit { parameter, value } => check(&message, &[parameter, value]),
                ViewError::NoSuchCell { cell, cells } => check(&message, &[cell, cells]),
            }
        }
    }

    #[test]
    fn messages_of_patterns_and_arrays_name_the_refused_values() {
        for error in [
            PatternError::TooDeep,
            PatternError::TooManyNodes,
            PatternError::TooLong,
            PatternError::OutOfRange {
                first: -21,
                end: 22,
            },
            PatternError::Overlap { at: 31 },
            PatternError::TooIrregular { runs: 41, most: 42 },
            PatternError::Incomplete,
            PatternError::Unequal {
                memory: 51,
                request: 52,
            },
        ] {
            let message = error.to_string();
            match &error {
                PatternError::TooDeep
                | PatternError::TooManyNodes
                | PatternError::TooLong
                | PatternError::Incomplete => check(&message, &[]),
                PatternError::OutOfRange { first, end } => check(&message, &[first, end]),
                PatternError::Overlap { at } => check(&message, &[at]),
                PatternError::TooIrregular { runs, most } => check(&message, &[runs, most]),
                PatternError::Unequal { memory, request } => check(&message, &[memory, request]),
            }
        }
        let slab = Slab::from(3).times(9);
        for error in [
            ArrayError::Text {
                text: "f80".to_owned(),
            },
            ArrayError::Shape {
                shape: vec![17, 18],
            },
            ArrayError::Dimensions {
                array: 21,
                slabs: 22,
            },
            ArrayError::Slab {
                dimension: 31,
                size: 4,
                slab,
            },
        ] {
            let message = error.to_string();
            match &error {
                ArrayError::Text { text } => check(&message, &[text]),
                ArrayError::Shape { shape } => check(&message, &[&shape[0], &shape[1]]),
                ArrayError::Dimensions { array, slabs } => check(&message, &[array, slabs]),
                ArrayError::Slab {
                    dimension,
                    size,
                    slab,
                } => check(&message, &[dimension, size, slab]),
            }
        }
    }
}
