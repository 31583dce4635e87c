//! Reads attributes, and checks permissions.

use std::time::Duration;

use rustix::io::Errno;
use weft_client::{Credentials, FileKind, Place};

use crate::fs::metadata::Attr;
use crate::fs::view_ids::is_view;
use crate::fs::{Caller, Entry, FileSystem, FsError};

impl FileSystem {
    /// Attributes of a node that the kernel knows.
    pub async fn attributes(&self, id: u64) -> Result<Entry, FsError> {
        if is_view(id) {
            return self.view_attributes(id).await;
        }
        let asked = self.metadata.now();
        if let Some(answer) = self.known(id) {
            return Ok(self.metadata.reported(asked, &answer));
        }
        let asking = || self.volume.known_attributes(Place::of(id));
        let attributes = match self.call(asking).await {
            Err(error) if error.is_gone() => return self.nameless(id).ok_or(error),
            attributes => attributes?,
        };
        let answer = self.complete(attributes).await?;
        Ok(self.metadata.reported(asked, &answer))
    }

    /// The last attributes of a node that this mount has removed, so that the volume no longer has
    /// it. `None` for a regular file, which the volume keeps while it is open, and if another
    /// client removed it: then `ESTALE` makes the kernel look its path up again.
    fn nameless(&self, id: u64) -> Option<Entry> {
        let last = self.metadata.nodes().last_of_unnamed(id);
        let attr = last.filter(|attr| attr.kind != FileKind::Regular)?;
        Some(Entry {
            attr: Attr { links: 0, ..attr },
            attr_valid: Duration::ZERO,
            entry_valid: Duration::ZERO,
        })
    }

    /// Whether the caller may do what the bits of `mask` say (4 read, 2 write, 1 execute).
    pub async fn access(&self, caller: Caller, id: u64, mask: u32) -> Result<(), FsError> {
        let who = self.callers.credentials(caller);
        let attr = self.attributes(id).await?.attr;
        if may(&who, &attr, mask & 7) {
            Ok(())
        } else {
            Err(FsError::refused(
                "the permission bits deny access",
                Errno::ACCESS,
            ))
        }
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
    fn exactly_one_class_of_permission_bits_applies() {
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
            "only the class of the owner applies to the owner"
        );
        assert!(may(&who(7, 6, &[]), &attr, 7));
        assert!(may(&who(7, 1, &[6]), &attr, 7));
        assert!(may(&who(7, 1, &[]), &attr, 4));
        assert!(!may(&who(7, 1, &[]), &attr, 2));
        assert!(may(&who(0, 0, &[]), &attr, 7));
    }
}
