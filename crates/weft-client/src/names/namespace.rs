//! The namespace: one request per operation, carried through by the metadata service.

use bytes::Bytes;
use weft_proto::Code;
use weft_proto::limits;
use weft_proto::meta::{
    Entry, FileKind, GetXattrRequest, LinkRequest, ListRequest, ListXattrRequest,
    MakeDirectoryRequest, MakeLinkRequest, MakeNodeRequest, ReadLinkRequest,
    RemoveDirectoryRequest, RemoveXattrRequest, RenameRequest, SetAttributesRequest,
    SetXattrRequest, StatReply, TimeUpdate, TruncateRequest, UnlinkRequest,
};

use crate::policy::Policy;
use crate::volume::Repeat;
use crate::{Access, Attributes, Error, NewLayout, Place, Volume};

/// A directory that was made, and whether it is leased.
pub use weft_proto::meta::MakeDirectoryReply as NewDirectory;
/// Which files a rename was about.
pub use weft_proto::meta::RenameReply as Renamed;
/// Which file lost a name, and how many it has left.
pub use weft_proto::meta::UnlinkReply as Removed;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The metadata service's clock.
    Now,
    /// Nanoseconds since the epoch.
    Nanos(i64),
}

impl From<Time> for TimeUpdate {
    fn from(time: Time) -> TimeUpdate {
        match time {
            Time::Now => TimeUpdate {
                now: true,
                nanos: 0,
            },
            Time::Nanos(nanos) => TimeUpdate { now: false, nanos },
        }
    }
}

/// Attributes to change; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub accessed: Option<Time>,
    /// Last modification.
    pub modified: Option<Time>,
    /// The layout that a directory gives to new files.
    pub layout: Option<NewLayout>,
    /// The consistency policy of a file, or what a directory gives to what is made in it; `Some`
    /// of `None`: none from now on.
    pub policy: Option<Option<Policy>>,
    /// Take the set-id bits away, as a write by an unprivileged user does.
    pub kill_priv: bool,
    /// Change a symbolic link itself.
    pub no_follow: bool,
}

impl From<&Changes> for SetAttributesRequest {
    /// Without the caller and the file.
    fn from(changes: &Changes) -> SetAttributesRequest {
        SetAttributesRequest {
            mode: changes.mode,
            uid: changes.uid,
            gid: changes.gid,
            accessed: changes.accessed.map(Into::into),
            modified: changes.modified.map(Into::into),
            layout: changes.layout.as_ref().map(Into::into),
            policy: changes
                .policy
                .map(|policy| policy.map_or_else(String::new, |p| p.to_string())),
            kill_priv: changes.kill_priv,
            ..SetAttributesRequest::default()
        }
    }
}

/// Permission bits of something new. A number is the bits as they shall be: `0o644.into()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewMode {
    /// The bits asked for.
    pub bits: u32,
    /// Bits taken away from them, unless the default ACL of the directory decides.
    pub umask: u32,
}

impl From<u32> for NewMode {
    fn from(bits: u32) -> NewMode {
        NewMode { bits, umask: 0 }
    }
}

/// Whether an extended attribute that is to be set must be there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// It may be there or not.
    #[default]
    Either,
    /// It must not be there.
    Create,
    /// It must be there.
    Replace,
}

/// A name in a directory and what it names. The size of a file that is being written is the one
/// last reported.
pub type Listed = Entry;

/// A directory being listed, a page per request.
pub struct Listing {
    volume: Volume,
    place: Place,
    after: Bytes,
    done: bool,
    parent: u64,
}

impl Listing {
    /// The next entries, in ascending order of the names' bytes; empty at the end. One request.
    ///
    /// Entries that are there during the whole listing appear exactly once.
    pub async fn page(&mut self) -> Result<Vec<Listed>, Error> {
        if self.done {
            return Ok(Vec::new());
        }
        let request = ListRequest {
            who: (*self.volume.who).clone(),
            target: self.place.target(true)?,
            after: self.after.clone(),
            limit: limits::LIST_PAGE_MAX,
        };
        let what = format!("list {}", self.place);
        let reply = self.volume.meta(&what, &request, Repeat::Safe).await?;
        self.done = !reply.more;
        if let Some(last) = reply.entries.last() {
            self.after = last.name.clone();
        }
        self.parent = reply.directory.parent;
        Ok(reply.entries)
    }

    /// The id of the directory's parent as of the last page; 0: it is the root, or was removed.
    pub fn parent(&self) -> u64 {
        self.parent
    }

    /// Whether a further page may have entries.
    pub fn has_more(&self) -> bool {
        !self.done
    }

    /// All entries that are left.
    pub async fn all(mut self) -> Result<Vec<Listed>, Error> {
        let mut entries = Vec::new();
        loop {
            let page = self.page().await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }
}

impl Volume {
    /// Lists a directory, with attributes.
    pub fn list(&self, place: impl Into<Place>) -> Listing {
        self.list_after(place, Bytes::new())
    }

