//! The grid: what the mapping needs to know of a layout, and the canonical order over it.
//!
//! A [`Grid`] is three numbers, so it travels with each request and an I/O server needs nothing
//! else to find its own pieces (invariant: no shared metadata on the way to the data).
//!
//! The canonical order numbers BSUs round-robin over the cells. Offsets, lengths and sizes go up to
//! [`OFFSET_MAX`]; a byte's offset is below it.

use crate::limits::{BSU_MAX, CELLS_MAX, SERVERS_MAX};
use crate::{CellIndex, CellOffset, FileOffset, LayoutError, MapError, OFFSET_MAX, ServerSlot};

/// Cells, BSU and number of servers of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    cells: u32,
    bsu: u64,
    servers: u32,
}

impl Grid {
    /// Checks the three numbers.
    ///
    /// # Errors
    /// [`LayoutError::Cells`], [`LayoutError::Bsu`], [`LayoutError::Servers`], in this order.
    pub fn new(cells: u32, bsu: u64, servers: u32) -> Result<Self, LayoutError> {
        if !(1..=CELLS_MAX).contains(&cells) {
            return Err(LayoutError::Cells { cells });
        }
        if !(1..=BSU_MAX).contains(&bsu) {
            return Err(LayoutError::Bsu { bsu });
        }
        if !(1..=SERVERS_MAX).contains(&(servers as usize)) {
            return Err(LayoutError::Servers { servers });
        }
        Ok(Self {
            cells,
            bsu,
            servers,
        })
    }

    /// Number of cells.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Size of a BSU in bytes.
    pub fn bsu(&self) -> u64 {
        self.bsu
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// The slot on which a cell lives.
    pub fn slot_of(&self, cell: CellIndex) -> ServerSlot {
        ServerSlot(cell.0 % self.servers)
    }

    /// The slots that have cells: the first of the list, as many as there are cells.
    pub fn slots_in_use(&self) -> impl Iterator<Item = ServerSlot> + use<> {
        (0..self.servers.min(self.cells)).map(ServerSlot)
    }

    /// The cells that live on a slot, ascending; none for a slot that the grid does not have.
    pub fn cells_on(&self, slot: ServerSlot) -> impl Iterator<Item = CellIndex> + use<> {
        let end = if slot.0 < self.servers { self.cells } else { 0 };
        (slot.0..end).step_by(self.servers as usize).map(CellIndex)
    }

    /// Where a byte of the canonical order lives.
    ///
    /// # Errors
    /// [`MapError::PastLimit`] when the offset is not below [`OFFSET_MAX`].
    pub fn locate(&self, offset: FileOffset) -> Result<(CellIndex, CellOffset), MapError> {
        let FileOffset(x) = offset;
        if x >= OFFSET_MAX {
            return Err(MapError::PastLimit {
                offset: x,
                length: 1,
            });
        }
        let block = x / self.bsu;
        let cells = u64::from(self.cells);
        let cell = CellIndex((block % cells) as u32);
        Ok((cell, CellOffset(block / cells * self.bsu + x % self.bsu)))
    }

    /// Where a cell's byte is in the canonical order: the inverse of [`Grid::locate`].
    ///
    /// # Errors
    /// [`MapError::NoSuchCell`], or [`MapError::PastLimit`] when the place in the cell or in the
    /// canonical order is not below [`OFFSET_MAX`].
    pub fn canonical(&self, cell: CellIndex, offset: CellOffset) -> Result<FileOffset, MapError> {
        if cell.0 >= self.cells {
            return Err(MapError::NoSuchCell {
                cell,
                cells: self.cells,
            });
        }
        match u64::try_from(self.place(cell, offset.0)) {
            Ok(place) if place < OFFSET_MAX => Ok(FileOffset(place)),
            _ => Err(MapError::PastLimit {
                offset: offset.0,
                length: 1,
            }),
        }
    }

    /// The length of a cell when the file has this canonical size and no cell is longer: what
    /// truncating the file to `size` leaves of the cell. 0 for a cell that the grid does not have.
    ///
    /// # Source
    /// Property `truncating_to_a_size_leaves_that_size`.
    pub fn cell_length(&self, size: u64, cell: CellIndex) -> u64 {
        if cell.0 >= self.cells {
            return 0;
        }
        let band = u64::from(self.cells) * self.bsu;
        let before = u64::from(cell.0) * self.bsu;
        size / band * self.bsu + (size % band).saturating_sub(before).min(self.bsu)
    }

    /// The canonical size that a cell of this length implies: one past its last byte, at most
    /// [`OFFSET_MAX`]. The file's size is the largest over its cells. 0 for an empty cell and for
    /// one that the grid does not have.
    pub fn file_size(&self, cell: CellIndex, length: u64) -> u64 {
        if cell.0 >= self.cells || length == 0 {
            return 0;
        }
        let end = self.place(cell, length - 1) + 1;
        u64::try_from(end).map_or(OFFSET_MAX, |end| end.min(OFFSET_MAX))
    }

    /// The same cells and BSU with all cells on one server.
    pub(crate) fn on_one_server(self) -> Self {
        Self { servers: 1, ..self }
    }

    /// Canonical place of a cell's byte, however far out.
    pub(crate) fn place(&self, cell: CellIndex, offset: u64) -> u128 {
        let row = u128::from(offset / self.bsu);
        let block = row * u128::from(self.cells) + u128::from(cell.0);
        block * u128::from(self.bsu) + u128::from(offset % self.bsu)
    }
}
