//! Names that are made and removed ahead of the service, in directories that it has delegated to
//! this mount.
//!
//! Only what certainly succeeds is done ahead: a file is made where the name is known not to be
//! there, in a directory whose attributes are known and which gives a new file nothing but what its
//! creator asks for; a name is removed that is known to name a regular file with no other name. The
//! kernel has checked that the caller may. What is refused all the same (a quota, a full disk) is
//! told by the next sync, and what the kernel believes of it is taken back.

use std::sync::Arc;

use rustix::io::Errno;
use weft_client::{File, FileKind, NewMode, Refused, Volume};

use super::attr::Attr;
use super::belief::Answer;
use super::news::{Asked, Subject};
use super::{Caller, FileSystem, FsError};

/// Mode bits of a directory that decide what a new file in it is.
const SET_GROUP: u32 = 0o2000;
/// Mode bits of a file that not everybody may set.
const SPECIAL: u32 = 0o7000;

impl FileSystem {
    /// Hears of what was done ahead and came to nothing.
    pub(super) fn hear_of_refusals(self: &Arc<Self>) {
        let fs = Arc::downgrade(self);
        self.volume.on_refused(move |refused| {
            if let Some(fs) = fs.upgrade() {
                fs.refused(refused);
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
            let path = self.under(*directory, name);
            tracing::error!(%path, file, %reason, "a name that was made or removed is not so");
            *self.came_to_nothing.lock() = Some(*errno);
            self.changed([*directory, *file], [(*directory, &name[..])]);
        }
    }

    /// Tells once if something that was done ahead came to nothing.
    pub(super) fn tell_refusals(&self) -> Result<(), FsError> {
        match self.came_to_nothing.lock().take() {
            Some(errno) => Err(FsError::refused(
                "a name that was made or removed before is not so",
                Errno::from_raw_os_error(errno),
            )),
            None => Ok(()),
        }
    }

    /// Whether names in this directory may be changed ahead.
    async fn goes_ahead(&self, directory: u64, make: bool) -> bool {
        !self.options.durable
            && self.news.is_live()
            && self.volume.try_delegation(directory, make).await
    }

    /// Makes a file ahead of the service, if that is certain to succeed.
    pub(super) async fn make_ahead(
        &self,
        volume: &Volume,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        access: (bool, bool),
    ) -> Option<File> {
        let plain = |directory: &Answer| directory.bare && directory.attr.mode & SET_GROUP == 0;
        if mode & SPECIAL != 0
            || !self.absent.is_absent(parent, self.news.hash(name))
            || !self.known(parent).as_ref().is_some_and(plain)
            || !self.goes_ahead(parent, true).await
            // What the question to the service took may have brought news.
            || !self.absent.is_absent(parent, self.news.hash(name))
        {
            return None;
        }
        let mode = NewMode { bits: mode, umask };
        let shown = self.under(parent, name).to_string();
        volume.create_delegated((parent, name), &shown, mode, access)
    }

    /// Removes a name ahead of the service, if that is certain to succeed.
    pub(super) async fn remove_ahead(&self, caller: Caller, parent: u64, name: &[u8]) -> bool {
        let hash = self.news.hash(name);
        let single = |id: u64| {
            let attr = self.known(id)?.attr;
            (attr.kind == FileKind::Regular && attr.links == 1).then_some(attr)
        };
        let asked = self.news.now();
        let Some(attr) = self.absent.named(parent, hash).and_then(single) else {
            return false;
        };
        if !self.goes_ahead(parent, false).await
            || self.absent.named(parent, hash) != Some(attr.id)
            || single(attr.id).is_none()
        {
            return false;
        }
        let Some(time) = self.on(caller).remove_delegated(parent, name, attr.id) else {
            return false;
        };
        self.left(asked, parent, time);
        self.taken_away(asked, parent, name);
        self.touched(attr.id);
        true
    }

    /// A directory has one name less since: the kernel asks for its attributes before it removes
    /// the next.
    fn left(&self, asked: Asked, directory: u64, time: i64) {
        self.directory_changed(asked, directory, |attr| {
            attr.size = attr.size.saturating_sub(1);
            (attr.modified, attr.changed) = (time, time);
        });
    }

    /// This mount has changed the names of a directory, and knows what that makes of its
    /// attributes, if it knew them.
    pub(super) fn directory_changed(
        &self,
        asked: Asked,
        directory: u64,
        change: impl FnOnce(&mut Attr),
    ) {
        let known = self.nodes.known(directory);
        let overtaken = self.news.since(asked, Subject::File(directory));
        self.touched(directory);
        let Some(mut attr) = known.filter(|_| !overtaken) else {
            return;
        };
        change(&mut attr);
        let answer = Answer {
            attr,
            exact: true,
            bare: self.nodes.is_bare(directory),
        };
        self.learn(self.news.now(), &answer);
    }
}