    /// Lists what comes after a name in a directory, with attributes. The name need not be there.
    pub fn list_after(&self, place: impl Into<Place>, after: Bytes) -> Listing {
        Listing {
            volume: self.clone(),
            place: place.into(),
            after,
            done: false,
            parent: 0,
        }
    }

    /// Creates a directory.
    pub async fn make_directory(
        &self,
        path: impl Into<Place>,
        mode: impl Into<NewMode>,
    ) -> Result<Attributes, Error> {
        let directory = self.make_directory_leased(path, mode, false).await?;
        Ok(directory.attributes)
    }

    /// As [`Volume::make_directory`]; with `lease`, asks for the lease of it: for as long as no
    /// other client changes a name in it, only what this client makes is there. Who changes one is
    /// answered when this client's [`Watch`] has returned it and is asked for more.
    ///
    /// [`Watch`]: crate::Watch
    pub async fn make_directory_leased(
        &self,
        path: impl Into<Place>,
        mode: impl Into<NewMode>,
        lease: bool,
    ) -> Result<NewDirectory, Error> {
        let (path, mode) = (path.into(), mode.into());
        let request = MakeDirectoryRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
            mode: mode.bits,
            umask: mode.umask,
            lease,
        };
        let what = format!("make directory {path}");
        self.meta(&what, &request, Repeat::Unsafe).await
    }

