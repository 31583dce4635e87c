//! Extended attributes, the layout among them: `user.weft.layout` is text that people can read and
//! write.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::time::Instant;
use weft_client::{Attributes, Changes, FileKind, Place, XattrMode};
use weft_proto::Code;
use weft_proto::meta::ROOT;

use super::privileges::CAPABILITY;
use super::views::{is_view, unsupported};
use super::{COUNTS_XATTR, Caller, FileSystem, FsError};
use crate::layout_text;

/// The layout of a file, or what a directory gives to new files, as text.
const LAYOUT: &[u8] = b"user.weft.layout";
/// On the root directory: the number of the process behind the mount, so that who unmounts can wait
/// for it.
pub const PROCESS_XATTR: &str = "user.weft.process";
/// On the root directory: [`Options::volume`](super::Options::volume). Not under `user.`, where the
/// kernel asks for permissions first, and those may have to come from a service that is away.
pub const VOLUME_XATTR: &str = "system.weft.volume";
/// On the root directory: [`Options::fixed`](super::Options::fixed).
pub const OPTIONS_XATTR: &str = "system.weft.options";
/// What Weft keeps under `user.`: programs set no other name of it.
const OURS: &[u8] = b"user.weft.";
/// Those that copies of a file may carry along: what an array is, and where an import came from.
const CARRIED: [&[u8]; 2] = [b"user.weft.array", b"user.weft.import"];
/// Access control lists.
const ACL: &[u8] = b"system.posix_acl_";
/// Attributes of which a file says whether it has any.
const SPACES: [&[u8]; 3] = [ACL, b"security.", b"user."];

use crate::limits::{LAYOUT_CLOSE_GRACE, LAYOUT_RETRY_INTERVAL};
/// Whether an attribute that is to be set must be there already.
pub use weft_client::XattrMode as SetMode;

/// Whether the service has access control lists; the kernel asks for them before most permission
/// checks.
#[derive(Debug, Default)]
pub(super) struct AclSupport {
    missing: AtomicBool,
}

fn no_acl() -> FsError {
    FsError::refused(
        "the service keeps no access control lists",
        Errno::OPNOTSUPP,
    )
}

impl FileSystem {
    /// The value of an attribute.
    pub async fn get_xattr(&self, caller: Caller, id: u64, name: &[u8]) -> Result<Bytes, FsError> {
        if is_view(id) && name.starts_with(ACL) {
            // Whoever is not allowed by what `stat` shows would be told that nothing is supported.
            return Err(FsError::refused("views have no lists", Errno::NODATA));
        }
        if is_view(id) {
            return Err(unsupported());
        }
        if name == LAYOUT {
            return self.layout(id).await;
        }
        if name == PROCESS_XATTR.as_bytes() && id == ROOT {
            return Ok(std::process::id().to_string().into());
        }
        if name == VOLUME_XATTR.as_bytes() && id == ROOT {
            return Ok(self.options.volume.clone().into());
        }
        if name == OPTIONS_XATTR.as_bytes() && id == ROOT {
            return Ok(self.options.fixed.clone().into());
        }
        if name == COUNTS_XATTR.as_bytes() && id == ROOT {
            return Ok(self.counts().into());
        }
        if self.lacks(id, name) {
            return Err(FsError::refused(
                "there is no such attribute",
                Errno::NODATA,
            ));
        }
        let acl = name.starts_with(ACL);
        if acl && self.acl.missing.load(Ordering::Relaxed) {
            return Err(no_acl());
        }
        let volume = self.on(caller);
        let value = self.call(|| volume.get_xattr(Place::of(id), name)).await;
        if let Err(FsError::Volume(error)) = &value
            && acl
            && error.code() == Code::Unsupported
        {
            self.acl.missing.store(true, Ordering::Relaxed);
        }
        value
    }

    /// Whether a file certainly does not have this attribute: the kernel asks for some before each
    /// write.
    pub(super) fn lacks(&self, id: u64, name: &[u8]) -> bool {
        let space = SPACES.iter().any(|space| name.starts_with(space));
        space && self.news.is_live() && self.nodes.is_bare(id)
    }

    /// An attribute of a file was changed.
    pub(super) fn extended(&self, id: u64, name: &[u8]) {
        for handle in self.files.all(id) {
            handle.stripped.store(false, Ordering::Release);
        }
        self.touched(id);
        self.nodes.doubt(id, true);
        if name.starts_with(ACL) {
            // The permission bits follow the list.
            self.attributes_changed(id);
        }
    }

