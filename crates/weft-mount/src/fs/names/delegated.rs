//! Unreported changes: names made and removed in directories that the service has delegated to this
//! mount, and attributes set of files made there, before the service learns of them.
//!
//! Only changes that certainly succeed are made here. A file is made if its name is known to be
//! absent, in a directory whose attributes are known and which gives a new file nothing but what
//! its creator asks for. A name is removed if it is known to refer to a regular file with no other
//! name, or to a delegated directory all of whose names were removed here. The kernel has checked
//! that the caller may. If the service refuses a change all the same
//! (a quota, a full disk), the next sync reports it, and the kernel drops what it has cached of it.

use std::collections::HashSet;
use std::sync::Arc;

use weft_client::{Attributes, Changes, File, FileKind, NewMode, Refused, Volume};
use weft_proto::limits::DELEGATED_ALSO_MAX;

use crate::fs::metadata::{Answer, AskedAt};
use crate::fs::{Caller, Entry, FileSystem, FsError};
use crate::limits::NEIGHBOUR_LEVELS_MAX;

/// The mode bit of a directory that decides the group of a new file.
const SET_GROUP: u32 = 0o2000;

/// Mode bits of a file that only some callers may set.
const SPECIAL: u32 = 0o7000;

impl FileSystem {
    /// Watches for unreported changes that the service refuses.
    pub(in crate::fs) fn watch_refusals(self: &Arc<Self>) {
        let fs = Arc::downgrade(self);
        self.volume.on_refused(move |refused| {
            if let Some(fs) = fs.upgrade() {
                fs.refused(refused);
            }
        });
        let fs = Arc::downgrade(self);
        self.volume.on_unleased(move |directory| {
            if let Some(fs) = fs.upgrade() {
                fs.metadata.names_uncertain(directory);
            }
        });
    }

    fn refused(&self, refused: &[Refused]) {
        for change in refused {
            let Refused {
                directory,
                name,
                file,
                reason,
                errno,
            } = change;
            let path = self.metadata.under(*directory, name);
            tracing::error!(%path, file, %reason, "the service refused a change of a name that was acknowledged");
            self.namespace.note_refused(*errno);
            self.metadata
                .changed([*directory, *file], [(*directory, &name[..])]);
        }
    }

    /// Whether names in this directory may be changed before the service learns of it.
    async fn is_delegated(&self, directory: u64, make: bool) -> bool {
        !self.options.durable
            && self.metadata.is_live()
            && self
                .volume
                .try_delegation(directory, make, || self.neighbours(directory))
                .await
    }

    /// The directories whose names a program that removes a tree removes next: those below this
    /// one, and then those below the directories that it is in.
    fn neighbours(&self, directory: u64) -> Vec<u64> {
        let mut neighbours = Vec::new();
        let mut seen = HashSet::from([directory]);
        let mut top = Some(directory);
        for _ in 0..NEIGHBOUR_LEVELS_MAX {
            let Some(below) = top else { break };
            let mut walk = vec![below];
            while let Some(next) = walk.pop() {
                if neighbours.len() >= DELEGATED_ALSO_MAX {
                    return neighbours;
                }
                let new = self.metadata.complete_in(next);
                walk.extend(new.into_iter().filter(|id| seen.insert(*id)));
                if next != below {
                    neighbours.push(next);
                }
            }
            top = self.metadata.nodes().name(below).map(|(parent, _)| parent);
            let own = top.filter(|id| self.metadata.is_complete(*id));
            neighbours.extend(own.filter(|id| seen.insert(*id)));
        }
        neighbours
    }

    /// Makes a file in a delegated directory, if that certainly succeeds.
    pub(in crate::fs) async fn make_delegated(
        &self,
        volume: &Volume,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        access: (bool, bool),
    ) -> Option<File> {
        if mode & SPECIAL != 0 || !self.may_make(parent, name).await {
            return None;
        }
        let mode = NewMode { bits: mode, umask };
        let shown = self.metadata.under(parent, name).to_string();
        volume.create_delegated((parent, name), &shown, mode, access)
    }

    /// Makes a directory in a delegated directory, if that certainly succeeds.
    pub(super) async fn make_directory_delegated(
        &self,
        volume: &Volume,
        (parent, name): (u64, &[u8]),
        mode: NewMode,
    ) -> Option<Attributes> {
        if mode.bits & SPECIAL != 0 || !self.may_make(parent, name).await {
            return None;
        }
        volume.make_directory_delegated((parent, name), mode)
    }

