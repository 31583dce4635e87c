//! A stretch of a view that lies in a row in one cell, and how to find the next one of a server.

use super::Pieces;
use super::even::EvenRows;
use crate::request::Span;
use crate::shape::Shape;
use crate::{CellIndex, Grid, ServerSlot};

/// Own bytes `start..end` of the view, from `offset` on in a cell. Nothing from `from` to `start` is own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) cell: CellIndex,
    pub(crate) offset: u64,
}

impl Window {
    /// Before everything: to be replaced by the first that is found.
    pub(crate) const NONE: Window = Window {
        from: u64::MAX,
        start: u64::MAX,
        end: 0,
        cell: CellIndex(0),
        offset: 0,
    };

    /// Nothing own from here on.
    fn nothing_from(from: u64) -> Window {
        Window {
            from,
            start: u64::MAX,
            end: u64::MAX,
            ..Window::NONE
        }
    }
}

/// Finds own bytes of any view but those in column-major order.
#[derive(Clone, Debug)]
pub(crate) enum Finder {
    Even(EvenRows),
    Any(Box<Looker>),
}

/// Finds own bytes by the pieces of a contiguous access.
#[derive(Clone, Debug)]
pub(crate) struct Looker {
    grid: Grid,
    shape: Shape,
    slot: ServerSlot,
    /// All that may be asked for ends here.
    end: u64,
    /// Own pieces that were not passed.
    ahead: Option<Ahead>,
}

/// The own pieces from `base` of the view on; those before `reached` were passed.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    base: u64,
    reached: u64,
    pieces: Pieces,
}

impl Ahead {
    /// The next piece.
    fn take(&mut self, from: u64) -> Option<Window> {
        let piece = self.pieces.next()?;
        let start = self.base + piece.memory;
        self.reached = start + piece.length;
        Some(Window {
            from,
            start,
            end: self.reached,
            cell: piece.cell,
            offset: piece.offset.0,
        })
    }
}

/// How many own pieces are passed before the finder looks afresh: about the cost of that.
const PASSED: usize = 4;

impl Finder {
    /// `None` when the view rearranges what it finds. Everything before `end` can be mapped.
    pub(crate) fn new(grid: Grid, shape: Shape, slot: ServerSlot, end: u64) -> Option<Self> {
        match &shape {
            Shape::ByColumn(_) => None,
            Shape::Rows { columns, shift } => {
                let even = EvenRows::new(columns, *shift, &grid, slot);
                Some(even.map_or_else(|| Self::any(grid, shape, slot, end), Finder::Even))
            }
            Shape::Linear(_) | Shape::Groups(_) => Some(Self::any(grid, shape, slot, end)),
        }
    }

    fn any(grid: Grid, shape: Shape, slot: ServerSlot, end: u64) -> Self {
        Finder::Any(Box::new(Looker {
            grid,
            shape,
            slot,
            end,
            ahead: None,
        }))
    }

    /// The window that holds `view`, or the first after it.
    #[inline]
    pub(crate) fn seek(&mut self, view: u64) -> Window {
        match self {
            Finder::Even(even) => even.seek(view),
            Finder::Any(looker) => looker.look(view),
        }
    }
}

impl Looker {
    fn look(&mut self, view: u64) -> Window {
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.reached <= view) {
            for _ in 0..PASSED {
                match ahead.take(view) {
                    Some(window) if window.end <= view => {}
                    Some(window) => return window,
                    None => return Window::nothing_from(view),
                }
            }
        }
        let span = Span {
            start: view,
            end: self.end,
        };
        let pieces = Pieces::contiguous(&self.grid, &self.shape, span, self.slot)
            .expect("everything before the end was checked");
        let fresh = self.ahead.insert(Ahead {
            base: view,
            reached: view,
            pieces,
        });
        fresh
            .take(view)
            .unwrap_or_else(|| Window::nothing_from(view))
    }
}
