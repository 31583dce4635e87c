//! Which parts are in a row, and where its parity lies.

use super::shape::Shape;

/// A part of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// The slot.
    pub slot: u32,
    /// The number of the part there.
    pub part: u64,
}

/// A piece of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Piece {
    /// A part of the file; one that its slot does not have is zeros.
    Data(Item),
    /// Parity, on a slot.
    Parity {
        /// The slot.
        slot: u32,
    },
}

impl Piece {
    /// The slot that it lies on.
    pub fn slot(self) -> u32 {
        match self {
            Self::Data(item) => item.slot,
            Self::Parity { slot } => slot,
        }
    }
}

/// The rows of a file: item t = j n + s is part j of slot s, of n slots; row r has the k items from
/// r k on, and its parity on some of the other slots.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    shape: Shape,
    slots: u32,
}

impl Rows {
    /// The rows of a file on so many slots; `None` if they are fewer than the pieces of a row.
    pub fn new(shape: Shape, slots: u32) -> Option<Self> {
        (slots >= shape.pieces()).then_some(Self { shape, slots })
    }

    /// The shape of each row.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many rows there are if no slot has more than so many parts.
    pub fn count(&self, parts: u64) -> u64 {
        (parts * u64::from(self.slots)).div_ceil(u64::from(self.shape.data()))
    }

    /// The row of a part, and the part's place in it.
    pub fn of(&self, item: Item) -> (u64, u32) {
        let at = item.part * u64::from(self.slots) + u64::from(item.slot);
        let data = u64::from(self.shape.data());
        (at / data, (at % data) as u32)
    }

    /// The pieces of a row: data first.
    pub fn pieces(&self, row: u64) -> Vec<Piece> {
        let (data, slots) = (u64::from(self.shape.data()), u64::from(self.slots));
        let first = row * data;
        let items = (first..first + data).map(|at| {
            Piece::Data(Item {
                slot: (at % slots) as u32,
                part: at / slots,
            })
        });
        // The slots that are left take parity, beginning anywhere among them.
        let left = slots - data;
        let parity = (0..u64::from(self.shape.parity())).map(|nth| {
            let at = (spread(row) % left + nth) % left;
            Piece::Parity {
                slot: ((first + data + at) % slots) as u32,
            }
        });
        items.chain(parity).collect()
    }
}

/// A number that has nothing to do with its neighbours' (splitmix64).
fn spread(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}
