//! The arguments and results of a store's calls: forks, times, writes, statuses.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use weft_layout::{CellIndex, CellOffset, ChunkCode, FileId};

pub use weft_sum::ChunkName;

/// The smallest chunk size of a fork, in bytes.
pub const CHUNK_MIN: u32 = 4096;
/// The largest chunk size of a fork, in bytes.
pub const CHUNK_MAX: u32 = 16 << 20;

/// The name of a fork: 1 to 255 bytes of UTF-8 without NUL and `/`. Clones share the bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForkName(Arc<str>);

/// Why a fork name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ForkNameError {
    /// The name is empty or too long.
    #[error("a fork's name has 1 to 255 bytes, not {length}")]
    Length {
        /// Bytes of the refused name.
        length: usize,
    },
    /// The name holds a NUL or a slash.
    #[error("a fork's name cannot contain NUL or '/', as byte {at} does")]
    Character {
        /// Position of the first such byte.
        at: usize,
    },
}

impl ForkName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`ForkNameError`] when the name is empty, longer than 255 bytes or holds NUL or `/`.
    pub fn new(name: &str) -> Result<Self, ForkNameError> {
        if name.is_empty() || name.len() > 255 {
            return Err(ForkNameError::Length { length: name.len() });
        }
        match name.bytes().position(|b| b == 0 || b == b'/') {
            Some(at) => Err(ForkNameError::Character { at }),
            None => Ok(Self(Arc::from(name))),
        }
    }

    /// `data`, the fork that plain reads and writes use.
    pub fn data() -> Self {
        Self(Arc::from("data"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ForkName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ForkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One fork of one cell of one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForkKey {
    /// The file.
    pub file: FileId,
    /// The cell in the file.
    pub cell: CellIndex,
    /// The fork in the cell.
    pub fork: ForkName,
}

/// The bit in a cell's number that recipes have. No layout has so many cells.
const RECIPE_BIT: u32 = 1 << 31;

impl ForkKey {
    /// The fork that holds the recipe of this one, if it is addressed.
    pub(crate) fn recipe(&self) -> ForkKey {
        ForkKey {
            cell: CellIndex(self.cell.0 | RECIPE_BIT),
            ..self.clone()
        }
    }

    /// The addressed fork of which this is the recipe; `None` for all other forks.
    pub fn of_recipe(&self) -> Option<ForkKey> {
        self.is_recipe().then(|| ForkKey {
            cell: cell_of_recipe(self.cell),
            ..self.clone()
        })
    }

    /// Whether this is a recipe, which callers do not see as a fork.
    pub(crate) fn is_recipe(&self) -> bool {
        self.cell.0 & RECIPE_BIT != 0
    }
}

/// The cell whose recipes have this number.
pub(crate) fn cell_of_recipe(cell: CellIndex) -> CellIndex {
    CellIndex(cell.0 & !RECIPE_BIT)
}

impl fmt::Display for ForkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, cell) = match self.of_recipe() {
            None => ("", self.cell),
            Some(of) => ("recipe of ", of.cell),
        };
        let (file, fork) = (self.file, &self.fork);
        write!(f, "{what}file {file} cell {cell} fork {fork}")
    }
}

/// Wall-clock time in nanoseconds since 1970; it overflows in the year 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// The attributes of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkStatus {
    /// One past the last byte.
    pub length: u64,
    /// When it was last written or truncated.
    pub modified: Timestamp,
    /// Bytes of its blocks, including dirty ones in memory. Of an addressed fork: of its chunks,
    /// each counted as whole, and holes up to some hundred chunks long counted with them.
    pub stored: u64,
    /// The chunk size, fixed by its creation or first write; 0 before that.
    pub chunk: ChunkCode,
}

/// A contiguous write to a fork.
#[derive(Clone, Debug)]
pub struct Write {
    /// The fork.
    pub key: ForkKey,
    /// The file's chunk size, [`CHUNK_MIN`]`..=`[`CHUNK_MAX`], not necessarily a multiple of the
    /// block; with [`weft_layout::ADDRESSED_BIT`] if the fork is addressed. The first write of a
    /// fork fixes it; later ones must agree.
    pub chunk: ChunkCode,
    /// The first byte's offset in the fork.
    pub offset: CellOffset,
    /// The bytes.
    pub data: Bytes,
}

/// Pieces of equal length at equal distances. Their bytes are contiguous in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first piece's offset in the fork.
    pub offset: CellOffset,
    /// The offset of its bytes in the data.
    pub at: usize,
    /// Bytes of each piece, at least 1.
    pub length: u64,
    /// Pieces, at least 1.
    pub count: u64,
    /// Distance from one piece to the next in the fork, at least 1; ignored for one piece.
    pub stride: u64,
}

/// A write of many pieces to one fork.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// The fork.
    pub key: ForkKey,
    /// As [`Write::chunk`].
    pub chunk: ChunkCode,
    /// Which bytes go where. Where pieces overlap, the later one wins.
    pub runs: Vec<Run>,
    /// The bytes.
    pub data: Bytes,
}

impl From<Write> for Scattered {
    fn from(write: Write) -> Scattered {
        let run = Run::one(write.offset.0, 0, write.data.len() as u64);
        Scattered {
            key: write.key,
            chunk: write.chunk,
            runs: if run.count > 0 { vec![run] } else { Vec::new() },
            data: write.data,
        }
    }
}

/// Space of a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What the store could hold: `used + available`, plus blocks that wait to be freed.
    pub capacity: u64,
    /// Blocks of forks, and blocks promised to dirty pages.
    pub used: u64,
    /// What writes can take now.
    pub available: u64,
}

/// The file whose forks are the addressed chunks. No namespace assigns this id, and calls that name
/// it are refused.
pub const ADDRESSED: FileId = FileId(u64::MAX);

/// The file whose forks are the shared offset pointers; reserved like [`ADDRESSED`].
pub const ORDER_STATE: FileId = FileId(u64::MAX - 1);

/// Where a chunk is stored: the fork that has its name.
pub(crate) fn chunk_key(name: &ChunkName) -> ForkKey {
    let fork = ForkName::new(&name.to_string()).expect("64 hexadecimal digits are a name");
    ForkKey {
        file: ADDRESSED,
        cell: CellIndex(0),
        fork,
    }
}

/// The chunk that a fork of [`ADDRESSED`] is.
pub(crate) fn name_of_chunk(fork: &ForkName) -> Option<ChunkName> {
    ChunkName::from_hex(fork.as_str())
}
