//! The namespace: one request per operation, carried through by the metadata service.

use bytes::Bytes;
use weft_proto::limits;
use weft_proto::meta::{
    Entry, FileKind, GetXattrRequest, LinkRequest, ListRequest, ListXattrRequest,
    MakeDirectoryRequest, MakeLinkRequest, MakeNodeRequest, ReadLinkRequest,
    RemoveDirectoryRequest, RemoveXattrRequest, RenameRequest, SetAttributesRequest,
    SetXattrRequest, StatReply, TimeWish, TruncateRequest, UnlinkRequest,
};

use crate::attach::{show, target};
use crate::volume::Repeat;
use crate::{Attributes, Error, NewLayout, Volume};

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The metadata service's clock.
    Now,
    /// Nanoseconds since the epoch.
    Nanos(i64),
}

impl From<Time> for TimeWish {
    fn from(time: Time) -> TimeWish {
        match time {
            Time::Now => TimeWish {
                now: true,
                nanos: 0,
            },
            Time::Nanos(nanos) => TimeWish { now: false, nanos },
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
    /// Change a symbolic link itself.
    pub no_follow: bool,
}

/// A name in a directory and what it names. The size of a file that is being written is the one last reported.
pub type Listed = Entry;

/// A directory being listed, a page per request.
pub struct Listing {
    volume: Volume,
    path: Vec<u8>,
    after: Bytes,
    done: bool,
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
            target: target(&self.path, true)?,
            after: self.after.clone(),
            limit: limits::LIST_PAGE_MAX,
        };
        let what = format!("list {}", show(&self.path));
        let reply = self.volume.meta(&what, &request, Repeat::Safe).await?;
        self.done = !reply.more;
        if let Some(last) = reply.entries.last() {
            self.after = last.name.clone();
        }
        Ok(reply.entries)
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
    pub fn list(&self, path: impl AsRef<[u8]>) -> Listing {
        Listing {
            volume: self.clone(),
            path: path.as_ref().to_vec(),
            after: Bytes::new(),
            done: false,
        }
    }

    /// Creates a directory.
    pub async fn make_directory(
        &self,
        path: impl AsRef<[u8]>,
        mode: u32,
    ) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let request = MakeDirectoryRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
            mode,
        };
        self.changed(format!("make directory {}", show(path)), &request)
            .await
    }

    /// Creates a symbolic link with this text.
    pub async fn make_link(
        &self,
        path: impl AsRef<[u8]>,
        text: impl AsRef<[u8]>,
    ) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let request = MakeLinkRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
            text: Bytes::copy_from_slice(text.as_ref()),
        };
        self.changed(format!("make symbolic link {}", show(path)), &request)
            .await
    }

    /// Creates a fifo, socket or device node.
    pub async fn make_node(
        &self,
        path: impl AsRef<[u8]>,
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let request = MakeNodeRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
            kind: kind as i32,
            mode,
            device,
        };
        self.changed(format!("make node {}", show(path)), &request)
            .await
    }

    /// Gives a file a further name.
    pub async fn link(
        &self,
        source: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
    ) -> Result<Attributes, Error> {
        let (source, path) = (source.as_ref(), path.as_ref());
        let request = LinkRequest {
            who: (*self.who).clone(),
            source: target(source, false)?,
            target: target(path, false)?,
        };
        self.changed(format!("link {} as {}", show(source), show(path)), &request)
            .await
    }

    /// Removes a name that is no directory. The file goes when its last name and its last attachment have gone.
    pub async fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let request = UnlinkRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
        };
        self.meta(&format!("remove {}", show(path)), &request, Repeat::Unsafe)
            .await?;
        Ok(())
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let request = RemoveDirectoryRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
        };
        self.meta(
            &format!("remove directory {}", show(path)),
            &request,
            Repeat::Unsafe,
        )
        .await?;
        Ok(())
    }

    /// Renames; an existing target is replaced.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        self.rename_with(from.as_ref(), to.as_ref(), false, false)
            .await
    }

    /// Renames; fails if the target exists.
    pub async fn rename_new(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.rename_with(from.as_ref(), to.as_ref(), true, false)
            .await
    }

    /// Swaps two names.
    pub async fn exchange(
        &self,
        one: impl AsRef<[u8]>,
        other: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.rename_with(one.as_ref(), other.as_ref(), false, true)
            .await
    }

    async fn rename_with(
        &self,
        from: &[u8],
        to: &[u8],
        no_replace: bool,
        exchange: bool,
    ) -> Result<(), Error> {
        let request = RenameRequest {
            who: (*self.who).clone(),
            source: target(from, false)?,
            target: target(to, false)?,
            no_replace,
            exchange,
        };
        let what = format!("rename {} to {}", show(from), show(to));
        self.meta(&what, &request, Repeat::Unsafe).await?;
        Ok(())
    }

    /// Changes attributes.
    pub async fn set_attributes(
        &self,
        path: impl AsRef<[u8]>,
        changes: &Changes,
    ) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let request = SetAttributesRequest {
            who: (*self.who).clone(),
            target: target(path, !changes.no_follow)?,
            mode: changes.mode,
            uid: changes.uid,
            gid: changes.gid,
            accessed: changes.accessed.map(Into::into),
            modified: changes.modified.map(Into::into),
            layout: changes.layout.as_ref().map(Into::into),
        };
        self.changed(format!("change attributes of {}", show(path)), &request)
            .await
    }

    /// Sets a file's size in canonical order.
    pub async fn truncate(&self, path: impl AsRef<[u8]>, size: u64) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let request = TruncateRequest {
            who: (*self.who).clone(),
            target: target(path, true)?,
            size,
            attached: false,
        };
        self.changed(format!("truncate {}", show(path)), &request)
            .await
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        let path = path.as_ref();
        let request = ReadLinkRequest {
            who: (*self.who).clone(),
            target: target(path, false)?,
        };
        let what = format!("read link {}", show(path));
        Ok(self.meta(&what, &request, Repeat::Safe).await?.text)
    }

    /// The value of an extended attribute.
    pub async fn get_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
    ) -> Result<Bytes, Error> {
        let (path, name) = (path.as_ref(), name.as_ref());
        let request = GetXattrRequest {
            who: (*self.who).clone(),
            target: target(path, true)?,
            name: Bytes::copy_from_slice(name),
        };
        let what = format!("get attribute {} of {}", show(name), show(path));
        Ok(self.meta(&what, &request, Repeat::Safe).await?.value)
    }

    /// Sets an extended attribute, whether it is there or not.
    pub async fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
    ) -> Result<(), Error> {
        let (path, name) = (path.as_ref(), name.as_ref());
        let request = SetXattrRequest {
            who: (*self.who).clone(),
            target: target(path, true)?,
            name: Bytes::copy_from_slice(name),
            value: value.into(),
            create: false,
            replace: false,
        };
        let what = format!("set attribute {} of {}", show(name), show(path));
        self.meta(&what, &request, Repeat::Safe).await?;
        Ok(())
    }

    /// The names of all extended attributes.
    pub async fn list_xattr(&self, path: impl AsRef<[u8]>) -> Result<Vec<Bytes>, Error> {
        let path = path.as_ref();
        let request = ListXattrRequest {
            who: (*self.who).clone(),
            target: target(path, true)?,
        };
        let what = format!("list attributes of {}", show(path));
        Ok(self.meta(&what, &request, Repeat::Safe).await?.names)
    }

    /// Removes an extended attribute.
    pub async fn remove_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let (path, name) = (path.as_ref(), name.as_ref());
        let request = RemoveXattrRequest {
            who: (*self.who).clone(),
            target: target(path, true)?,
            name: Bytes::copy_from_slice(name),
        };
        let what = format!("remove attribute {} of {}", show(name), show(path));
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
