//! Attributes: read, change; and how full the volume is.

use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::time::Instant;
use weft_client::{Changes, Credentials, FileKind, Place, Quota, QuotaKind, ServerState, Time};

use super::files::now;
use super::kept::{is_kept, read_only};
use super::views::is_view;
use super::{Attr, Caller, Entry, FileSystem, FsError};
use crate::limits::SPACE_VALID;

/// Attributes to change; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<Time>,
    /// Last modification.
    pub modified: Option<Time>,
    /// The set-id bits go, because the size changes.
    pub kill_set_id: bool,
}

/// How full a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes left.
    pub available: u64,
    /// Files and directories; in a tree with a quota, as many as it may have.
    pub files: u64,
    /// How many more there may be.
    pub files_free: u64,
    /// It is a quota that leaves no more bytes than that.
    pub by_quota: bool,
}

/// No table of files runs out; programs want a number.
const FILES_FREE: u64 = 1 << 40;

impl Space {
    /// What is left of it in a tree with this quota.
    fn within(&mut self, quota: &Quota) {
        if let Some(most) = quota.bytes_max {
            self.capacity = self.capacity.min(most);
            let left = most.saturating_sub(quota.bytes);
            self.by_quota |= left < self.available;
            self.available = self.available.min(left);
        }
        if let Some(most) = quota.files_max {
            self.files = self.files.min(most);
            let left = most.saturating_sub(quota.files);
            self.files_free = self.files_free.min(left);
        }
    }
}

/// What the volume last said of its space.
#[derive(Debug, Default)]
pub(super) struct SpaceCache(Mutex<Option<(Instant, u64, Space)>>);

/// Root, for what the kernel has decided already.
pub(super) fn root() -> Credentials {
    Credentials::default()
}

