//! Looks up names, forgets nodes, reads links.

use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{FileKind, Place};
use weft_proto::limits::NAME_MAX;

use crate::fs::view_ids::{HIDDEN, is_view};
use crate::fs::{Caller, Entry, FileSystem, FsError};

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// A node.
    Node(Entry),
    /// The name does not exist; valid for this long.
    Nothing(Duration),
}

impl FileSystem {
    /// Looks up a name in a directory.
    pub async fn lookup(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<Found, FsError> {
        if is_view(parent) || name == HIDDEN {
            let entry = self.look_up_view(caller, parent, name).await?;
            return Ok(Found::Node(entry));
        }
        if name.len() > NAME_MAX {
            return Err(FsError::refused(
                "the name is longer than 255 bytes",
                Errno::NAMETOOLONG,
            ));
        }
        if name == b"." || name == b".." {
            return self.look_up_by_id(caller, parent, name == b"..").await;
        }
        let asked = self.metadata.now();
        let nothing = || Found::Nothing(self.metadata.name_valid(asked, parent, name));
        if self.metadata.is_absent(parent, name) {
            return Ok(nothing());
        }
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let attributes = match self.call(|| volume.known_attributes(&place)).await {
            Err(e) if e.errno() == libc::ENOENT => return Ok(nothing()),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        Ok(Found::Node(self.metadata.entry(
            asked,
            &answer,
            (parent, name),
        )))
    }

    /// A node by its id, or the directory above it. The kernel asks so for what it has forgotten,
    /// when a program has a file handle of it: ids are those of files in the volume, so handles are
    /// valid as long as the files, whichever process serves the mount.
    async fn look_up_by_id(&self, caller: Caller, id: u64, above: bool) -> Result<Found, FsError> {
        let volume = self.on(caller);
        let asked = self.metadata.now();
        let known = async |id| {
            let place = self.metadata.place(id);
            self.call(|| volume.known_attributes(&place)).await
        };
        let mut attributes = known(id).await?;
        if attributes.links == 0 {
            // Programs that have it open have the kernel remember it.
            return Err(FsError::refused("the file was removed", Errno::NOENT));
        }
        if above {
            if attributes.kind != FileKind::Directory as i32 {
                return Err(FsError::refused("it is not a directory", Errno::NOTDIR));
            }
            attributes = known(attributes.parent).await?;
        }
        let answer = self.complete(attributes).await?;
        Ok(Found::Node(self.metadata.entry_by_id(asked, &answer)))
    }

    /// The kernel forgets so many lookups of a node.
    pub fn forget(&self, id: u64, lookups: u64) {
        if is_view(id) {
            self.views.forgotten(id, lookups);
        } else {
            self.metadata.forgotten(id, lookups);
        }
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, caller: Caller, id: u64) -> Result<Bytes, FsError> {
        let volume = self.on(caller);
        let text = self
            .call(|| volume.read_link(self.metadata.place(id)))
            .await?;
        self.accessed(id);
        Ok(text)
    }
}
