//! Finding the next local bytes of a server in a view.

use super::even::EvenRows;
use super::window::Window;
use crate::limits::PIECES_PASSED_MAX;
use crate::pieces::contiguous::Contiguous;
use crate::pieces::piece::Span;
use crate::view::shape::Shape;
use crate::{Grid, ServerSlot};

/// Finds local bytes of any view but those in column-major order.
#[derive(Clone, Debug)]
pub(crate) enum Finder {
    Even(EvenRows),
    Any(Box<PieceFinder>),
}

/// Finds local bytes by the pieces of a contiguous access.
#[derive(Clone, Debug)]
pub(crate) struct PieceFinder {
    grid: Grid,
    shape: Shape,
    slot: ServerSlot,
    /// Callers ask for nothing past this place.
    end: u64,
    /// Local pieces that were not passed.
    upcoming: Option<Lookahead>,
}

/// The local pieces from `base` of the view on; those before `reached` were passed.
#[derive(Clone, Debug)]
pub(crate) struct Lookahead {
    base: u64,
    reached: u64,
    pieces: Contiguous,
}

impl Lookahead {
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
        Finder::Any(Box::new(PieceFinder {
            grid,
            shape,
            slot,
            end,
            upcoming: None,
        }))
    }

    /// The window that holds `view`, or the first after it.
    #[inline]
    pub(crate) fn seek(&mut self, view: u64) -> Window {
        match self {
            Finder::Even(even) => even.seek(view),
            Finder::Any(finder) => finder.seek(view),
        }
    }
}

impl PieceFinder {
    fn seek(&mut self, view: u64) -> Window {
        if let Some(upcoming) = self
            .upcoming
            .as_mut()
            .filter(|upcoming| upcoming.reached <= view)
        {
            for _ in 0..PIECES_PASSED_MAX {
                match upcoming.take(view) {
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
        let pieces = Contiguous::new(&self.grid, &self.shape, span, self.slot)
            .expect("everything before the end was checked");
        let fresh = self.upcoming.insert(Lookahead {
            base: view,
            reached: view,
            pieces,
        });
        fresh
            .take(view)
            .unwrap_or_else(|| Window::nothing_from(view))
    }
}
