//! What is known of each node that the kernel knows: its number of lookups, the attributes last
//! reported to the kernel, the state of the file that the kernel's pages show, and the attributes
//! while they are certain. Bounded by the kernel's own table: an entry goes when the kernel forgets
//! the node.

use std::collections::HashMap;

use parking_lot::Mutex;
use weft_proto::meta::ROOT;

use super::attr::Attr;
use super::change_log::{AskedAt, ChangeLog, Subject};
use crate::limits::NODE_SHARDS;

/// A state of a file's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: i64,
    changed: i64,
    mode: u32,
}

impl From<&Attr> for Stamp {
    fn from(attr: &Attr) -> Stamp {
        Stamp {
            size: attr.size,
            modified: attr.modified,
            changed: attr.changed,
            mode: attr.mode,
        }
    }
}

/// A state of a file's data. It includes the time of the last change, because the time of the last
/// write can be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Content {
    size: u64,
    modified: i64,
    changed: i64,
}

impl From<&Attr> for Content {
    fn from(attr: &Attr) -> Content {
        Content {
            size: attr.size,
            modified: attr.modified,
            changed: attr.changed,
        }
    }
}

#[derive(Debug, Default)]
struct Node {
    lookups: u64,
    reported: Option<Stamp>,
    pages: Option<Content>,
    /// The state at the last open that had the kernel drop its pages, until one of them is read
    /// anew.
    opening: Option<Content>,
    /// The latest attributes.
    last: Option<Attr>,
    /// They are true.
    certain: bool,
    /// This mount has removed or replaced a name of it.
    unnamed: bool,
    /// It has no extended attributes and no access control list.
    bare: bool,
    /// Its directory and its name there, as last known. For messages: other clients may have
    /// renamed it since.
    name: Option<(u64, Box<[u8]>)>,
    /// When this mount last read it, if the service's answers may not show that yet.
    accessed: Option<i64>,
}

/// What an open means for the kernel's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) struct OpenCachePolicy {
    /// The kernel's pages show the current data.
    pub(in crate::fs) keep_pages: bool,
    /// The kernel's attributes are current.
    pub(in crate::fs) keep_attributes: bool,
    /// If the pages are not kept: the state that the next ones show, for [`Nodes::first_read`].
    pub(in crate::fs) opening: Option<Content>,
}

/// All nodes that the kernel knows.
#[derive(Debug, Default)]
pub(in crate::fs) struct Nodes([Mutex<HashMap<u64, Node>>; NODE_SHARDS]);

impl Nodes {
    /// No node but the root, which the kernel knows without having looked it up.
    pub(in crate::fs) fn with_root() -> Nodes {
        let nodes = Nodes::default();
        let root = Node {
            lookups: 1,
            ..Node::default()
        };
        nodes.shard(ROOT).lock().insert(ROOT, root);
        nodes
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Node>> {
        &self.0[id as usize % NODE_SHARDS]
    }

    fn with<T: Default>(&self, id: u64, look: impl FnOnce(&mut Node) -> T) -> T {
        let mut shard = self.shard(id).lock();
        shard.get_mut(&id).map(look).unwrap_or_default()
    }

    /// A lookup, a create or a listing reports a node to the kernel, which will forget it as often.
    pub(in crate::fs) fn looked_up(&self, attr: &Attr) {
        let mut shard = self.shard(attr.id).lock();
        let node = shard.entry(attr.id).or_default();
        node.lookups += 1;
        node.reported = Some(attr.into());
    }

    /// A node that the kernel knows has this name in this directory.
    pub(in crate::fs) fn called(&self, id: u64, (directory, name): (u64, &[u8])) {
        self.with(id, |node| {
            let known = node.name.as_ref();
            if known.is_none_or(|(at, known)| (*at, &known[..]) != (directory, name)) {
                node.name = Some((directory, name.into()));
            }
        });
    }

    /// Its directory and its name there, as last passed to [`Nodes::called`].
    pub(in crate::fs) fn name(&self, id: u64) -> Option<(u64, Box<[u8]>)> {
        self.with(id, |node| node.name.clone())
    }

    /// The kernel forgets so many lookups. True if it no longer knows the node.
    pub(in crate::fs) fn forgotten(&self, id: u64, lookups: u64) -> bool {
        let mut shard = self.shard(id).lock();
        let Some(node) = shard.get_mut(&id) else {
            return true;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        let gone = node.lookups == 0;
        if gone {
            shard.remove(&id);
        }
        gone
    }

    /// Whether the kernel knows this node.
    pub(in crate::fs) fn has(&self, id: u64) -> bool {
        self.shard(id).lock().contains_key(&id)
    }

    /// Attributes of a node are reported to the kernel.
    pub(in crate::fs) fn reported(&self, attr: &Attr) {
        self.with(attr.id, |node| node.reported = Some(attr.into()));
    }

    /// Caches attributes, unless the answer was overtaken; `bare` as of [`Nodes::is_bare`].
    pub(in crate::fs) fn learn(&self, log: &ChangeLog, asked: AskedAt, attr: &Attr, bare: bool) {
        self.with(attr.id, |node| {
            // Under the lock: a concurrent change is either in the log already or will doubt this.
            if !log.overtaken(asked, Subject::File(attr.id)) {
                (node.last, node.certain) = (Some(*attr), true);
                node.bare = bare;
            } else if !node.certain {
                node.last = Some(*attr);
            }
        });
    }

    /// As [`Nodes::learn`], of extended attributes only.
    pub(in crate::fs) fn cache_absent_xattrs(
        &self,
        log: &ChangeLog,
        asked: AskedAt,
        id: u64,
        bare: bool,
    ) {
        self.with(id, |node| {
            if !log.overtaken(asked, Subject::File(id)) {
                node.bare = bare;
            }
        });
    }

    /// The attributes, if they are certain.
    pub(in crate::fs) fn known(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last.filter(|_| node.certain))
    }

    /// This mount has removed a name of a node.
    pub(in crate::fs) fn unnamed(&self, id: u64) {
        self.with(id, |node| node.unnamed = true);
    }

    /// The latest attributes of a node of which this mount has removed a name; other clients may
    /// have changed them since.
    pub(in crate::fs) fn last_of_unnamed(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last.filter(|_| node.unnamed))
    }

