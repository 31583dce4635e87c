//! Files that this client made in directories that it holds since: no other client knows of them,
//! so their attributes may be changed here, too.
//!
//! Invariants:
//! 1. A file is here only while its directory is delegated to this client, and only under the name
//!    under which it was made.
//! 2. Its attributes are those that the service has once it knows all that was noted.

use std::collections::HashMap;

use bytes::Bytes;
use weft_proto::meta::{Attributes, Credentials, SetAttributesRequest, TimeUpdate};

use crate::limits::MADE_FILES_MAX;

/// Bits that only some callers may set, and that many calls take away.
const SPECIAL: u32 = 0o7000;

/// A file that this client made.
pub(crate) struct MadeFile {
    directory: u64,
    name: Bytes,
    attributes: Attributes,
    /// How many changes of attributes had been made here at its last one.
    set_here: u64,
}

impl MadeFile {
    /// A file with these attributes, of this name in this directory.
    pub(crate) fn new(directory: u64, name: Bytes, attributes: Attributes) -> MadeFile {
        MadeFile {
            directory,
            name,
            attributes,
            set_here: 0,
        }
    }

    /// Its directory and its name there.
    pub(crate) fn place(&self) -> (u64, Bytes) {
        (self.directory, self.name.clone())
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Its bytes are in its cells: only the servers know how many.
    pub(crate) fn spilled(&mut self) {
        (self.attributes.inline, self.attributes.size_exact) = (false, false);
    }

    /// Takes the service's answer to a call that began when `set_here` changes of attributes had
    /// been made here; false if one was made since.
    pub(crate) fn refresh(&mut self, attributes: &Attributes, set_here: u64) -> bool {
        let is_current = self.set_here <= set_here;
        if is_current {
            self.attributes.clone_from(attributes);
        }
        is_current
    }

    /// All its bytes were stored, last written at `modified`.
    pub(crate) fn stored(&mut self, length: u64, modified: i64) {
        let attributes = &mut self.attributes;
        attributes.size = length;
        if modified > attributes.modified_set {
            attributes.modified = attributes.modified.max(modified);
        }
        attributes.changed = attributes.changed.max(modified);
    }

    /// Changes attributes on behalf of `who`, as the change with the number `set_here`, and returns
    /// what the service is to set; `None` where the service might decide otherwise.
    pub(crate) fn set(
        &mut self,
        changes: SetAttributesRequest,
        who: &Credentials,
        now: i64,
        set_here: u64,
    ) -> Option<SetAttributesRequest> {
        let attributes = &mut self.attributes;
        let is_root = who.uid == 0;
        let others = changes.layout.is_some() || changes.policy.is_some();
        let special = (attributes.mode | changes.mode.unwrap_or(0)) & SPECIAL != 0;
        let own_group = |gid| who.gid == gid || who.groups.contains(&gid);
        let gives_away = changes.uid.is_some_and(|uid| uid != attributes.uid)
            || changes
                .gid
                .is_some_and(|gid| gid != attributes.gid && !own_group(gid));
        if others || special || attributes.xattrs {
            return None;
        }
        if !is_root && (who.uid != attributes.uid || gives_away) {
            return None;
        }
        let at = |time: TimeUpdate| if time.now { now } else { time.nanos };
        let (accessed, modified) = (changes.accessed.map(at), changes.modified.map(at));
        attributes.mode = changes.mode.unwrap_or(attributes.mode);
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        attributes.accessed = accessed.unwrap_or(attributes.accessed);
        if let Some(modified) = modified {
            (attributes.modified, attributes.modified_set) = (modified, now);
        }
        attributes.changed = now;
        self.set_here = set_here;
        let update = |nanos| TimeUpdate { now: false, nanos };
        Some(SetAttributesRequest {
            accessed: accessed.map(update),
            modified: modified.map(update),
            // Without special bits and capabilities there is nothing to take away.
            kill_priv: false,
            ..changes
        })
    }
}

/// Sets `later` after `earlier`, in one request.
pub(crate) fn merge(earlier: &mut SetAttributesRequest, later: &SetAttributesRequest) {
    earlier.mode = later.mode.or(earlier.mode);
    earlier.uid = later.uid.or(earlier.uid);
    earlier.gid = later.gid.or(earlier.gid);
    earlier.accessed = later.accessed.or(earlier.accessed);
    earlier.modified = later.modified.or(earlier.modified);
}

/// The files by their ids.
#[derive(Default)]
pub(crate) struct MadeFiles(HashMap<u64, MadeFile>);

impl MadeFiles {
    /// Takes a new file, if there is room.
    pub(crate) fn add(&mut self, file: MadeFile) {
        if self.0.len() < MADE_FILES_MAX {
            self.0.insert(file.attributes.id, file);
        }
    }

