//! What is fixed when a file is created: cells, BSU, chunk, servers, storage kind.
//!
//! A [`LayoutSpec`] is what a caller asks for, a [`Layout`] is a checked one. Only a checked layout
//! says where a cell lives, so nothing above this module checks again. A [`Grid`] is the three
//! numbers of a layout that the mapping needs.
//!
//! Invariants:
//! 1. A [`Layout`] is within every limit of this module and names each server once.
//! 2. `layout.grid()` describes the same cells, BSU and number of servers.

mod grid;

use crate::limits::{CHUNK_MAX, CHUNK_MIN};
use crate::{CellIndex, LayoutError, ServerId, ServerSlot};

pub use grid::Grid;

/// How the servers keep a file's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Chunks are found by their place in a cell's fork.
    #[default]
    Plain,
    /// Chunks are found by their hash, which the recipe of a cell's fork lists.
    Addressed,
}

/// The bit that a [`ChunkCode`] has in addition to a chunk size if the file is addressed.
pub const ADDRESSED_BIT: u32 = 1 << 31;

/// A chunk size, and how the chunks are kept, as servers get it with each write: the size in bytes,
/// plus [`ADDRESSED_BIT`] for an addressed file. A server that does not know addressed files
/// refuses such a size, and so never keeps one as a plain file.
pub type ChunkCode = u32;

/// A layout as a caller asks for it: not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutSpec {
    /// Number of cells, 1 to [`CELLS_MAX`].
    pub cells: u32,
    /// Size of a BSU in bytes, 1 to [`BSU_MAX`]; odd sizes are fine.
    pub bsu: u64,
    /// Size of a chunk in bytes, [`CHUNK_MIN`] to [`CHUNK_MAX`].
    pub chunk: u32,
    /// Servers, base first: 1 to [`SERVERS_MAX`], none twice. More than cells is legal; the servers
    /// beyond then hold no cell.
    pub servers: Vec<ServerId>,
    /// How the servers keep the chunks.
    pub storage: Storage,
}

/// A checked layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    spec: LayoutSpec,
    grid: Grid,
}

impl Layout {
    /// Checks a layout.
    ///
    /// Cost: O(servers · log servers), one allocation.
    /// # Errors
    /// The first cause found, in the order of [`LayoutError`]'s variants.
    pub fn new(spec: LayoutSpec) -> Result<Self, LayoutError> {
        // A list too long for the count is out of range in any case.
        let servers = u32::try_from(spec.servers.len()).unwrap_or(u32::MAX);
        let grid = Grid::new(spec.cells, spec.bsu, servers)?;
        if !(CHUNK_MIN..=CHUNK_MAX).contains(&spec.chunk) {
            return Err(LayoutError::Chunk { chunk: spec.chunk });
        }
        let mut sorted = spec.servers.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LayoutError::DuplicateServer { server: pair[0] });
        }
        Ok(Self { spec, grid })
    }

    /// Number of cells.
    pub fn cells(&self) -> u32 {
        self.spec.cells
    }

    /// Size of a BSU in bytes.
    pub fn bsu(&self) -> u64 {
        self.spec.bsu
    }

    /// Size of a chunk in bytes.
    pub fn chunk(&self) -> u32 {
        self.spec.chunk
    }

    /// The size of a chunk and how chunks are kept.
    pub fn chunk_code(&self) -> ChunkCode {
        chunk_code(self.spec.chunk, self.spec.storage)
    }

    /// The servers, base first; a [`ServerSlot`] is a position in this list.
    pub fn servers(&self) -> &[ServerId] {
        &self.spec.servers
    }

    /// The servers that have cells: the first of the list, as many as there are cells.
    pub fn servers_in_use(&self) -> &[ServerId] {
        let used = self.grid.slots_in_use().count();
        &self.spec.servers[..used]
    }

    /// How the servers keep the chunks.
    pub fn storage(&self) -> Storage {
        self.spec.storage
    }

    /// What the mapping needs of this layout.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The layout as it was asked for.
    pub fn spec(&self) -> &LayoutSpec {
        &self.spec
    }

    /// The server on which a cell lives.
    pub fn server_of(&self, cell: CellIndex) -> ServerId {
        let ServerSlot(slot) = self.grid.slot_of(cell);
        self.spec.servers[slot as usize]
    }
}

/// The code of a chunk size, in bytes, and of how chunks are kept.
pub fn chunk_code(chunk: u32, storage: Storage) -> ChunkCode {
    match storage {
        Storage::Plain => chunk,
        Storage::Addressed => chunk | ADDRESSED_BIT,
    }
}

/// What a code says: the chunk size, in bytes, and how chunks are kept.
pub fn of_chunk_code(code: ChunkCode) -> (u32, Storage) {
    let storage = if code & ADDRESSED_BIT == 0 {
        Storage::Plain
    } else {
        Storage::Addressed
    };
    (code & !ADDRESSED_BIT, storage)
}

impl From<Layout> for LayoutSpec {
    fn from(layout: Layout) -> Self {
        layout.spec
    }
}

impl TryFrom<LayoutSpec> for Layout {
    type Error = LayoutError;

    fn try_from(spec: LayoutSpec) -> Result<Self, LayoutError> {
        Self::new(spec)
    }
}