    /// The latest attributes, whether or not they are still true.
    pub(in crate::fs) fn last(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last)
    }

    /// A read at this time counts as an access.
    pub(in crate::fs) fn accessed(&self, id: u64, time: i64) {
        self.with(id, |node| node.accessed = node.accessed.max(Some(time)));
    }

    /// Whether this mount has read it later than the service's answers may show.
    pub(in crate::fs) fn was_read(&self, id: u64) -> bool {
        self.with(id, |node| node.accessed.is_some())
    }

    /// The service's time of access counts again.
    pub(in crate::fs) fn forget_access(&self, id: u64) {
        self.with(id, |node| node.accessed = None);
    }

    /// Adds this mount's last read to attributes.
    pub(in crate::fs) fn cover(&self, attr: &mut Attr) {
        let accessed = self.with(attr.id, |node| node.accessed);
        attr.accessed = accessed.map_or(attr.accessed, |time| attr.accessed.max(time));
    }

    /// Whether it certainly has no extended attributes.
    pub(in crate::fs) fn is_bare(&self, id: u64) -> bool {
        self.with(id, |node| node.bare)
    }

    /// The attributes are not certain any more; `bare`: nor is the absence of extended ones.
    pub(in crate::fs) fn doubt(&self, id: u64, bare: bool) {
        self.with(id, |node| {
            node.certain = false;
            node.bare &= !bare;
        });
    }

    /// Nothing is certain about any node, nor what its pages show.
    pub(in crate::fs) fn doubt_all(&self) {
        for shard in &self.0 {
            for node in shard.lock().values_mut() {
                (node.certain, node.bare) = (false, false);
                (node.pages, node.opening) = (None, None);
                node.accessed = None;
            }
        }
    }

    /// Whether these are the attributes last reported to the kernel.
    pub(in crate::fs) fn was_reported(&self, attr: &Attr) -> bool {
        self.with(attr.id, |node| node.reported == Some(attr.into()))
    }

    /// A read found the end of the file here. True if the kernel has a larger size: it takes the
    /// file for as short from now on, so nothing counts as reported.
    pub(in crate::fs) fn ends_at(&self, id: u64, end: u64) -> bool {
        self.with(id, |node| {
            let longer = node.reported.is_some_and(|reported| reported.size > end);
            if longer {
                (node.reported, node.certain) = (None, false);
            }
            longer
        })
    }

    /// The ids of all nodes that the kernel knows.
    pub(in crate::fs) fn all(&self) -> Vec<u64> {
        let shards = self.0.iter();
        shards
            .flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>())
            .collect()
    }

    /// The permission bits last reported to the kernel.
    pub(in crate::fs) fn mode(&self, id: u64) -> Option<u32> {
        self.with(id, |node| node.reported.map(|stamp| stamp.mode))
    }

    /// A file is opened in this state. Pages read from now on show this state or a later one;
    /// `exact`: no other client is writing it.
    pub(in crate::fs) fn opened(&self, attr: &Attr, exact: bool) -> OpenCachePolicy {
        let mut shard = self.shard(attr.id).lock();
        let Some(node) = shard.get_mut(&attr.id) else {
            return OpenCachePolicy {
                keep_pages: false,
                keep_attributes: false,
                opening: None,
            };
        };
        let now = exact.then_some(Content::from(attr));
        let keep_pages = now.is_some() && node.pages == now;
        if !keep_pages {
            // The kernel drops them when it gets the reply: a concurrent open must not keep them.
            (node.pages, node.opening) = (None, now);
        }
        OpenCachePolicy {
            keep_pages,
            keep_attributes: exact && node.reported == Some(attr.into()),
            opening: now.filter(|_| !keep_pages),
        }
    }

    /// The first read by an open for which the kernel has dropped the earlier pages.
    pub(in crate::fs) fn first_read(&self, id: u64, opening: Content) {
        self.with(id, |node| {
            if node.opening == Some(opening) {
                node.pages = node.opening.take();
            }
        });
    }

    /// The pages show this content for certain, or an unknown one.
    pub(in crate::fs) fn settled(&self, id: u64, content: Option<Content>) {
        self.with(id, |node| (node.pages, node.opening) = (content, None));
    }
}