impl FileSystem {
    /// Attributes of a node that the kernel knows.
    pub async fn attributes(&self, id: u64) -> Result<Entry, FsError> {
        if is_view(id) {
            return self.view_attributes(id).await;
        }
        let asked = self.news.now();
        if let Some(answer) = self.known(id) {
            return Ok(self.told(asked, &answer));
        }
        let asking = || self.volume.known_attributes(Place::of(id));
        let attributes = match self.call(asking).await {
            Err(error) if error.is_gone() => return self.nameless(id).ok_or(error),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        Ok(self.told(asked, &answer))
    }

    /// What a node that the volume does not have any more, because this mount removed it, was at
    /// last; `None` for a regular file, which the volume has as long as it is open, and where
    /// another removed it: `ESTALE` makes the kernel look its path up again.
    fn nameless(&self, id: u64) -> Option<Entry> {
        let last = self.nodes.last(id);
        let attr = last.filter(|attr| attr.kind != FileKind::Regular)?;
        Some(Entry {
            attr: Attr { links: 0, ..attr },
            attr_valid: Duration::ZERO,
            entry_valid: Duration::ZERO,
        })
    }

    /// Changes attributes; `handle` is the open file by which it is asked, if any.
    pub async fn change(
        &self,
        caller: Caller,
        id: u64,
        handle: Option<u64>,
        change: &Changed,
    ) -> Result<Entry, FsError> {
        if is_view(id) {
            if is_kept(id) {
                return Err(read_only());
            }
            // A view ends where its file does: programs that empty a file before they write it mean
            // no harm.
            return self.view_attributes(id).await;
        }
        if let Some(size) = change.size {
            if let Some(handle) = handle.filter(|_| change.kill_set_id) {
                // Another may have opened it.
                let handle = self.handles.get(handle)?;
                self.strip(&handle, Some(caller)).await?;
            }
            self.resize(caller, id, handle, size).await?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            // A write that reaches the servers later would set the time again.
            self.flush_all(id).await?;
        }
        let changes = Changes {
            mode: change.mode,
            uid: change.uid,
            gid: change.gid,
            accessed: change.accessed,
            modified: change.modified,
            layout: None,
            kill_priv: change.kill_set_id,
            no_follow: true,
        };
        let asks = changes.mode.is_some()
            || changes.uid.is_some()
            || changes.gid.is_some()
            || changes.accessed.is_some()
            || changes.modified.is_some()
            || (changes.kill_priv && change.size.is_none());
        if !asks {
            return self.attributes(id).await;
        }
        if changes.accessed.is_some() {
            // A read before would be told later, and set the time again.
            self.volume.forget_access(id).await;
        }
        let volume = self.on(caller);
        let asked = self.news.now();
        let attributes = self
            .call(|| volume.set_attributes(self.place(id), &changes))
            .await?;
        if changes.accessed.is_some() {
            self.nodes.forget_access(id);
        }
        if change.modified.is_some() {
            self.files.time_set(id);
        }
        let answer = self.complete(attributes).await?;
        let asked = self.touched_to(asked, &answer, false);
        Ok(self.told(asked, &answer))
    }

    async fn resize(
        &self,
        caller: Caller,
        id: u64,
        handle: Option<u64>,
        size: u64,
    ) -> Result<(), FsError> {
        let began = now();
        if let Some(handle) = handle {
            let handle = self.handles.get(handle)?;
            handle.writable()?;
            handle.truncate(size).await?;
        } else {
            self.flush_all(id).await?;
            let volume = self.on(caller);
            let cut = async {
                let cut = || volume.truncate(self.place(id), size);
                self.call(cut).await.map(drop)
            };
            // Whoever has it open here must know, too, also if it only reads.
            match self.files.any(id) {
                Some(open) => open.data.truncate_by(size, cut).await?,
                None => cut.await?,
            }
        }
        self.resized(id, began);
        Ok(())
    }

    /// Whether the caller may do what the bits of `mask` say (4 read, 2 write, 1 execute).
    pub async fn access(&self, caller: Caller, id: u64, mask: u32) -> Result<(), FsError> {
        let who = self.callers.credentials(caller);
        let attr = self.attributes(id).await?.attr;
        if may(&who, &attr, mask & 7) {
            Ok(())
        } else {
            Err(FsError::refused(
                "the permission bits do not allow it",
                Errno::ACCESS,
            ))
        }
    }

    /// How full the volume is for a file or directory: where it lies in a tree with a quota, what
    /// that has left.
    pub async fn space(&self, id: u64) -> Result<Space, FsError> {
        if let Some((when, of, space)) = *self.space.0.lock()
            && of == id
            && when.elapsed() < SPACE_VALID
        {
            return Ok(space);
        }
        let map = self.call(|| self.volume.server_map()).await?;
        let mut space = Space {
            files: map.files.saturating_add(FILES_FREE),
            files_free: FILES_FREE,
            ..Space::default()
        };
        for server in map
            .servers
            .iter()
            .filter(|s| s.state == ServerState::Up as i32)
        {
            space.capacity = space.capacity.saturating_add(server.usage.capacity);
            space.available = space.available.saturating_add(server.usage.available);
        }
        if !is_view(id) {
            let volume = self.volume.on_behalf_of(root());
            match volume.quotas_of(Place::of(id)).await {
                Ok(quotas) => {
                    let trees = quotas.iter().filter(|q| q.kind == QuotaKind::Tree);
                    trees.for_each(|quota| space.within(quota));
                }
                // Of what is deleted nobody knows where it lay.
                Err(error) => tracing::debug!(%error, file = id, "its quotas are not known"),
            }
        }
        *self.space.0.lock() = Some((Instant::now(), id, space));
        Ok(space)
    }
}

fn may(who: &Credentials, attr: &Attr, mask: u32) -> bool {
    if who.uid == 0 {
        let executable = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return mask & 1 == 0 || executable;
    }
    let bits = if who.uid == attr.uid {
        attr.mode >> 6
    } else if who.gid == attr.gid || who.groups.contains(&attr.gid) {
        attr.mode >> 3
    } else {
        attr.mode
    };
    bits & mask == mask
}

#[cfg(test)]
mod tests {
    use weft_client::Attributes;

    use super::*;

    #[test]
    fn exactly_one_class_of_bits_counts() {
        let attr = Attr::from(&Attributes {
            kind: FileKind::Regular as i32,
            mode: 0o074,
            uid: 5,
            gid: 6,
            ..Attributes::default()
        });
        let who = |uid, gid, groups: &[u32]| Credentials {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        assert!(
            !may(&who(5, 6, &[]), &attr, 4),
            "the owner has none, whatever the group has"
        );
        assert!(may(&who(7, 6, &[]), &attr, 7));
        assert!(may(&who(7, 1, &[6]), &attr, 7));
        assert!(may(&who(7, 1, &[]), &attr, 4));
        assert!(!may(&who(7, 1, &[]), &attr, 2));
        assert!(may(&who(0, 0, &[]), &attr, 7));
    }
}
