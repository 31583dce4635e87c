//! A range of a view that is contiguous in one cell.

use crate::CellIndex;

/// Local bytes `start..end` of the view, from `offset` on in a cell. No byte from `from` to `start`
/// is local.
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

    /// No local byte from here on.
    pub(super) fn nothing_from(from: u64) -> Window {
        Window {
            from,
            start: u64::MAX,
            end: u64::MAX,
            ..Window::NONE
        }
    }
}
