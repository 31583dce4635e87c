//! Layouts: the stored record, the wire's message and the checked type of `weft-layout`.

use weft_layout::Layout;
use weft_proto::meta::{self, LayoutOptions};

use super::record::{DefaultLayoutRecord, InodeRecord, LayoutRecord};
use crate::error::MetaError;

impl LayoutRecord {
    /// The layout that the record describes.
    ///
    /// # Errors
    /// Why it is illegal, in words.
    pub(crate) fn checked(&self) -> Result<Layout, String> {
        Layout::try_from(&meta::Layout::from(self)).map_err(|error| error.to_string())
    }
}

/// The layout of a regular file, which must have one.
pub(crate) fn layout_of(id: u64, inode: &InodeRecord) -> Result<Layout, MetaError> {
    let layout = match &inode.layout {
        Some(layout) => layout.checked(),
        None => Err("a regular file without a layout".into()),
    };
    layout.map_err(|reason| MetaError::Corrupt {
        what: "inode",
        id,
        reason,
    })
}

impl From<&LayoutOptions> for DefaultLayoutRecord {
    fn from(layout_options: &LayoutOptions) -> Self {
        DefaultLayoutRecord {
            cells: layout_options.cells,
            bsu: layout_options.bsu,
            chunk: layout_options.chunk,
            servers: layout_options.servers.clone(),
            base: layout_options.base,
            storage: layout_options.storage,
            replicas: layout_options.replicas,
            parity: layout_options.parity,
        }
    }
}

impl From<&meta::Layout> for LayoutRecord {
    fn from(layout: &meta::Layout) -> Self {
        LayoutRecord {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers.clone(),
            storage: layout.storage,
            parity: layout.parity,
        }
    }
}

impl From<&LayoutRecord> for meta::Layout {
    fn from(layout: &LayoutRecord) -> Self {
        meta::Layout {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers.clone(),
            storage: layout.storage,
            parity: layout.parity,
        }
    }
}
