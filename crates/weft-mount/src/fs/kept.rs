//! Checkpoints under a mount: `.weft/checkpoints/NAME` in a directory is the directory as it was,
//! if its tree has a checkpoint of this name; else it holds the files of the directory that have
//! one, as they were.
//!
//! The former are nodes like all others, with ids of their own, which the service refuses to
//! change. The latter are made as they are looked up, as views are, and read at the servers.

use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{FileKind, Place};

use super::views::Node;
use super::{Attr, Caller, Entry, FileSystem, FsError};

/// The directory of checkpoints in the hidden one.
pub(super) const CHECKPOINTS: &[u8] = b"checkpoints";
/// Ids of what belongs to checkpoints have this bit beside that of views.
const KEPT: u64 = 1 << 62;

/// A file as it is in a checkpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeptFile {
    pub(super) file: u64,
    /// The checkpoint's number.
    pub(super) number: u64,
    size: u64,
    made: i64,
}

impl KeptFile {
    /// What shows of it: the file's attributes, as far as they are not of its bytes.
    pub(super) fn attr(&self, id: u64, mut attr: Attr) -> Attr {
        attr.id = id;
        attr.links = 1;
        attr.size = self.size;
        attr.modified = self.made;
        attr.mode &= !0o222;
        attr
    }
}

/// The mark of a node's id.
pub(super) fn mark(node: &Node) -> u64 {
    match node {
        Node::Checkpoints { .. } | Node::FilesAt { .. } | Node::Kept(_) => KEPT,
        _ => 0,
    }
}

/// Whether an id is of something that belongs to checkpoints and is no file of the volume.
pub(super) fn is_kept(id: u64) -> bool {
    super::views::is_view(id) && id & KEPT != 0
}

/// Checkpoints are only read here.
pub(super) fn read_only() -> FsError {
    FsError::refused("checkpoints are only read here", Errno::ROFS)
}

fn not_found() -> FsError {
    FsError::refused("there is no such checkpoint", Errno::NOENT)
}

impl FileSystem {
    /// The directory as it was at a checkpoint of its tree, if there is one of this name.
    pub(super) async fn look_up_tree(
        &self,
        caller: Caller,
        directory: u64,
        name: &[u8],
    ) -> Result<Option<Entry>, FsError> {
        let volume = self.on(caller);
        let path = [b".weft/checkpoints/", name].concat();
        let place = Place::under(directory, path);
        let asked = self.news.now();
        let attributes = match self.call(|| volume.known_attributes(&place)).await {
            Err(e) if e.errno() == libc::ENOENT => return Ok(None),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        let entry = self.entry(asked, &answer, (directory, name));
        // Nobody tells when a checkpoint is deleted and made anew under the same name.
        Ok(Some(Entry {
            entry_valid: Duration::ZERO,
            ..entry
        }))
    }

    /// The directory of files that have a checkpoint of this name.
    pub(super) async fn files_at(
        &self,
        caller: Caller,
        directory: u64,
        name: &[u8],
    ) -> Result<Node, FsError> {
        let name = String::from_utf8(name.to_vec()).map_err(|_| not_found())?;
        if self.names_at(caller, directory, &name).await?.is_empty() {
            return Err(not_found());
        }
        Ok(Node::FilesAt { directory, name })
    }

    /// A file of a directory as it is in its checkpoint of this name.
    pub(super) async fn kept_file(
        &self,
        caller: Caller,
        (directory, checkpoint): (u64, &str),
        file: &[u8],
    ) -> Result<Node, FsError> {
        let volume = self.on(caller);
        let place = Place::under(directory, file);
        let attributes = self.call(|| volume.known_attributes(&place)).await?;
        let id = attributes.id;
        if attributes.kind != FileKind::Regular as i32 {
            return Err(not_found());
        }
        let all = self.call(|| volume.checkpoints(Place::of(id))).await?;
        let found = all.into_iter().find(|c| c.name == checkpoint);
        let found = found.ok_or_else(not_found)?;
        Ok(Node::Kept(KeptFile {
            file: id,
            number: found.number,
            size: found.size,
            made: found.made,
        }))
    }

    /// The names in `.weft/checkpoints`.
    pub(super) async fn checkpoint_names(
        &self,
        caller: Caller,
        directory: u64,
    ) -> Result<Vec<Bytes>, FsError> {
        let volume = self.on(caller);
        let place = Place::of(directory);
        let trees = self.call(|| volume.checkpoints(&place)).await?;
        let files = self.call(|| volume.file_checkpoints(&place)).await?;
        let trees = trees.into_iter().map(|c| c.name);
        let mut names: Vec<String> = trees.chain(files.into_iter().map(|c| c.name)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names.into_iter().map(Bytes::from).collect())
    }

    /// The files of a directory that have a checkpoint of this name.
    pub(super) async fn names_at(
        &self,
        caller: Caller,
        directory: u64,
        name: &str,
    ) -> Result<Vec<Bytes>, FsError> {
        let volume = self.on(caller);
        let place = Place::of(directory);
        let files = self.call(|| volume.file_checkpoints(&place)).await?;
        let files = files.into_iter().filter(|c| c.name == name);
        Ok(files.map(|c| c.file).collect())
    }
}
