//! Views and checkpoints under a mount: every directory has a hidden directory `.weft`, in which
//! `views/FILE/VIEW` is the file `FILE` through a view:
//! `dd if=.weft/views/FILE/subfile=1,1,1,4,2` reads one subfile.
//!
//! Listings of real files do not show any of it; it is found by name. Nodes are made by lookups and
//! dropped when the kernel forgets them. Views are read and written at the servers: the data cache
//! and the kernel's pages belong to the canonical order. So every `read` and `write` is one access
//! of the view, whose bytes the order `column` rearranges, unless it is longer than the kernel's
//! largest request: then it is several.
//!
//! - `nodes`: the nodes that the kernel knows. `handle`: an open view.
//! - `lookup`, `io`, `checkpoints`: the operations.

mod checkpoints;
mod handle;
mod io;
mod lookup;
mod nodes;

pub(super) use handle::OpenViewHandle;
pub(super) use nodes::ViewNodes;
