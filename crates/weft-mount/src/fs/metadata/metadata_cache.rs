//! The metadata cache: one place through which every change of names and attributes passes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::io::Errno;
use weft_client::FileKind;

use super::answer::Answer;
use super::attr::{Attr, Entry};
use super::change_log::{AskedAt, ChangeLog, Subject};
use super::complete_directories::CompleteDirectories;
use super::nodes::{Content, Nodes};
use crate::data::DataCache;
use crate::fs::error::FsError;
use crate::fs::options::Options;
use crate::fs::upper_cache::{FileCopies, UpperCache};
use crate::limits::{UNWATCHED_VALID, WATCHED_VALID};

/// Names and attributes, and the caches that hold copies of them.
pub(in crate::fs) struct MetadataCache {
    log: ChangeLog,
    nodes: Nodes,
    complete: CompleteDirectories,
    data: Arc<DataCache>,
    upper: OnceLock<Arc<dyn UpperCache>>,
    /// Nothing is cached.
    strict: bool,
    /// The validity that the mount's options set; `None`: as long as it is true.
    attributes_valid: Option<Duration>,
    names_valid: Option<Duration>,
    /// Changes of the namespace that this mount has made.
    own_changes: AtomicU64,
}

impl MetadataCache {
    pub(in crate::fs) fn new(data: Arc<DataCache>, options: &Options) -> MetadataCache {
        MetadataCache {
            log: ChangeLog::default(),
            nodes: Nodes::with_root(),
            complete: CompleteDirectories::default(),
            data,
            upper: OnceLock::new(),
            strict: options.strict,
            attributes_valid: options.attributes_valid,
            names_valid: options.names_valid,
            own_changes: AtomicU64::new(0),
        }
    }

    /// Sets the cache above; once.
    pub(in crate::fs) fn set_upper(&self, upper: Arc<dyn UpperCache>) {
        assert!(
            self.upper.set(upper).is_ok(),
            "a file system has one upper cache"
        );
    }

    pub(in crate::fs) fn upper(&self) -> Option<&Arc<dyn UpperCache>> {
        self.upper.get()
    }

    pub(in crate::fs) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// This moment, before something is asked.
    pub(in crate::fs) fn now(&self) -> AskedAt {
        self.log.now()
    }

    /// Whether the watch reports every change.
    pub(in crate::fs) fn is_live(&self) -> bool {
        self.log.is_live()
    }

    /// Whether a file may have changed since.
    pub(in crate::fs) fn file_overtaken(&self, asked: AskedAt, id: u64) -> bool {
        self.log.overtaken(asked, Subject::File(id))
    }

    /// Whether a change of a file was logged since.
    pub(in crate::fs) fn file_changed_since(&self, asked: AskedAt, id: u64) -> bool {
        self.log.changed_since(asked, Subject::File(id))
    }

    /// Changes of the namespace that this mount has made so far.
    pub(in crate::fs) fn own_changes(&self) -> u64 {
        self.own_changes.load(Ordering::Acquire)
    }

    /// Counts a change that this mount has made.
    pub(in crate::fs) fn note_own_change(&self) {
        self.own_changes.fetch_add(1, Ordering::AcqRel);
    }

    // Names.

    /// Whether a name certainly does not exist.
    pub(in crate::fs) fn is_absent(&self, directory: u64, name: &[u8]) -> bool {
        self.complete.is_absent(directory, self.log.hash(name))
    }

    /// The file that a name certainly refers to.
    pub(in crate::fs) fn named(&self, directory: u64, name: &[u8]) -> Option<u64> {
        self.complete.named(directory, self.log.hash(name))
    }

    /// Whether every name of a directory is known: others change it only when this mount has heard
    /// of it.
    pub(in crate::fs) fn is_complete(&self, directory: u64) -> bool {
        self.is_live() && self.complete.has(directory)
    }

    /// Whether a directory certainly has no names.
    pub(in crate::fs) fn is_empty(&self, directory: u64) -> bool {
        self.complete.is_empty(directory)
    }

    /// Complete directories in this one.
    pub(in crate::fs) fn complete_in(&self, directory: u64) -> Vec<u64> {
        self.complete.complete_in(directory)
    }

    /// A name may exist from now on.
    pub(in crate::fs) fn name_may_exist(&self, directory: u64, name: &[u8]) {
        self.complete.may_exist(directory, self.log.hash(name));
    }

    /// This mount has had the service change what a name refers to: earlier answers are overtaken.
    pub(in crate::fs) fn name_changed(&self, directory: u64, name: &[u8]) {
        self.log.record(self.log.name(directory, name));
    }

