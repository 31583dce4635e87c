//! Views (and checkpoints, `kept.rs`) under a mount: every directory has a hidden directory
//! `.weft`, in which `views/FILE/VIEW` is the file `FILE` through a view:
//! `dd if=.weft/views/FILE/subfile=1,1,1,4,2` reads one subfile.
//!
//! Nothing of it is listed beside real files; it is found by name. Nodes are made as they are
//! looked up and go when the kernel forgets them. Views are read and written at the servers: the
//! data cache and the kernel's pages belong to the canonical order. So every `read` and `write` is
//! one access of the view, whose bytes the order `column` rearranges, unless it is longer than the
//! kernel's largest request: then it is several.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;
use weft_client::{Attributes, FileKind, OpenView, Place};
use weft_layout::{Layout, Map, View, ViewOffset, view_text};

use super::kept::{self, CHECKPOINTS, KeptFile};
use super::open::{Opened, WriteHow, access, writes};
use super::{Attr, Caller, Entry, FileSystem, FsError};

/// The hidden directory.
pub(super) const HIDDEN: &[u8] = b".weft";
const VIEWS: &[u8] = b"views";
/// Ids and handles of views have this bit; those of files never do.
const MARK: u64 = 1 << 63;

/// Whether an id, or a handle, is one of a view.
pub(super) fn is_view(number: u64) -> bool {
    number & MARK != 0
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// `.weft` in a directory.
    Hidden { directory: u64 },
    /// `.weft/views`.
    Views { directory: u64 },
    /// `.weft/views/FILE`.
    File { file: u64 },
    /// `.weft/views/FILE/VIEW`.
    View { file: u64, text: String },
    /// `.weft/checkpoints`.
    Checkpoints { directory: u64 },
    /// `.weft/checkpoints/NAME`, where NAME is of files and not of the tree.
    FilesAt { directory: u64, name: String },
    /// `.weft/checkpoints/NAME/FILE`.
    Kept(KeptFile),
}

/// The nodes that the kernel knows.
#[derive(Default)]
pub(super) struct ViewNodes(Mutex<Known>);

#[derive(Default)]
struct Known {
    ids: HashMap<Node, u64>,
    nodes: HashMap<u64, (Node, u64)>,
    last: u64,
}

impl ViewNodes {
    fn looked_up(&self, node: Node) -> u64 {
        let mut known = self.0.lock();
        let id = if let Some(id) = known.ids.get(&node) {
            *id
        } else {
            known.last += 1;
            known.last | MARK | kept::mark(&node)
        };
        known.ids.insert(node.clone(), id);
        known.nodes.entry(id).or_insert((node, 0)).1 += 1;
        id
    }

    fn get(&self, id: u64) -> Result<Node, FsError> {
        let node = self.0.lock().nodes.get(&id).map(|(node, _)| node.clone());
        node.ok_or(FsError::refused("this view is not known", Errno::STALE))
    }

    pub(super) fn forgotten(&self, id: u64, lookups: u64) {
        let mut known = self.0.lock();
        let Some((_, count)) = known.nodes.get_mut(&id) else {
            return;
        };
        *count = count.saturating_sub(lookups);
        if *count == 0
            && let Some((node, _)) = known.nodes.remove(&id)
        {
            known.ids.remove(&node);
        }
    }
}

/// An open view.
pub(super) struct ViewHandle {
    file: u64,
    view: OpenView,
    size: AtomicU64,
    write: bool,
    /// Counts the beginnings and ends of writes, and how many of them the file's own readers were
    /// told of.
    writes: AtomicU64,
    told: AtomicU64,
    /// Nothing was found to be taken away from the file since it was opened: see `privileges`.
    stripped: AtomicBool,
}

/// Counts a write's beginning, and its end however it comes about: a part may be there also where
/// it fails.
struct Writing<'a>(&'a AtomicU64);

impl Writing<'_> {
    fn of(handle: &ViewHandle) -> Writing<'_> {
        handle.writes.fetch_add(1, Ordering::AcqRel);
        Writing(&handle.writes)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Nothing is made, renamed or removed among views.
pub(super) fn refuse(ids: &[u64], names: &[&[u8]]) -> Result<(), FsError> {
    if ids.iter().any(|id| kept::is_kept(*id)) {
        return Err(kept::read_only());
    }
    if ids.iter().any(|id| is_view(*id)) || names.contains(&HIDDEN) {
        return Err(FsError::refused(
            "views are not made, renamed or removed",
            Errno::PERM,
        ));
    }
    Ok(())
}

/// Views have no room of their own, no holes and no extended attributes.
pub(super) fn unsupported() -> FsError {
    FsError::refused("views have no such thing", Errno::OPNOTSUPP)
}