    /// Sets an attribute.
    pub async fn set_xattr(
        &self,
        caller: Caller,
        id: u64,
        name: &[u8],
        value: Bytes,
        mode: XattrMode,
    ) -> Result<(), FsError> {
        if is_view(id) {
            return Err(unsupported());
        }
        if name == LAYOUT {
            return self.set_layout(caller, id, &value).await;
        }
        if name.starts_with(OURS) && !CARRIED.iter().any(|carried| name.starts_with(carried)) {
            return Err(FsError::refused(
                "Weft has no such attribute to set",
                Errno::OPNOTSUPP,
            ));
        }
        let volume = self.on(caller);
        self.call(|| volume.set_xattr_with(Place::of(id), name, value.clone(), mode))
            .await?;
        self.extended(id, name);
        Ok(())
    }

    /// The names of all attributes, each with a zero behind it.
    pub async fn list_xattr(&self, caller: Caller, id: u64) -> Result<Vec<u8>, FsError> {
        if is_view(id) {
            return Ok(Vec::new());
        }
        if self.news.is_live() && self.nodes.is_bare(id) {
            return Ok(Vec::new());
        }
        let volume = self.on(caller);
        let names = self.call(|| volume.list_xattr(Place::of(id))).await?;
        let mut out = Vec::new();
        for name in names {
            out.extend_from_slice(&name);
            out.push(0);
        }
        Ok(out)
    }

    /// Removes an attribute.
    pub async fn remove_xattr(&self, caller: Caller, id: u64, name: &[u8]) -> Result<(), FsError> {
        if is_view(id) {
            return Err(unsupported());
        }
        let volume = self.on(caller);
        if name == LAYOUT {
            // Back to what the volume gives.
            return self.set_layout(caller, id, b"").await;
        }
        if name == CAPABILITY {
            return self.drop_capability(id).await;
        }
        self.call(|| volume.remove_xattr(Place::of(id), name))
            .await?;
        self.extended(id, name);
        Ok(())
    }

    async fn layout(&self, id: u64) -> Result<Bytes, FsError> {
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(id)))
            .await?;
        let layout = attributes.layout.as_ref();
        let text = layout
            .map(layout_text::show)
            .filter(|text| !text.is_empty());
        text.map(Bytes::from)
            .ok_or(FsError::refused("no layout is set", Errno::NODATA))
    }

    async fn set_layout(&self, caller: Caller, id: u64, text: &[u8]) -> Result<(), FsError> {
        let layout = layout_text::parse(text).map_err(|why| {
            tracing::info!(file = self.shown(id), %why, "a layout was refused");
            FsError::refused("this is no layout", Errno::INVAL)
        })?;
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(id)))
            .await?;
        if attributes.kind == FileKind::Regular as i32 {
            self.may_be_laid_out(&attributes).await?;
        } else if attributes.kind != FileKind::Directory as i32 {
            return Err(FsError::refused(
                "only files and directories have a layout",
                Errno::OPNOTSUPP,
            ));
        }
        let changes = Changes {
            layout: Some(layout),
            ..Changes::default()
        };
        let volume = self.on(caller);
        let set = || async {
            match volume.set_attributes(self.place(id), &changes).await {
                Err(error) if error.code() == Code::Busy => Ok(false),
                done => done.map(|_| true),
            }
        };
        let deadline = Instant::now() + LAYOUT_CLOSE_GRACE;
        while !self.files.all(id).is_empty() || !self.call(set).await? {
            if Instant::now() > deadline {
                return Err(FsError::refused("the file is open somewhere", Errno::BUSY));
            }
            tokio::time::sleep(LAYOUT_RETRY_INTERVAL).await;
        }
        // New files in it have another layout from now on.
        self.volume.end_delegation(id);
        Ok(())
    }

    /// A file gets another layout only where nothing would have to move; the service looks at the
    /// rest.
    async fn may_be_laid_out(&self, attributes: &Attributes) -> Result<(), FsError> {
        let forks = self.call(|| self.volume.forks(attributes)).await?;
        if forks.iter().any(|fork| fork.length > 0) {
            return Err(FsError::refused("the file holds data", Errno::NOTEMPTY));
        }
        Ok(())
    }
}
