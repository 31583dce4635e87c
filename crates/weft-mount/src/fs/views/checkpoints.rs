//! Checkpoints under a mount: `.weft/checkpoints/NAME` in a directory is the directory as it was,
//! if its tree has a checkpoint of this name; else it holds the files of the directory that have
//! one, as they were.
//!
//! The former are ordinary nodes with ids, which the service refuses to change. The latter are made
//! by lookups, as views are, and read at the servers.

use std::time::Duration;

use bytes::Bytes;
use weft_client::{FileKind, Place};

use super::nodes::{CheckpointFile, ViewNode, no_checkpoint};
use crate::fs::{Caller, Entry, FileSystem, FsError};

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
        let asked = self.metadata.now();
        let attributes = match self.call(|| volume.known_attributes(&place)).await {
            Err(e) if e.errno() == libc::ENOENT => return Ok(None),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        let entry = self.metadata.entry(asked, &answer, (directory, name));
        // A checkpoint that is deleted and made again under its name causes no invalidation.
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
    ) -> Result<ViewNode, FsError> {
        let name = String::from_utf8(name.to_vec()).map_err(|_| no_checkpoint())?;
        if self
            .files_in_checkpoint(caller, directory, &name)
            .await?
            .is_empty()
        {
            return Err(no_checkpoint());
        }
        Ok(ViewNode::FilesAt { directory, name })
    }

    /// A file of a directory as it is in its checkpoint of this name.
    pub(super) async fn checkpoint_file(
        &self,
        caller: Caller,
        (directory, checkpoint): (u64, &str),
        file: &[u8],
    ) -> Result<ViewNode, FsError> {
        let volume = self.on(caller);
        let place = Place::under(directory, file);
        let attributes = self.call(|| volume.known_attributes(&place)).await?;
        let id = attributes.id;
        if attributes.kind != FileKind::Regular as i32 {
            return Err(no_checkpoint());
        }
        let all = self.call(|| volume.checkpoints(Place::of(id))).await?;
        let found = all.into_iter().find(|c| c.name == checkpoint);
        let found = found.ok_or_else(no_checkpoint)?;
        Ok(ViewNode::FileAt(CheckpointFile {
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
    pub(super) async fn files_in_checkpoint(
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