    /// Creates a symbolic link with this text.
    pub async fn make_link(
        &self,
        path: impl Into<Place>,
        text: impl AsRef<[u8]>,
    ) -> Result<Attributes, Error> {
        let path = path.into();
        let request = MakeLinkRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
            text: Bytes::copy_from_slice(text.as_ref()),
        };
        self.changed(format!("make symbolic link {path}"), &request)
            .await
    }

    /// Creates a fifo, socket or device node.
    pub async fn make_node(
        &self,
        path: impl Into<Place>,
        kind: FileKind,
        mode: impl Into<NewMode>,
        device: u64,
    ) -> Result<Attributes, Error> {
        let (path, mode) = (path.into(), mode.into());
        let request = MakeNodeRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
            kind: kind as i32,
            mode: mode.bits,
            umask: mode.umask,
            device,
        };
        self.changed(format!("make node {path}"), &request).await
    }

    /// Gives a file a further name.
    pub async fn link(
        &self,
        source: impl Into<Place>,
        path: impl Into<Place>,
    ) -> Result<Attributes, Error> {
        let (source, path) = (source.into(), path.into());
        self.changes_by_call(&source);
        let request = LinkRequest {
            who: (*self.who).clone(),
            source: source.target(false)?,
            target: path.target(false)?,
        };
        self.changed(format!("link {source} as {path}"), &request)
            .await
    }

    /// Removes a name that is no directory. The file goes when its last name and its last
    /// attachment have gone.
    pub async fn unlink(&self, path: impl Into<Place>) -> Result<Removed, Error> {
        let path = path.into();
        let request = UnlinkRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
        };
        let what = format!("remove {path}");
        let removed: Removed = self.meta(&what, &request, Repeat::Unsafe).await?;
        self.removed_by_call(removed.file);
        Ok(removed)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, path: impl Into<Place>) -> Result<Removed, Error> {
        let path = path.into();
        let request = RemoveDirectoryRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
        };
        let what = format!("remove directory {path}");
        let removed: Removed = self.meta(&what, &request, Repeat::Unsafe).await?;
        self.removed_by_call(removed.file);
        Ok(removed)
    }

    /// Renames; an existing target is replaced.
    pub async fn rename(
        &self,
        from: impl Into<Place>,
        to: impl Into<Place>,
    ) -> Result<Renamed, Error> {
        self.rename_with(from.into(), to.into(), false, false).await
    }

    /// Renames; fails if the target exists.
    pub async fn rename_new(
        &self,
        from: impl Into<Place>,
        to: impl Into<Place>,
    ) -> Result<Renamed, Error> {
        self.rename_with(from.into(), to.into(), true, false).await
    }

    /// Swaps two names.
    pub async fn exchange(
        &self,
        one: impl Into<Place>,
        other: impl Into<Place>,
    ) -> Result<Renamed, Error> {
        self.rename_with(one.into(), other.into(), false, true)
            .await
    }

    async fn rename_with(
        &self,
        from: Place,
        to: Place,
        no_replace: bool,
        exchange: bool,
    ) -> Result<Renamed, Error> {
        self.changes_by_call(&from);
        self.changes_by_call(&to);
        let request = RenameRequest {
            who: (*self.who).clone(),
            source: from.target(false)?,
            target: to.target(false)?,
            no_replace,
            exchange,
        };
        let what = format!("rename {from} to {to}");
        self.meta(&what, &request, Repeat::Unsafe).await
    }

    /// Changes attributes.
    pub async fn set_attributes(
        &self,
        path: impl Into<Place>,
        changes: &Changes,
    ) -> Result<Attributes, Error> {
        let path = path.into();
        self.changes_by_call(&path);
        let request = SetAttributesRequest {
            who: (*self.who).clone(),
            target: path.target(!changes.no_follow)?,
            ..changes.into()
        };
        let what = format!("change attributes of {path}");
        // Twice, it has the same effect.
        let reply = self.meta(&what, &request, Repeat::Safe).await?;
        Ok(reply.attributes)
    }

    /// Sets a file's size in canonical order. A file whose own policy asks for order among
    /// operations, or allows one write only, is attached for it, which costs some more messages.
    pub async fn truncate(&self, path: impl Into<Place>, size: u64) -> Result<Attributes, Error> {
        let path = path.into();
        match self.truncate_unattached(&path, size).await {
            Err(error) if error.code() == Code::Cautious => {}
            done => return done,
        }
        // Boxed: it is rare, and every truncation would be as large.
        Box::pin(self.truncate_attached(path, size)).await
    }

    async fn truncate_attached(&self, path: Place, size: u64) -> Result<Attributes, Error> {
        let file = self.attach(path, Access::write()).await?;
        let truncated = file.truncate(size).await;
        // By its number: its name may be another by now.
        let known = self.stat(Place::of(file.id())).await;
        let closed = file.close().await;
        truncated.and(closed)?;
        known
    }

    async fn truncate_unattached(&self, path: &Place, size: u64) -> Result<Attributes, Error> {
        self.changes_by_call(path);
        let request = TruncateRequest {
            who: (*self.who).clone(),
            target: path.target(true)?,
            size,
            attached: false,
            grow: false,
        };
        self.changed(format!("truncate {path}"), &request).await
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, path: impl Into<Place>) -> Result<Bytes, Error> {
        let path = path.into();
        let request = ReadLinkRequest {
            who: (*self.who).clone(),
            target: path.target(false)?,
        };
        let what = format!("read link {path}");
        Ok(self.meta(&what, &request, Repeat::Safe).await?.text)
    }

    /// The value of an extended attribute.
    pub async fn get_xattr(
        &self,
        path: impl Into<Place>,
        name: impl AsRef<[u8]>,
    ) -> Result<Bytes, Error> {
        let (path, name) = (path.into(), name.as_ref());
        let request = GetXattrRequest {
            who: (*self.who).clone(),
            target: path.target(true)?,
            name: Bytes::copy_from_slice(name),
        };
        let what = format!("get attribute {} of {}", name.escape_ascii(), path);
        Ok(self.meta(&what, &request, Repeat::Safe).await?.value)
    }

    /// Sets an extended attribute, whether it is there or not.
    pub async fn set_xattr(
        &self,
        path: impl Into<Place>,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
    ) -> Result<(), Error> {
        self.set_xattr_with(path, name, value, XattrMode::Either)
            .await
    }

    /// Sets an extended attribute, perhaps only if it is there or if it is not.
    pub async fn set_xattr_with(
        &self,
        path: impl Into<Place>,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        mode: XattrMode,
    ) -> Result<(), Error> {
        let (path, name) = (path.into(), name.as_ref());
        self.changes_by_call(&path);
        let request = SetXattrRequest {
            who: (*self.who).clone(),
            target: path.target(true)?,
            name: Bytes::copy_from_slice(name),
            value: value.into(),
            create: mode == XattrMode::Create,
            replace: mode == XattrMode::Replace,
        };
        let what = format!("set attribute {} of {}", name.escape_ascii(), path);
        let repeat = match mode {
            XattrMode::Either | XattrMode::Replace => Repeat::Safe,
            XattrMode::Create => Repeat::Unsafe,
        };
        self.meta(&what, &request, repeat).await?;
        Ok(())
    }

    /// The names of all extended attributes.
    pub async fn list_xattr(&self, path: impl Into<Place>) -> Result<Vec<Bytes>, Error> {
        let path = path.into();
        let request = ListXattrRequest {
            who: (*self.who).clone(),
            target: path.target(true)?,
        };
        let what = format!("list attributes of {path}");
        Ok(self.meta(&what, &request, Repeat::Safe).await?.names)
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(
        &self,
        path: impl Into<Place>,
        name: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let (path, name) = (path.into(), name.as_ref());
        self.changes_by_call(&path);
        let request = RemoveXattrRequest {
            who: (*self.who).clone(),
            target: path.target(true)?,
            name: Bytes::copy_from_slice(name),
        };
        let what = format!("remove attribute {} of {}", name.escape_ascii(), path);
        self.meta(&what, &request, Repeat::Unsafe).await?;
        Ok(())
    }

    async fn changed<C: weft_proto::Call<Reply = StatReply>>(
        &self,
        what: String,
        request: &C,
    ) -> Result<Attributes, Error> {
        Ok(self.meta(&what, request, Repeat::Unsafe).await?.attributes)
    }
}
