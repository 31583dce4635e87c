//! What is believed of names and attributes, here and in the kernel, and for how long.
//!
//! While the watch is live, what was told stays true until news of it comes, and is taken back
//! then; so the kernel may believe it for long. What news overtook on its way, and what nobody
//! knows for certain (the size of a file that somebody is writing to its cells), is believed for a
//! moment or not at all.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;
use weft_client::{Attributes, FileKind};

use super::news::{Asked, Subject};
use super::nodes::Content;
use super::{Attr, Entry, FileCopies, FileSystem, FsError};
use crate::limits::{UNWATCHED_VALID, WATCHED_VALID};

/// An answer of the service about a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The attributes, with what this mount has written and not sent.
    pub(super) attr: Attr,
    /// They are true until there is news.
    pub(super) exact: bool,
    /// It has no extended attributes.
    pub(super) bare: bool,
}

impl Answer {
    /// Attributes of a file that only this mount writes, if anybody does.
    pub(super) fn exact(attributes: &Attributes) -> Answer {
        Answer {
            attr: Attr::from(attributes),
            exact: true,
            bare: !attributes.xattrs,
        }
    }
}

impl FileSystem {
    /// Files and names that somebody else has changed: what was told about them, and read of them,
    /// is dropped.
    ///
    /// The one place where such news arrives.
    pub fn changed<'a>(
        &self,
        files: impl IntoIterator<Item = u64>,
        names: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) {
        for id in files {
            // Whoever opens it meanwhile either is there already or finds the news.
            self.news.changed(Subject::File(id));
            self.cache.invalidate(id);
            self.nodes.doubt(id, true);
            self.nodes.forget_access(id);
            self.nodes.settled(id, None);
            if let Some(upper) = self.upper.get()
                && self.nodes.has(id)
            {
                upper.invalidate_file(id, FileCopies::AttributesAndData);
            }
        }
        for (directory, name) in names {
            let subject = self.news.name(directory, name);
            self.news.changed(subject);
            // The lease of it has ended.
            self.absent.forget(directory);
            if let Some(upper) = self.upper.get()
                && self.nodes.has(directory)
            {
                upper.invalidate_name(directory, name);
            }
        }
    }

    /// Anything may have changed, and from now on the watch tells of changes, or does not.
    pub(super) fn everything_changed(&self, live: bool) {
        // Whoever believes something from now on has asked later.
        self.news.everything_changed(live && !self.options.strict);
        self.nodes.doubt_all();
        self.absent.forget_all();
        self.cache.invalidate_all();
        if let Some(upper) = self.upper.get() {
            upper.invalidate_all_names();
            for id in self.nodes.all() {
                upper.invalidate_file(id, FileCopies::AttributesAndData);
            }
        }
    }

    /// The data of a file was written past the data cache: whatever is cached of it is old.
    pub(super) fn forget_data(&self, id: u64) {
        self.changed([id], []);
    }

    /// The kernel has no pages of this range of a file any more when this returns. It may wait for
    /// pages that are being read or written: never to be awaited by what those wait for.
    pub(super) async fn drop_pages(&self, id: u64, range: Range<u64>) -> Result<(), FsError> {
        let Some(upper) = self.upper.get().cloned() else {
            return Ok(());
        };
        let told = tokio::task::spawn_blocking(move || upper.drop_pages(id, range)).await;
        told.map_err(|_| FsError::refused("the kernel could not be told", Errno::IO))
    }

    /// This mount has changed a file's attributes, or a directory's names: what was asked before is
    /// overtaken.
    pub(super) fn touched(&self, id: u64) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.news.changed(Subject::File(id));
        self.nodes.doubt(id, false);
    }

    /// This mount has made something in a directory, which has one name more since: the kernel asks
    /// for its attributes before it makes the next.
    pub(super) fn entered(&self, asked: Asked, directory: u64, made: &Attr) {
        self.directory_changed(asked, directory, |attr| {
            attr.size += 1;
            attr.links += u32::from(made.kind == FileKind::Directory);
            // The service notes one time for both.
            (attr.modified, attr.changed) = (made.changed, made.changed);
        });
    }

    /// This mount has changed a file, and this is what the service says of it since. `pages`:
    /// nobody else writes it, so the kernel's pages are of this state. Returns when the answer
    /// counts as asked.
    pub(super) fn touched_to(&self, asked: Asked, answer: &Answer, pages: bool) -> Asked {
        let id = answer.attr.id;
        let overtaken = self.news.since(asked, Subject::File(id));
        self.touched(id);
        let content = Content::from(&answer.attr);
        self.nodes
            .settled(id, (pages && !overtaken).then_some(content));
        if overtaken {
            return asked;
        }
        let now = self.news.now();
        self.learn(now, answer);
        now
    }

    /// What the kernel is told of a node that it asked for by name.
    pub(super) fn entry(
        &self,
        asked: Asked,
        answer: &Answer,
        (parent, name): (u64, &[u8]),
    ) -> Entry {
        let attr = &answer.attr;
        self.nodes.looked_up(attr);
        self.nodes.called(attr.id, (parent, name));
        self.learn(asked, answer);
        if !self.news.since(asked, self.news.name(parent, name)) {
            self.absent.names(parent, self.news.hash(name), attr.id);
        }
        Entry {
            attr: *attr,
            attr_valid: self.attributes_valid(asked, answer),
            entry_valid: self.name_valid(asked, parent, name),
        }
    }

    /// What the kernel is told of a node that it knows.
    pub(super) fn told(&self, asked: Asked, answer: &Answer) -> Entry {
        self.nodes.told(&answer.attr);
        self.learn(asked, answer);
        Entry {
            attr: answer.attr,
            attr_valid: self.attributes_valid(asked, answer),
            entry_valid: Duration::ZERO,
        }
    }

    pub(super) fn learn(&self, asked: Asked, answer: &Answer) {
        let Answer { attr, exact, bare } = answer;
        if *exact {
            self.nodes.learn(&self.news, asked, attr, *bare);
        } else {
            self.nodes.doubt(attr.id, false);
            self.nodes.learn_bare(&self.news, asked, attr.id, *bare);
        }
    }

    /// The attributes of a file, where they are certain, with what this mount has written and not
    /// sent.
    pub(super) fn known(&self, id: u64) -> Option<Answer> {
        let mut attr = self.nodes.known(id).filter(|_| self.news.is_live())?;
        self.cover(&mut attr);
        Some(Answer {
            attr,
            exact: true,
            bare: self.nodes.is_bare(id),
        })
    }

    fn attributes_valid(&self, asked: Asked, answer: &Answer) -> Duration {
        let wanted = self.options.attributes_valid;
        if !answer.exact {
            return wanted.unwrap_or(UNWATCHED_VALID).min(UNWATCHED_VALID);
        }
        self.valid(wanted, WATCHED_VALID, asked, Subject::File(answer.attr.id))
    }

    /// How long the kernel may believe what a name names, or that it names nothing.
    pub(super) fn name_valid(&self, asked: Asked, parent: u64, name: &[u8]) -> Duration {
        let subject = self.news.name(parent, name);
        // The names of a whole volume cannot be enumerated: who cannot take all of them back must
        // not give them long.
        let revocable = self
            .upper
            .get()
            .is_some_and(|h| h.can_invalidate_all_names());
        let long = if revocable {
            WATCHED_VALID
        } else {
            UNWATCHED_VALID
        };
        self.valid(self.options.names_valid, long, asked, subject)
    }

    fn valid(
        &self,
        wanted: Option<Duration>,
        long: Duration,
        asked: Asked,
        subject: Subject,
    ) -> Duration {
        if !self.news.since(asked, subject) {
            return wanted.unwrap_or(long);
        }
        if self.news.is_live() {
            return Duration::ZERO;
        }
        wanted.unwrap_or(UNWATCHED_VALID)
    }

    /// The attributes of a node are not what the kernel was told.
    pub(super) fn attributes_changed(&self, id: u64) {
        if let Some(upper) = self.upper.get() {
            upper.invalidate_file(id, FileCopies::Attributes);
        }
    }
}