    /// This mount has removed a name: it is absent, unless another client has made it again.
    pub(in crate::fs) fn name_removed(&self, asked: AskedAt, directory: u64, name: &[u8]) {
        if !self.log.overtaken(asked, self.log.name(directory, name)) {
            self.complete.removed(directory, self.log.hash(name));
        }
    }

    /// This mount has made a directory and has its lease.
    pub(in crate::fs) fn directory_made(&self, asked: AskedAt, directory: u64) {
        self.complete.made(directory);
        if self.file_overtaken(asked, directory) {
            // Another client has already made something in it.
            self.complete.forget(directory);
        }
    }

    /// Other clients may make names in a directory without notice.
    pub(in crate::fs) fn names_uncertain(&self, directory: u64) {
        self.complete.forget(directory);
    }

    /// The cache above forgets so many lookups of a node.
    pub(in crate::fs) fn forgotten(&self, id: u64, lookups: u64) {
        let was_read = self.nodes.was_read(id);
        if self.nodes.forgotten(id, lookups) {
            self.complete.forget(id);
            if was_read {
                // Earlier answers do not show its last access, which is forgotten, too.
                self.log.record(Subject::File(id));
            }
        }
    }

    // Changes by others.

    /// Other clients have changed files and names: drops all copies of them.
    pub(in crate::fs) fn changed<'a>(
        &self,
        files: impl IntoIterator<Item = u64>,
        names: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) {
        for id in files {
            // A concurrent open is either in the tables already or finds the change in the log.
            self.log.record(Subject::File(id));
            self.data.invalidate(id);
            self.nodes.doubt(id, true);
            self.nodes.forget_access(id);
            self.nodes.settled(id, None);
            if let Some(upper) = self.upper()
                && self.nodes.has(id)
            {
                upper.invalidate_file(id, FileCopies::AttributesAndData);
            }
        }
        for (directory, name) in names {
            let subject = self.log.name(directory, name);
            self.log.record(subject);
            // The directory's lease has ended.
            self.complete.forget(directory);
            if let Some(upper) = self.upper()
                && self.nodes.has(directory)
            {
                upper.invalidate_name(directory, name);
            }
        }
    }

    /// Anything may have changed; from now on the watch is live or not.
    pub(in crate::fs) fn everything_changed(&self, live: bool) {
        // What is cached from now on was asked for later.
        self.log.record_all(live && !self.strict);
        self.nodes.doubt_all();
        self.complete.forget_all();
        self.data.invalidate_all();
        if let Some(upper) = self.upper() {
            upper.invalidate_all_names();
            for id in self.nodes.all() {
                upper.invalidate_file(id, FileCopies::AttributesAndData);
            }
        }
    }

    /// The data of a file was written past the data cache: drops all copies of it.
    pub(in crate::fs) fn forget_data(&self, id: u64) {
        self.changed([id], []);
    }

    /// The cache above has no pages of this range of a file when this returns. It may wait for
    /// pages that are being read or written: what those wait for must never await this.
    pub(in crate::fs) async fn drop_pages(
        &self,
        id: u64,
        range: Range<u64>,
    ) -> Result<(), FsError> {
        let Some(upper) = self.upper().cloned() else {
            return Ok(());
        };
        let dropped = tokio::task::spawn_blocking(move || upper.drop_pages(id, range)).await;
        dropped.map_err(|_| FsError::refused("cannot invalidate the kernel's pages", Errno::IO))
    }

    /// The cache above has other attributes of a node than it should.
    pub(in crate::fs) fn attributes_changed(&self, id: u64) {
        if let Some(upper) = self.upper() {
            upper.invalidate_file(id, FileCopies::Attributes);
        }
    }

    // Changes by this mount.

    /// This mount has changed a file's attributes or a directory's names: earlier answers are
    /// overtaken.
    pub(in crate::fs) fn touched(&self, id: u64) {
        self.note_own_change();
        self.log.record(Subject::File(id));
        self.nodes.doubt(id, false);
    }

    /// This mount has changed a file, and this is the service's answer. `pages`: no other client
    /// writes it, so the pages of the cache above are of this state. Returns the moment as of which
    /// the answer counts as asked.
    pub(in crate::fs) fn touched_to(
        &self,
        asked: AskedAt,
        answer: &Answer,
        pages: bool,
    ) -> AskedAt {
        let id = answer.attr.id;
        let overtaken = self.file_overtaken(asked, id);
        self.touched(id);
        let content = Content::from(&answer.attr);
        self.nodes
            .settled(id, (pages && !overtaken).then_some(content));
        if overtaken {
            return asked;
        }
        let now = self.now();
        self.learn(now, answer);
        now
    }

    /// This mount has made something in a directory, which has one name more: the kernel asks for
    /// its attributes before it makes the next.
    pub(in crate::fs) fn entered(&self, asked: AskedAt, directory: u64, made: &Attr) {
        self.directory_changed(asked, directory, |attr| {
            attr.size += 1;
            attr.links += u32::from(made.kind == FileKind::Directory);
            // The service notes one time for both.
            (attr.modified, attr.changed) = (made.changed, made.changed);
        });
    }

    /// This mount has changed the names of a directory; `change` applies that to its attributes, if
    /// they are known.
    pub(in crate::fs) fn directory_changed(
        &self,
        asked: AskedAt,
        directory: u64,
        change: impl FnOnce(&mut Attr),
    ) {
        let known = self.nodes.known(directory);
        let overtaken = self.file_overtaken(asked, directory);
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
        self.learn(self.now(), &answer);
    }

    // Answers.

    /// The entry for a node that was asked for by name.
    pub(in crate::fs) fn entry(
        &self,
        asked: AskedAt,
        answer: &Answer,
        (parent, name): (u64, &[u8]),
    ) -> Entry {
        let attr = &answer.attr;
        self.nodes.looked_up(attr);
        self.nodes.called(attr.id, (parent, name));
        self.learn(asked, answer);
        if !self.log.overtaken(asked, self.log.name(parent, name)) {
            self.complete.names(parent, self.log.hash(name), attr.id);
        }
        Entry {
            attr: *attr,
            attr_valid: self.attributes_valid(asked, answer),
            entry_valid: self.name_valid(asked, parent, name),
        }
    }

    /// The entry for a node that was asked for by its id.
    pub(in crate::fs) fn entry_by_id(&self, asked: AskedAt, answer: &Answer) -> Entry {
        self.nodes.looked_up(&answer.attr);
        self.learn(asked, answer);
        Entry {
            attr: answer.attr,
            attr_valid: self.attributes_valid(asked, answer),
            entry_valid: Duration::ZERO,
        }
    }

    /// The entry for a node that the cache above knows.
    pub(in crate::fs) fn reported(&self, asked: AskedAt, answer: &Answer) -> Entry {
        self.nodes.reported(&answer.attr);
        self.learn(asked, answer);
        Entry {
            attr: answer.attr,
            attr_valid: self.attributes_valid(asked, answer),
            entry_valid: Duration::ZERO,
        }
    }

    /// Caches an answer, unless it was overtaken.
    pub(in crate::fs) fn learn(&self, asked: AskedAt, answer: &Answer) {
        let Answer { attr, exact, bare } = answer;
        if *exact {
            self.nodes.learn(&self.log, asked, attr, *bare);
        } else {
            self.nodes.doubt(attr.id, false);
            self.nodes
                .cache_absent_xattrs(&self.log, asked, attr.id, *bare);
        }
    }

    /// The cached attributes of a node, if they are certain.
    pub(in crate::fs) fn known(&self, id: u64) -> Option<Answer> {
        let attr = self.nodes.known(id).filter(|_| self.is_live())?;
        Some(Answer {
            attr,
            exact: true,
            bare: self.nodes.is_bare(id),
        })
    }

    fn attributes_valid(&self, asked: AskedAt, answer: &Answer) -> Duration {
        let wanted = self.attributes_valid;
        if !answer.exact {
            return wanted.unwrap_or(UNWATCHED_VALID).min(UNWATCHED_VALID);
        }
        self.valid(wanted, WATCHED_VALID, asked, Subject::File(answer.attr.id))
    }

    /// How long the cache above may keep a name, or its absence.
    pub(in crate::fs) fn name_valid(&self, asked: AskedAt, parent: u64, name: &[u8]) -> Duration {
        let subject = self.log.name(parent, name);
        // The names of a volume cannot be enumerated: a cache that cannot drop all of them must not
        // keep them for long.
        let revocable = self.upper().is_some_and(|u| u.can_invalidate_all_names());
        let long = if revocable {
            WATCHED_VALID
        } else {
            UNWATCHED_VALID
        };
        self.valid(self.names_valid, long, asked, subject)
    }

    fn valid(
        &self,
        wanted: Option<Duration>,
        long: Duration,
        asked: AskedAt,
        subject: Subject,
    ) -> Duration {
        if !self.log.overtaken(asked, subject) {
            return wanted.unwrap_or(long);
        }
        if self.is_live() {
            return Duration::ZERO;
        }
        wanted.unwrap_or(UNWATCHED_VALID)
    }
}