    /// Whether a new name in this directory would certainly be made, with the mode and the group
    /// that its maker asks for.
    async fn may_make(&self, parent: u64, name: &[u8]) -> bool {
        let plain = |directory: &Answer| directory.bare && directory.attr.mode & SET_GROUP == 0;
        self.metadata.is_absent(parent, name)
            && self.known(parent).as_ref().is_some_and(plain)
            && self.is_delegated(parent, true).await
            // Changes may have arrived while the service was asked.
            && self.metadata.is_absent(parent, name)
    }

    /// Sets attributes of a file that this mount has made in a delegated directory, if that
    /// certainly succeeds: no other client knows the file.
    pub(in crate::fs) async fn change_delegated(
        &self,
        volume: &Volume,
        id: u64,
        changes: &Changes,
    ) -> Result<Option<Entry>, FsError> {
        if self.options.durable || !self.metadata.is_live() || self.files.writes_through(id) {
            return Ok(None);
        }
        // The servers note when bytes arrive, which would set the time again.
        let first = || {
            self.files
                .any(id)
                .is_some_and(|open| open.data().set_time_first())
        };
        if changes.modified.is_some() && self.files.writes_cells(id) && !first() {
            self.flush_all(id).await?;
        }
        let asked = self.metadata.now();
        let known = self.known(id);
        let Some(attributes) = volume.set_delegated(id, changes) else {
            return Ok(None);
        };
        if changes.accessed.is_some() {
            self.metadata.nodes().forget_access(id);
        }
        if changes.modified.is_some() {
            self.files.time_set(id);
        }
        let size = self.files.written_end(id);
        let is_directory = attributes.kind == FileKind::Directory as i32;
        let mut answer = if let Some(known) = known.filter(|_| is_directory) {
            // Its names are counted here.
            let mut answer = Answer::exact(&attributes);
            (answer.attr.size, answer.attr.links) = (known.attr.size, known.attr.links);
            if changes.modified.is_none() {
                answer.attr.modified = known.attr.modified;
            }
            answer
        } else if is_directory {
            return Ok(Some(self.attributes(id).await?));
        } else if let Some(size) = size.filter(|_| !attributes.size_exact) {
            // Only this mount has written it.
            let mut answer = Answer::exact(&attributes);
            answer.attr.size = size;
            answer
        } else {
            self.complete(attributes).await?
        };
        self.cover(&mut answer.attr);
        let asked = self.metadata.touched_to(asked, &answer, false);
        Ok(Some(self.metadata.reported(asked, &answer)))
    }

    /// Removes a name in a delegated directory, if that certainly succeeds.
    pub(super) async fn remove_delegated(&self, caller: Caller, parent: u64, name: &[u8]) -> bool {
        let single = |id: u64| {
            let attr = self.known(id)?.attr;
            (attr.kind == FileKind::Regular && attr.links == 1).then_some(attr)
        };
        let asked = self.metadata.now();
        let Some(attr) = self.metadata.named(parent, name).and_then(single) else {
            return false;
        };
        if !self.is_delegated(parent, false).await
            || self.metadata.named(parent, name) != Some(attr.id)
            || single(attr.id).is_none()
        {
            return false;
        }
        // Its attachment ends before the removal is reported: the file can go at once.
        self.forget_kept(attr.id).await;
        let Some(time) = self.on(caller).remove_delegated(parent, name, attr.id) else {
            return false;
        };
        self.left(asked, parent, time, FileKind::Regular);
        self.metadata.name_removed(asked, parent, name);
        self.metadata.touched(attr.id);
        true
    }

    /// Removes a directory in a delegated directory, if that certainly succeeds: this mount has
    /// removed all of its names, and holds it, too.
    pub(super) async fn remove_directory_delegated(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> bool {
        let asked = self.metadata.now();
        let empty = || {
            let named = self.metadata.named(parent, name);
            named.filter(|id| self.metadata.is_empty(*id))
        };
        let Some(id) = empty() else {
            return false;
        };
        if !self.is_delegated(parent, false).await || empty() != Some(id) {
            return false;
        }
        let volume = self.on(caller);
        let Some(time) = volume.remove_directory_delegated(parent, name, id) else {
            return false;
        };
        self.metadata.nodes().unnamed(id);
        self.metadata.touched(id);
        self.metadata.names_uncertain(id);
        self.left(asked, parent, time, FileKind::Directory);
        self.metadata.name_removed(asked, parent, name);
        true
    }

    /// A directory has one name less: the kernel asks for its attributes before it removes the
    /// next.
    fn left(&self, asked: AskedAt, directory: u64, time: i64, removed: FileKind) {
        self.metadata.directory_changed(asked, directory, |attr| {
            attr.size = attr.size.saturating_sub(1);
            if removed == FileKind::Directory {
                attr.links = attr.links.saturating_sub(1);
            }
            (attr.modified, attr.changed) = (time, time);
        });
    }
}