#[cfg(test)]
mod tests {
    use weft_client::{Attributes, FileKind};

    use super::*;

    fn attr(size: u64, modified: i64) -> Attr {
        Attr::from(&Attributes {
            id: 5,
            kind: FileKind::Regular as i32,
            size,
            modified,
            ..Attributes::default()
        })
    }

    fn read(nodes: &Nodes, opened: OpenCachePolicy) {
        assert!(!opened.keep_pages);
        nodes.first_read(5, opened.opening.unwrap());
    }

    #[test]
    fn pages_are_kept_only_while_size_and_time_are_unchanged() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        let first = nodes.opened(&attr(10, 1), true);
        assert!(!first.keep_pages, "the kernel has read nothing yet");
        read(&nodes, first);
        assert!(nodes.opened(&attr(10, 1), true).keep_pages);
        read(&nodes, nodes.opened(&attr(10, 2), true));
        let longer = nodes.opened(&attr(11, 2), true);
        assert!(!longer.keep_pages);
        assert!(
            !nodes.opened(&attr(11, 2), true).keep_pages,
            "the kernel may still have the old pages"
        );
        read(&nodes, longer);
        assert!(nodes.opened(&attr(11, 2), true).keep_pages);
    }

    #[test]
    fn pages_are_dropped_while_another_client_writes() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        let before = nodes.opened(&attr(10, 1), true);
        assert!(!nodes.opened(&attr(10, 1), false).keep_pages);
        read(&nodes, before);
        assert!(
            !nodes.opened(&attr(10, 1), true).keep_pages,
            "the state of the pages is uncertain"
        );
    }

    #[test]
    fn attributes_that_the_kernel_has_are_kept() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        assert!(nodes.opened(&attr(10, 1), true).keep_attributes);
        assert!(!nodes.opened(&attr(12, 3), true).keep_attributes);
        nodes.reported(&attr(12, 3));
        assert!(nodes.opened(&attr(12, 3), true).keep_attributes);
    }

    #[test]
    fn pages_are_dropped_when_the_time_of_the_last_write_was_set_back() {
        let nodes = Nodes::default();
        let attr = |changed| Attr {
            changed,
            ..attr(10, 1)
        };
        nodes.looked_up(&attr(1));
        read(&nodes, nodes.opened(&attr(1), true));
        assert!(nodes.opened(&attr(1), true).keep_pages);
        assert!(!nodes.opened(&attr(2), true).keep_pages);
    }

    #[test]
    fn attributes_are_known_until_a_change_is_logged() {
        let (nodes, log) = (Nodes::default(), ChangeLog::default());
        log.record_all(true);
        nodes.looked_up(&attr(10, 1));
        let asked = log.now();
        nodes.learn(&log, asked, &attr(10, 1), true);
        assert!(nodes.known(5).is_some() && nodes.is_bare(5));
        log.record(Subject::File(5));
        nodes.doubt(5, false);
        assert!(nodes.known(5).is_none() && nodes.is_bare(5));
        nodes.learn(&log, asked, &attr(11, 1), true);
        assert!(nodes.known(5).is_none(), "the answer was overtaken");
        nodes.learn(&log, log.now(), &attr(12, 2), false);
        assert_eq!(nodes.known(5).map(|a| a.size), Some(12));
        nodes.doubt_all();
        assert!(nodes.known(5).is_none());
        assert!(
            nodes.last_of_unnamed(5).is_none(),
            "the file may still have its name"
        );
        nodes.unnamed(5);
        assert_eq!(nodes.last_of_unnamed(5).map(|a| a.size), Some(12));
        nodes.learn(&log, asked, &attr(13, 1), true);
        assert_eq!(nodes.last_of_unnamed(5).map(|a| a.size), Some(13));
    }

    #[test]
    fn a_node_is_dropped_with_its_last_lookup() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(1, 1));
        nodes.looked_up(&attr(1, 1));
        assert!(!nodes.forgotten(5, 1));
        assert!(nodes.forgotten(5, 1));
        assert!(nodes.0.iter().all(|shard| shard.lock().is_empty()));
    }
}
