//! Names: look up, make, link, rename, remove.

use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Access, Attributes, FileKind, NewMode, Place, Removed};
use weft_proto::limits::NAME_MAX;

use super::attr::kind_of_mode;
use super::belief::Answer;
use super::news::{Asked, Subject};
use super::views::{HIDDEN, is_view, refuse};
use super::{Caller, Entry, FileSystem, FsError};

/// What a name names.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// A node.
    Node(Entry),
    /// Nothing, for so long.
    Nothing(Duration),
}

impl FileSystem {
    /// What a name in a directory names.
    pub async fn lookup(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<Found, FsError> {
        if is_view(parent) || name == HIDDEN {
            let entry = self.look_up_view(caller, parent, name).await?;
            return Ok(Found::Node(entry));
        }
        if name.len() > NAME_MAX {
            return Err(FsError::refused(
                "a name has at most 255 bytes",
                Errno::NAMETOOLONG,
            ));
        }
        let asked = self.news.now();
        let nothing = || Found::Nothing(self.name_valid(asked, parent, name));
        if self.absent.is_absent(parent, self.news.hash(name)) {
            return Ok(nothing());
        }
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let attributes = match self.call(|| volume.known_attributes(&place)).await {
            Err(e) if e.errno() == libc::ENOENT => return Ok(nothing()),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        Ok(Found::Node(self.entry(asked, &answer, (parent, name))))
    }

    /// Makes a name with what it names. The parent's names may be one more from before it is asked
    /// for.
    async fn make<F>(
        &self,
        (parent, name): (u64, &[u8]),
        make: impl Fn() -> F,
    ) -> Result<(Asked, Answer), FsError>
    where
        F: Future<Output = Result<Attributes, weft_client::Error>>,
    {
        self.absent.may_be_there(parent, self.news.hash(name));
        let asked = self.news.now();
        let attributes = self.call(make).await.inspect_err(|_| self.touched(parent));
        let answer = Answer::exact(&attributes?);
        self.entered(asked, parent, &answer.attr);
        Ok((asked, answer))
    }

    /// A name that this mount took away is absent, unless somebody has made it again; the service
    /// says what its directory is since: the kernel asks for it before it removes the next.
    fn removed(&self, asked: Asked, (parent, name): (u64, &[u8]), removed: &Removed) {
        self.nodes.unnamed(removed.file);
        self.touched(removed.file);
        if let Some(directory) = &removed.directory {
            self.touched_to(asked, &Answer::exact(directory), false);
        } else {
            self.touched(parent);
        }
        self.taken_away(asked, parent, name);
    }

    /// A name that this mount took away is absent, unless somebody has made it again.
    pub(super) fn taken_away(&self, asked: Asked, parent: u64, name: &[u8]) {
        if !self.news.since(asked, self.news.name(parent, name)) {
            self.absent.taken_away(parent, self.news.hash(name));
        }
    }

    /// The kernel forgets a node that it looked up so often.
    pub fn forget(&self, id: u64, lookups: u64) {
        if is_view(id) {
            self.views.forgotten(id, lookups);
        } else if self.nodes.forgotten(id, lookups) {
            self.absent.forget(id);
        }
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, caller: Caller, id: u64) -> Result<Bytes, FsError> {
        let volume = self.on(caller);
        let text = self.call(|| volume.read_link(self.place(id))).await?;
        self.accessed(id);
        Ok(text)
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
        let place = self.under(parent, name);
        let bits = mode & 0o7777;
        let kind =
            kind_of_mode(mode).ok_or(FsError::refused("no such kind of node", Errno::INVAL))?;
        let outcome = if kind == FileKind::Regular {
            let access = Access::default().create_new(bits).umask(umask).inline();
            let make = || async {
                let file = volume.attach(&place, access.clone()).await?;
                file.let_go().await?;
                Ok(file.attributes().clone())
            };
            self.make((parent, name), make).await
        } else {
            let mode = NewMode { bits, umask };
            let make = || volume.make_node(&place, kind, mode, device.into());
            self.make((parent, name), make).await
        };
        let (asked, answer) = outcome?;
        Ok(self.entry(asked, &answer, (parent, name)))
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
        let place = self.under(parent, name);
        let bits = mode & 0o7777;
        let mode = NewMode { bits, umask };
        let lease = self.news.is_live();
        self.absent.may_be_there(parent, self.news.hash(name));
        let asked = self.news.now();
        let directory = self
            .call(|| volume.make_directory_leased(&place, mode, lease))
            .await
            .inspect_err(|_| self.touched(parent))?;
        let answer = Answer::exact(&directory.attributes);
        self.entered(asked, parent, &answer.attr);
        let entry = self.entry(asked, &answer, (parent, name));
        let id = answer.attr.id;
        if directory.leased {
            self.absent.made(id);
            if self.news.since(asked, Subject::File(id)) {
                // Somebody was quick to make something in it.
                self.absent.forget(id);
            }
        }
        Ok(entry)
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
        let place = self.under(parent, name);
        let make = || volume.make_link(&place, text);
        let (asked, answer) = self.make((parent, name), make).await?;
        Ok(self.entry(asked, &answer, (parent, name)))
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
        let place = self.under(parent, name);
        let asked = self.news.now();
        self.absent.may_be_there(parent, self.news.hash(name));
        let attributes = self.call(|| volume.link(self.place(id), &place)).await;
        self.touched(parent);
        let answer = self.complete(attributes?).await?;
        let asked = self.touched_to(asked, &answer, false);
        Ok(self.entry(asked, &answer, (parent, name)))
    }

    /// Removes a name that is no directory.
    pub async fn unlink(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<(), FsError> {
        refuse(&[parent], &[name])?;
        if self.remove_ahead(caller, parent, name).await {
            return Ok(());
        }
        let volume = self.on(caller);
        let place = self.under(parent, name);
        let asked = self.news.now();
        let removed = self.call(|| volume.unlink(&place)).await?;
        self.removed(asked, (parent, name), &removed);
        Ok(())
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
        let place = self.under(parent, name);
        let asked = self.news.now();
        let removed = self.call(|| volume.remove_directory(&place)).await?;
        self.removed(asked, (parent, name), &removed);
        Ok(())
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
        let (old, new) = (self.under(from, from_name), self.under(to, to_name));
        self.absent.may_be_there(to, self.news.hash(to_name));
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.absent.may_be_there(from, self.news.hash(from_name));
        }
        let asked = self.news.now();
        let renamed = match flags {
            0 => self.call(|| volume.rename(&old, &new)).await,
            libc::RENAME_NOREPLACE => self.call(|| volume.rename_new(&old, &new)).await,
            libc::RENAME_EXCHANGE => self.call(|| volume.exchange(&old, &new)).await,
            _ => Err(FsError::refused("no such kind of rename", Errno::INVAL)),
        };
        let renamed = renamed?;
        self.nodes.called(renamed.file, (to, to_name));
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.nodes.called(renamed.other, (from, from_name));
        }
        self.touched(to);
        self.touched(renamed.file);
        self.nodes.unnamed(renamed.other);
        self.touched(renamed.other);
        self.touched(from);
        if flags & libc::RENAME_EXCHANGE == 0 && renamed.file != 0 {
            self.taken_away(asked, from, from_name);
        }
        Ok(())
    }
}