    pub(crate) fn get_mut(&mut self, file: u64) -> Option<&mut MadeFile> {
        self.0.get_mut(&file)
    }

    /// Other clients may come to know this file, or its attributes changed at the service.
    pub(crate) fn remove(&mut self, file: u64) {
        self.0.remove(&file);
    }

    /// A directory is not delegated any more.
    pub(crate) fn remove_of(&mut self, directory: u64) {
        self.0.retain(|_, file| file.directory != directory);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(uid: u32) -> MadeFile {
        let attributes = Attributes {
            id: 100,
            uid,
            gid: uid,
            mode: 0o600,
            ..Attributes::default()
        };
        MadeFile::new(7, Bytes::from_static(b"f"), attributes)
    }

    fn who(uid: u32) -> Credentials {
        Credentials {
            uid,
            gid: uid,
            groups: vec![50],
        }
    }

    #[test]
    fn only_changes_that_the_service_would_make_are_made() {
        let change = |uid, changes: SetAttributesRequest| {
            let mut file = file(5);
            let set = file.set(changes, &who(uid), 9, 1).is_some();
            assert_eq!(file.attributes.changed == 9, set);
            set
        };
        let mode = |mode| SetAttributesRequest {
            mode: Some(mode),
            ..SetAttributesRequest::default()
        };
        let owner = |uid, gid| SetAttributesRequest {
            uid,
            gid,
            ..SetAttributesRequest::default()
        };
        assert!(change(5, mode(0o644)) && change(0, mode(0o644)));
        assert!(!change(6, mode(0o644)), "only its owner");
        assert!(!change(5, mode(0o4755)), "set-id bits are the service's");
        assert!(change(0, owner(Some(1), Some(2))) && change(5, owner(Some(5), Some(50))));
        assert!(!change(5, owner(Some(1), None)) && !change(5, owner(None, Some(51))));
        let policy = SetAttributesRequest {
            policy: Some("nfs".to_owned()),
            ..SetAttributesRequest::default()
        };
        assert!(!change(0, policy), "the service knows which there are");
    }

    #[test]
    fn a_time_that_was_set_stays_until_the_next_write() {
        let mut file = file(5);
        file.stored(10, 3);
        let changes = SetAttributesRequest {
            modified: Some(TimeUpdate {
                now: false,
                nanos: 1,
            }),
            ..SetAttributesRequest::default()
        };
        let set = file.set(changes, &who(5), 20, 1).unwrap();
        assert_eq!(set.modified.unwrap().nanos, 1);
        file.stored(10, 15);
        assert_eq!(file.attributes.modified, 1, "it was written before");
        file.stored(11, 25);
        let after = &file.attributes;
        assert_eq!((after.modified, after.changed, after.size), (25, 25, 11));
    }

    #[test]
    fn later_changes_replace_earlier_ones_of_the_same_attribute() {
        let mut earlier = SetAttributesRequest {
            mode: Some(1),
            uid: Some(2),
            ..SetAttributesRequest::default()
        };
        let later = SetAttributesRequest {
            mode: Some(3),
            gid: Some(4),
            ..SetAttributesRequest::default()
        };
        merge(&mut earlier, &later);
        assert_eq!(
            (earlier.mode, earlier.uid, earlier.gid),
            (Some(3), Some(2), Some(4))
        );
    }

    #[test]
    fn files_leave_with_their_directory_and_memory_is_bounded() {
        let mut files = MadeFiles::default();
        for id in 0..MADE_FILES_MAX as u64 + 9 {
            let mut file = file(5);
            (file.attributes.id, file.directory) = (id, id % 2);
            files.add(file);
        }
        assert_eq!(files.0.len(), MADE_FILES_MAX);
        files.remove_of(0);
        assert!(files.get_mut(0).is_none() && files.get_mut(1).is_some());
        files.remove(1);
        assert!(files.get_mut(1).is_none());
    }
}
