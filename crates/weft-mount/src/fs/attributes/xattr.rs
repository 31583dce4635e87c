//! Extended attributes.

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Changes, Place, XattrMode};
use weft_proto::Code;
use weft_proto::meta::ROOT;

use super::layout::LAYOUT_XATTR;
use super::policy::POLICY_XATTR;
use crate::fs::files::CAPABILITY;
use crate::fs::request_counts::COUNTS_XATTR;
use crate::fs::view_ids::{is_view, unsupported_in_views};
use crate::fs::{Caller, FileSystem, FsError};

/// On the root directory: the id of the process behind the mount, so that an unmount can wait for
/// it.
pub const PROCESS_XATTR: &str = "user.weft.process";

/// On the root directory: [`Options::volume`](crate::fs::Options::volume). Not under `user.`, where
/// the kernel checks permissions first, which may have to come from an unreachable service.
pub const VOLUME_XATTR: &str = "system.weft.volume";

/// On the root directory: [`Options::fixed`](crate::fs::Options::fixed).
pub const OPTIONS_XATTR: &str = "system.weft.options";

/// Weft's attributes under `user.`, which programs cannot set.
const RESERVED: &[u8] = b"user.weft.";

/// Except these, which copies of a file carry along: an array's description, an import's source.
const COPIED: [&[u8]; 2] = [b"user.weft.array", b"user.weft.import"];

/// Access control lists.
const ACL: &[u8] = b"system.posix_acl_";

/// The access control list that decides beside the permission bits.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The access control list that new files in a directory get.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The name spaces that a file's attributes cover when they say that it has none.
const NAME_SPACES: [&[u8]; 3] = [ACL, b"security.", b"user."];

/// Whether an attribute that is set must exist already.
pub use weft_client::XattrMode as SetMode;

/// The permission bits that say all that an access control list says, if it names nobody.
fn bits_of_acl(list: &[u8]) -> Option<u32> {
    const VERSION: u32 = 2;
    const TAGS: [u16; 3] = [0x01, 0x04, 0x20];
    let (version, entries) = list.split_first_chunk()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || entries.len() != TAGS.len() || !rest.is_empty() {
        return None;
    }
    let mut bits = 0;
    for ([tag, tag_high, allowed, allowed_high, ..], expected) in entries.iter().zip(TAGS) {
        let allowed = u16::from_le_bytes([*allowed, *allowed_high]);
        if u16::from_le_bytes([*tag, *tag_high]) != expected || allowed > 7 {
            return None;
        }
        bits = bits << 3 | u32::from(allowed);
    }
    Some(bits)
}

fn no_acl() -> FsError {
    FsError::refused("the service has no access control lists", Errno::OPNOTSUPP)
}

impl FileSystem {
    /// The value of an attribute.
    pub async fn get_xattr(&self, caller: Caller, id: u64, name: &[u8]) -> Result<Bytes, FsError> {
        if is_view(id) && name.starts_with(ACL) {
            // An error of a missing feature would hide that the permission bits decide.
            return Err(FsError::refused(
                "views have no access control lists",
                Errno::NODATA,
            ));
        }
        if is_view(id) {
            return Err(unsupported_in_views());
        }
        if name == LAYOUT_XATTR {
            return self.layout(id).await;
        }
        if name == POLICY_XATTR {
            return self.policy(id).await;
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
            return Ok(self.counts.text(&self.volume).into());
        }
        if self.lacks(id, name) {
            return Err(FsError::refused(
                "the attribute does not exist",
                Errno::NODATA,
            ));
        }
        let acl = name.starts_with(ACL);
        if acl && self.acl.is_missing() {
            return Err(no_acl());
        }
        let volume = self.on(caller);
        let value = self.call(|| volume.get_xattr(Place::of(id), name)).await;
        if let Err(FsError::Volume(error)) = &value
            && acl
            && error.code() == Code::Unsupported
        {
            self.acl.note_missing();
        }
        value
    }

    /// Whether a file certainly lacks this attribute: the kernel asks for some before each write.
    pub(in crate::fs) fn lacks(&self, id: u64, name: &[u8]) -> bool {
        let space = NAME_SPACES.iter().any(|space| name.starts_with(space));
        space && self.metadata.is_live() && self.metadata.nodes().is_bare(id)
    }

    /// An attribute of a file was changed.
    pub(in crate::fs) fn extended(&self, id: u64, name: &[u8]) {
        for handle in self.files.all(id) {
            handle.note_attributes_set();
        }
        self.metadata.touched(id);
        self.metadata.nodes().doubt(id, true);
        if name.starts_with(ACL) {
            // The permission bits follow the list.
            self.metadata.attributes_changed(id);
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
            return Err(unsupported_in_views());
        }
        if name == LAYOUT_XATTR {
            return self.set_layout(caller, id, &value).await;
        }
        if name == POLICY_XATTR {
            return self.set_policy(caller, id, &value).await;
        }
        if name.starts_with(RESERVED) && !COPIED.iter().any(|copied| name.starts_with(copied)) {
            return Err(FsError::refused(
                "this attribute of Weft cannot be set",
                Errno::OPNOTSUPP,
            ));
        }
        let volume = self.on(caller);
        if name == ACCESS_ACL
            && mode == XattrMode::Either
            && let Some(bits) = bits_of_acl(&value)
        {
            let changes = Changes {
                mode: Some(bits),
                no_follow: true,
                ..Changes::default()
            };
            if self
                .change_delegated(&volume, id, &changes)
                .await?
                .is_some()
            {
                self.metadata.attributes_changed(id);
                return Ok(());
            }
        }
        self.forget_kept(id).await;
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
        if self.metadata.is_live() && self.metadata.nodes().is_bare(id) {
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
            return Err(unsupported_in_views());
        }
        let volume = self.on(caller);
        if name == LAYOUT_XATTR {
            // Back to the volume's default.
            return self.set_layout(caller, id, b"").await;
        }
        if name == POLICY_XATTR {
            return self.set_policy(caller, id, b"").await;
        }
        if name == CAPABILITY {
            return self.drop_capability(id).await;
        }
        // `cp -a` removes it from each directory that it makes.
        let owned = |uid| caller.uid == 0 || caller.uid == uid;
        if name == DEFAULT_ACL
            && self.lacks(id, name)
            && self.known(id).is_some_and(|node| owned(node.attr.uid))
        {
            return Ok(());
        }
        self.forget_kept(id).await;
        self.call(|| volume.remove_xattr(Place::of(id), name))
            .await?;
        self.extended(id, name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, allowed) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(allowed.to_le_bytes());
            list.extend(u32::MAX.to_le_bytes());
        }
        list
    }

    #[test]
    fn a_list_that_names_nobody_says_what_permission_bits_say() {
        let plain = [(0x01, 6), (0x04, 4), (0x20, 0)];
        assert_eq!(bits_of_acl(&list(&plain)), Some(0o640));
        let named = [(0x01, 6), (0x02, 7), (0x04, 4), (0x10, 7), (0x20, 0)];
        assert_eq!(bits_of_acl(&list(&named)), None);
        assert_eq!(bits_of_acl(&list(&[(0x01, 8), (0x04, 4), (0x20, 0)])), None);
        assert_eq!(bits_of_acl(&list(&plain)[..20]), None);
        let mut newer = list(&plain);
        newer[0] = 3;
        assert_eq!(bits_of_acl(&newer), None);
        assert_eq!(bits_of_acl(b""), None);
    }
}
