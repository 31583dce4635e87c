//! Finds views and checkpoints by name.

use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Attributes, FileKind, Place};
use weft_layout::{Layout, Map, View, view_text};

use super::nodes::{CHECKPOINTS, VIEWS, ViewNode, not_found};
use crate::fs::metadata::Attr;
use crate::fs::view_ids::is_view;
use crate::fs::{Caller, Entry, FileSystem, FsError};

fn directory(id: u64) -> Attr {
    Attr::from(&Attributes {
        id,
        kind: FileKind::Directory as i32,
        mode: 0o555,
        links: 2,
        ..Attributes::default()
    })
}

/// The view and fork that a name describes, if they fit this file.
pub(super) fn parse(text: &str, layout: &Layout) -> Result<(Map, View, String), FsError> {
    let (view, fork) = view_text::view(text).map_err(|why| {
        tracing::debug!(%why, "a name does not describe a view");
        not_found()
    })?;
    let map = Map::new(layout.grid(), view).map_err(|why| {
        tracing::debug!(%why, "a view does not fit its file");
        not_found()
    })?;
    Ok((map, view, fork))
}

impl FileSystem {
    pub(in crate::fs) async fn look_up_view(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> Result<Entry, FsError> {
        let node = if is_view(parent) {
            let parent = self.views.get(parent)?;
            if let ViewNode::Checkpoints { directory } = parent
                && let Some(tree) = self.look_up_tree(caller, directory, name).await?
            {
                return Ok(tree);
            }
            self.child(caller, parent, name).await?
        } else {
            let attributes = self
                .call(|| self.volume.known_attributes(Place::of(parent)))
                .await?;
            if attributes.kind != FileKind::Directory as i32 {
                return Err(FsError::refused(
                    "only directories have views",
                    Errno::NOTDIR,
                ));
            }
            ViewNode::Hidden { directory: parent }
        };
        let id = self.views.looked_up(node.clone());
        match self.view_attr(id, &node).await {
            Ok(attr) => Ok(view_entry(attr)),
            Err(e) => {
                self.views.forgotten(id, 1);
                Err(e)
            }
        }
    }

    async fn child(
        &self,
        caller: Caller,
        parent: ViewNode,
        name: &[u8],
    ) -> Result<ViewNode, FsError> {
        match parent {
            ViewNode::Hidden { directory } if name == VIEWS => Ok(ViewNode::Views { directory }),
            ViewNode::Views { directory } => {
                let volume = self.on(caller);
                let place = Place::under(directory, name);
                let attributes = self.call(|| volume.known_attributes(&place)).await?;
                if attributes.kind != FileKind::Regular as i32 {
                    return Err(not_found());
                }
                Ok(ViewNode::File {
                    file: attributes.id,
                })
            }
            ViewNode::File { file } => {
                let text = std::str::from_utf8(name)
                    .map_err(|_| not_found())?
                    .to_owned();
                Ok(ViewNode::View { file, text })
            }
            ViewNode::Hidden { directory } if name == CHECKPOINTS => {
                Ok(ViewNode::Checkpoints { directory })
            }
            ViewNode::Checkpoints { directory } => self.files_at(caller, directory, name).await,
            ViewNode::FilesAt {
                directory,
                name: checkpoint,
            } => {
                self.checkpoint_file(caller, (directory, &checkpoint), name)
                    .await
            }
            ViewNode::Hidden { .. } | ViewNode::View { .. } | ViewNode::FileAt(_) => {
                Err(not_found())
            }
        }
    }

    pub(in crate::fs) async fn view_attributes(&self, id: u64) -> Result<Entry, FsError> {
        let node = self.views.get(id)?;
        Ok(view_entry(self.view_attr(id, &node).await?))
    }

    async fn view_attr(&self, id: u64, node: &ViewNode) -> Result<Attr, FsError> {
        if let ViewNode::FileAt(saved) = node {
            let place = Place::of(saved.file);
            let attributes = self.call(|| self.volume.known_attributes(&place)).await?;
            return Ok(saved.attr(id, Attr::from(&attributes)));
        }
        let ViewNode::View { file, text } = node else {
            return Ok(directory(id));
        };
        self.flush_all(*file).await?;
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(*file)))
            .await?;
        let layout = layout(&attributes)?;
        let (map, _, fork) = parse(text, &layout)?;
        let forks = self.call(|| self.volume.forks(&attributes)).await?;
        let mut attr = self.complete(attributes).await?.attr;
        let ours = forks
            .iter()
            .filter(|f| f.fork == fork && f.cell < layout.cells());
        let extents = ours.map(|f| map.extent(weft_layout::CellIndex(f.cell), f.length));
        attr.size = extents.max().unwrap_or(0);
        attr.id = id;
        attr.links = 1;
        Ok(attr)
    }

    /// The names in a directory of views or checkpoints, as far as they can be enumerated, and
    /// their kinds.
    pub(in crate::fs) async fn view_names(
        &self,
        caller: Caller,
        id: u64,
    ) -> Result<Vec<(Bytes, FileKind)>, FsError> {
        let all = |names: Vec<Bytes>, kind| Ok(names.into_iter().map(|n| (n, kind)).collect());
        match self.views.get(id)? {
            ViewNode::Hidden { .. } => {
                let names = [CHECKPOINTS, VIEWS].map(Bytes::from_static);
                all(names.to_vec(), FileKind::Directory)
            }
            ViewNode::Checkpoints { directory } => {
                let names = self.checkpoint_names(caller, directory).await?;
                all(names, FileKind::Directory)
            }
            ViewNode::FilesAt { directory, name } => {
                let names = self.files_in_checkpoint(caller, directory, &name).await?;
                all(names, FileKind::Regular)
            }
            ViewNode::Views { .. }
            | ViewNode::File { .. }
            | ViewNode::View { .. }
            | ViewNode::FileAt(_) => Ok(Vec::new()),
        }
    }
}

fn layout(attributes: &Attributes) -> Result<Layout, FsError> {
    let layout = attributes
        .layout
        .as_ref()
        .and_then(|l| Layout::try_from(l).ok());
    layout.ok_or_else(not_found)
}

/// A view must not be cached: it changes with its file.
fn view_entry(attr: Attr) -> Entry {
    Entry {
        attr,
        attr_valid: Duration::ZERO,
        entry_valid: Duration::ZERO,
    }
}
