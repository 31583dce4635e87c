//! Names: look up, make, link, rename, remove.

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Access, FileKind, NewMode, Place};

use super::attr::kind_of_mode;
use super::views::{HIDDEN, is_view, refuse};
use super::{Attr, Caller, Entry, FileSystem, FsError};

impl FileSystem {
    /// What a name in a directory names.
    pub async fn lookup(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<Entry, FsError> {
        if is_view(parent) || name == HIDDEN {
            return self.look_up_view(caller, parent, name).await;
        }
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let attributes = self.call(|| volume.known_attributes(&place)).await?;
        let attr = self.complete(attributes).await?;
        Ok(self.entry(attr))
    }

    /// The kernel forgets a node that it looked up so often.
    pub fn forget(&self, id: u64, lookups: u64) {
        if is_view(id) {
            self.views.forgotten(id, lookups);
        } else {
            self.nodes.forgotten(id, lookups);
        }
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, caller: Caller, id: u64) -> Result<Bytes, FsError> {
        let volume = self.on(caller);
        self.call(|| volume.read_link(Place::of(id))).await
    }

    /// Makes a regular file, fifo, socket or device node; `mode` has the type bits.
    pub async fn make_node(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        device: u32,
    ) -> Result<Entry, FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let bits = mode & 0o7777;
        let kind =
            kind_of_mode(mode).ok_or(FsError::wrong("no such kind of node", Errno::INVAL))?;
        let attributes = if kind == FileKind::Regular {
            let access = Access::default().create_new(bits).umask(umask).inline();
            let file = self.call(|| volume.attach(&place, access.clone())).await?;
            let attributes = file.attributes().clone();
            self.call(|| file.close()).await?;
            attributes
        } else {
            self.call(|| volume.make_node(&place, kind, NewMode { bits, umask }, device.into()))
                .await?
        };
        Ok(self.entry(Attr::from(&attributes)))
    }

    /// Makes a directory.
    pub async fn make_directory(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
    ) -> Result<Entry, FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let bits = mode & 0o7777;
        let attributes = self
            .call(|| volume.make_directory(&place, NewMode { bits, umask }))
            .await?;
        Ok(self.entry(Attr::from(&attributes)))
    }

    /// Makes a symbolic link.
    pub async fn make_link(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        text: &[u8],
    ) -> Result<Entry, FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let attributes = self.call(|| volume.make_link(&place, text)).await?;
        Ok(self.entry(Attr::from(&attributes)))
    }

    /// Gives a file a further name.
    pub async fn link(
        &self,
        caller: Caller,
        id: u64,
        (parent, name): (u64, &[u8]),
    ) -> Result<Entry, FsError> {
        refuse(&[parent, id], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let attributes = self.call(|| volume.link(Place::of(id), &place)).await?;
        let attr = self.complete(attributes).await?;
        Ok(self.entry(attr))
    }

    /// Removes a name that is no directory.
    pub async fn unlink(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<(), FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        self.call(|| volume.unlink(&place)).await
    }

    /// Removes an empty directory.
    pub async fn remove_directory(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> Result<(), FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        self.call(|| volume.remove_directory(&place)).await
    }

    /// Renames; `flags` as of renameat2.
    pub async fn rename(
        &self,
        caller: Caller,
        (from, from_name): (u64, &[u8]),
        (to, to_name): (u64, &[u8]),
        flags: u32,
    ) -> Result<(), FsError> {
        refuse(&[from, to], &[from_name, to_name])?;
        let volume = self.on(caller);
        let from = Place::under(from, from_name);
        let to = Place::under(to, to_name);
        match flags {
            0 => self.call(|| volume.rename(&from, &to)).await,
            libc::RENAME_NOREPLACE => self.call(|| volume.rename_new(&from, &to)).await,
            libc::RENAME_EXCHANGE => self.call(|| volume.exchange(&from, &to)).await,
            _ => Err(FsError::wrong("no such kind of rename", Errno::INVAL)),
        }
    }
}
