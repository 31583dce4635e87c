//! POSIX access control lists: the kernel's form of them (version 2), what they allow, and how they
//! are inherited.
//!
//! An access ACL that nine bits can express is the mode and nothing else. Any other is stored
//! beside the mode, which holds the permissions of the owner and of others and, in the group's
//! place, the mask: so `chmod` and the ACL cannot contradict each other.
//!
//! Source: POSIX.1e draft 17, chapter 23; Linux `fs/posix_acl.c`.

use weft_proto::limits::ACL_ENTRIES_MAX;
use weft_proto::meta::Credentials;

use super::permission::in_group;
use crate::records::record::{AclRecord, InodeRecord};

/// The extended attribute of the access ACL.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute of a directory's default ACL.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;
const ENTRY_BYTES: usize = 8;

impl AclRecord {
    /// Decodes the kernel's form. `Ok(None)`: a list without entries, which removes an ACL.
    pub(crate) fn parse(value: &[u8]) -> Result<Option<AclRecord>, &'static str> {
        let (head, entries) = value
            .split_first_chunk::<4>()
            .ok_or("an ACL needs a version")?;
        if u32::from_le_bytes(*head) != VERSION {
            return Err("the ACL does not have version 2");
        }
        if entries.len() % ENTRY_BYTES != 0 || entries.len() / ENTRY_BYTES > ACL_ENTRIES_MAX {
            return Err("an ACL has at most 256 entries of 8 bytes");
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut acl = AclRecord::default();
        let mut last = 0;
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let bits = u32::from(u16::from_le_bytes([entry[2], entry[3]]));
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            if bits > 7 {
                return Err("the permissions of an ACL entry are read, write and execute");
            }
            let many = matches!(tag, USER | GROUP);
            if tag < last || (tag == last && !many) {
                return Err("the entries of an ACL are not in the legal order");
            }
            if many && id == NO_ID {
                return Err("an ACL entry lacks its user or group id");
            }
            last = tag;
            match tag {
                USER_OBJ => acl.owner = bits,
                USER => acl.users.extend([id, bits]),
                GROUP_OBJ => acl.group = bits,
                GROUP => acl.groups.extend([id, bits]),
                MASK => acl.mask = Some(bits),
                OTHER => acl.other = bits,
                _ => return Err("an ACL entry has an unknown tag"),
            }
        }
        let has = |tag: u16| {
            let mut tags = entries.chunks_exact(ENTRY_BYTES);
            tags.any(|entry| entry[..2] == tag.to_le_bytes())
        };
        if !has(USER_OBJ) || !has(GROUP_OBJ) || !has(OTHER) {
            return Err("an ACL needs entries for the owner, the group and others");
        }
        if acl.mask.is_none() && !(acl.users.is_empty() && acl.groups.is_empty()) {
            return Err("an ACL with named users or groups needs a mask");
        }
        Ok(Some(acl))
    }

    /// Encodes the kernel's form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        let mut entry = |tag: u16, bits: u32, id: u32| {
            out.extend(tag.to_le_bytes());
            out.extend((bits as u16).to_le_bytes());
            out.extend(id.to_le_bytes());
        };
        entry(USER_OBJ, self.owner, NO_ID);
        named(&self.users).for_each(|(id, bits)| entry(USER, bits, id));
        entry(GROUP_OBJ, self.group, NO_ID);
        named(&self.groups).for_each(|(id, bits)| entry(GROUP, bits, id));
        if let Some(mask) = self.mask {
            entry(MASK, mask, NO_ID);
        }
        entry(OTHER, self.other, NO_ID);
        out
    }

    /// Whether nine mode bits express it.
    fn is_minimal(&self) -> bool {
        self.mask.is_none()
    }

    /// The nine bits that represent it in a mode.
    fn bits(&self) -> u32 {
        self.owner << 6 | self.mask.unwrap_or(self.group) << 3 | self.other
    }

    /// The record to store beside the mode that has [`AclRecord::bits`].
    fn beside_mode(self) -> Option<AclRecord> {
        (!self.is_minimal()).then_some(AclRecord {
            owner: 0,
            other: 0,
            mask: None,
            ..self
        })
    }

    /// Whether a stored access ACL allows this to a caller that is neither root nor the owner.
    pub(crate) fn allows(
        &self,
        who: &Credentials,
        gid: u32,
        mask: u32,
        other: u32,
        wanted: u32,
    ) -> bool {
        if let Some((_, bits)) = named(&self.users).find(|(id, _)| *id == who.uid) {
            return bits & mask & wanted == wanted;
        }
        let owning = in_group(who, gid).then_some(self.group);
        let named = named(&self.groups).filter(|(id, _)| in_group(who, *id));
        let mut is_member = false;
        for bits in owning.into_iter().chain(named.map(|(_, bits)| bits)) {
            is_member = true;
            if bits & mask & wanted == wanted {
                return true;
            }
        }
        !is_member && other & wanted == wanted
    }
}

fn named(pairs: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

impl InodeRecord {
    /// The complete access ACL; `None`: there are only the nine bits.
    pub(crate) fn access_acl(&self) -> Option<AclRecord> {
        self.acl.as_ref().map(|acl| AclRecord {
            owner: self.mode >> 6 & 7,
            other: self.mode & 7,
            mask: Some(self.mode >> 3 & 7),
            ..acl.clone()
        })
    }

    /// Sets the access ACL; its nine bits become those of the mode.
    pub(crate) fn set_access_acl(&mut self, acl: AclRecord) {
        self.mode = self.mode & !0o777 | acl.bits();
        self.acl = acl.beside_mode();
    }

    /// Gives a new inode its inherited permissions: those of its directory's default ACL that the
    /// requested mode allows, else those of the mode that the umask leaves.
    pub(crate) fn inherit(&mut self, directory: &InodeRecord, umask: u32) {
        let Some(default) = &directory.default_acl else {
            self.mode &= !(umask & 0o777);
            return;
        };
        if self.is_directory() {
            self.default_acl = Some(default.clone());
        }
        let mut acl = default.clone();
        acl.owner &= self.mode >> 6;
        acl.other &= self.mode;
        match &mut acl.mask {
            Some(mask) => *mask &= self.mode >> 3,
            None => acl.group &= self.mode >> 3,
        }
        self.set_access_acl(acl);
    }
}