fn not_found() -> FsError {
    FsError::refused("there is no such view", Errno::NOENT)
}

fn directory(id: u64) -> Attr {
    Attr::from(&Attributes {
        id,
        kind: FileKind::Directory as i32,
        mode: 0o555,
        links: 2,
        ..Attributes::default()
    })
}

/// The view and fork of a word, if they fit this file.
fn parse(text: &str, layout: &Layout) -> Result<(Map, View, String), FsError> {
    let (view, fork) = view_text::view(text).map_err(|why| {
        tracing::debug!(%why, "no view");
        not_found()
    })?;
    let map = Map::new(layout.grid(), view).map_err(|why| {
        tracing::debug!(%why, "the view does not fit");
        not_found()
    })?;
    Ok((map, view, fork))
}

impl FileSystem {
    pub(super) async fn look_up_view(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> Result<Entry, FsError> {
        let node = if is_view(parent) {
            let parent = self.views.get(parent)?;
            if let Node::Checkpoints { directory } = parent
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
            Node::Hidden { directory: parent }
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

    async fn child(&self, caller: Caller, parent: Node, name: &[u8]) -> Result<Node, FsError> {
        match parent {
            Node::Hidden { directory } if name == VIEWS => Ok(Node::Views { directory }),
            Node::Views { directory } => {
                let volume = self.on(caller);
                let place = Place::under(directory, name);
                let attributes = self.call(|| volume.known_attributes(&place)).await?;
                if attributes.kind != FileKind::Regular as i32 {
                    return Err(not_found());
                }
                Ok(Node::File {
                    file: attributes.id,
                })
            }
            Node::File { file } => {
                let text = std::str::from_utf8(name)
                    .map_err(|_| not_found())?
                    .to_owned();
                Ok(Node::View { file, text })
            }
            Node::Hidden { directory } if name == CHECKPOINTS => {
                Ok(Node::Checkpoints { directory })
            }
            Node::Checkpoints { directory } => self.files_at(caller, directory, name).await,
            Node::FilesAt {
                directory,
                name: checkpoint,
            } => self.kept_file(caller, (directory, &checkpoint), name).await,
            Node::Hidden { .. } | Node::View { .. } | Node::Kept(_) => Err(not_found()),
        }
    }

    pub(super) async fn view_attributes(&self, id: u64) -> Result<Entry, FsError> {
        let node = self.views.get(id)?;
        Ok(view_entry(self.view_attr(id, &node).await?))
    }

    async fn view_attr(&self, id: u64, node: &Node) -> Result<Attr, FsError> {
        if let Node::Kept(kept) = node {
            let place = Place::of(kept.file);
            let attributes = self.call(|| self.volume.known_attributes(&place)).await?;
            return Ok(kept.attr(id, Attr::from(&attributes)));
        }
        let Node::View { file, text } = node else {
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

    /// The names in a directory of views or checkpoints, as far as they can be enumerated, and what
    /// they name.
    pub(super) async fn view_names(
        &self,
        caller: Caller,
        id: u64,
    ) -> Result<Vec<(Bytes, FileKind)>, FsError> {
        let all = |names: Vec<Bytes>, kind| Ok(names.into_iter().map(|n| (n, kind)).collect());
        match self.views.get(id)? {
            Node::Hidden { .. } => {
                let names = [CHECKPOINTS, VIEWS].map(Bytes::from_static);
                all(names.to_vec(), FileKind::Directory)
            }
            Node::Checkpoints { directory } => {
                let names = self.checkpoint_names(caller, directory).await?;
                all(names, FileKind::Directory)
            }
            Node::FilesAt { directory, name } => {
                let names = self.names_at(caller, directory, &name).await?;
                all(names, FileKind::Regular)
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) async fn open_view(
        &self,
        caller: Caller,
        id: u64,
        flags: i32,
    ) -> Result<Opened, FsError> {
        let node = self.views.get(id)?;
        let id = match &node {
            Node::View { file, .. } => *file,
            Node::Kept(_) if writes(flags) => return Err(kept::read_only()),
            Node::Kept(kept) => kept.file,
            _ => return Err(FsError::refused("this is a directory", Errno::ISDIR)),
        };
        self.flush_all(id).await?;
        let volume = self.on(caller);
        let access = access(flags);
        let file = self
            .call(|| volume.attach(self.place(id), access.clone()))
            .await?;
        let view = if let Node::View { text, .. } = &node {
            let (_, view, fork) = parse(text, file.layout())?;
            file.view_of_fork(view, &fork)?
        } else {
            file.canonical()?
        };
        let view = match &node {
            Node::Kept(kept) => view.of_checkpoint_number(kept.number),
            _ => view,
        };
        let size = self.call(|| view.size()).await?;
        let handle = self.view_handles.insert(Arc::new(ViewHandle {
            file: id,
            view,
            size: AtomicU64::new(size),
            write: writes(flags),
            writes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            stripped: AtomicBool::new(false),
        }));
        Ok(Opened {
            handle: handle | MARK,
            keep_pages: false,
            direct: true,
            parallel: true,
        })
    }

    fn view_handle(&self, handle: u64) -> Result<Arc<ViewHandle>, FsError> {
        self.view_handles.get(handle & !MARK)
    }

    /// A view is all data, and ends with a hole.
    pub(super) async fn seek_view(
        &self,
        handle: u64,
        offset: u64,
        whence: i32,
    ) -> Result<u64, FsError> {
        let handle = self.view_handle(handle)?;
        let size = self.call(|| handle.view.size()).await?;
        handle.size.store(size, Ordering::Relaxed);
        match whence {
            _ if offset >= size => Err(FsError::refused("nothing is there", Errno::NXIO)),
            libc::SEEK_DATA => Ok(offset),
            libc::SEEK_HOLE => Ok(size),
            _ => Err(FsError::refused("no such seek", Errno::INVAL)),
        }
    }

    pub(super) async fn read_view(
        &self,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> Result<Bytes, FsError> {
        let handle = self.view_handle(handle)?;
        let end = offset.saturating_add(length as u64);
        let mut size = handle.size.load(Ordering::Relaxed);
        if end > size {
            size = self.call(|| handle.view.size()).await?;
            handle.size.store(size, Ordering::Relaxed);
        }
        let there =
            usize::try_from(size.saturating_sub(offset)).map_or(length, |there| there.min(length));
        // Ghosts and holes leave what is there: zeros.
        let mut buffer = vec![0; there];
        handle.view.read_at(ViewOffset(offset), &mut buffer).await?;
        Ok(buffer.into())
    }

    pub(super) async fn write_view(
        &self,
        handle: u64,
        offset: u64,
        data: Bytes,
        how: WriteHow,
    ) -> Result<(), FsError> {
        let handle = self.view_handle(handle)?;
        self.strip_file((handle.file, &handle.stripped), how.kill_set_id)
            .await?;
        let offset = if how.append {
            self.call(|| handle.view.size()).await?
        } else {
            offset
        };
        let at = ViewOffset(offset);
        let _writing = Writing::of(&handle);
        if how.synced {
            handle.view.write_at_synced(at, data).await?;
        } else {
            handle.view.write_at(at, data).await?;
        }
        Ok(())
    }

    /// After writes: the file's own data, as anybody here has it, is old, and nobody reads it any
    /// more when this returns.
    pub(super) async fn flush_view(&self, handle: u64) -> Result<(), FsError> {
        let handle = self.view_handle(handle)?;
        let writes = handle.writes.load(Ordering::Acquire);
        if handle.told.load(Ordering::Acquire) < writes {
            self.forget_data(handle.file);
            self.drop_pages(handle.file, 0..u64::MAX).await?;
            handle.told.fetch_max(writes, Ordering::AcqRel);
        }
        Ok(())
    }

    pub(super) async fn sync_view(&self, handle: u64) -> Result<(), FsError> {
        self.flush_view(handle).await?;
        let handle = self.view_handle(handle)?;
        self.call(|| handle.view.file().sync()).await
    }

    pub(super) async fn release_view(&self, handle: u64) {
        let _ = self.flush_view(handle).await;
        if let Some(handle) = self.view_handles.remove(handle & !MARK)
            && let Err(error) = handle.view.file().close().await
        {
            tracing::warn!(file = self.shown(handle.file), write = handle.write, %error, "closing a view failed");
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

/// Nothing of a view is believed for long: it changes with its file.
fn view_entry(attr: Attr) -> Entry {
    Entry {
        attr,
        attr_valid: Duration::ZERO,
        entry_valid: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id_while_the_kernel_knows_it() {
        let nodes = ViewNodes::default();
        let node = Node::View {
            file: 7,
            text: "cell=0".into(),
        };
        let id = nodes.looked_up(node.clone());
        assert!(is_view(id));
        assert_eq!(nodes.looked_up(node.clone()), id);
        nodes.forgotten(id, 1);
        assert_eq!(nodes.get(id).unwrap(), node);
        nodes.forgotten(id, 1);
        assert!(nodes.get(id).is_err());
        assert!(nodes.0.lock().ids.is_empty());
    }
}
