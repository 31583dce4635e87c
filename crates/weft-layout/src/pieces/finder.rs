//! How to find the next own bytes of a server in a view.

use super::contiguous::Contiguous;
use super::even::EvenRows;
use super::window::Window;
use crate::request::Span;
use crate::shape::Shape;
use crate::{Grid, ServerSlot};

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
    pieces: Contiguous,
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
        let pieces = Contiguous::new(&self.grid, &self.shape, span, self.slot)
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
