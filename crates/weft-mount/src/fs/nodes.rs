//! What is known of each file that the kernel knows: how often it looked it up, which attributes it
//! was told, of which state of the file the pages in its cache are, and the attributes as long as
//! they are certain. Bounded by the kernel's own memory of nodes: an entry goes when it forgets
//! one.

use std::collections::HashMap;

use parking_lot::Mutex;
use weft_proto::meta::ROOT;

use super::attr::Attr;
use super::news::{Asked, News, Subject};
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

/// A state of a file's data. The time of the last change is of it, because the time of the last
/// write can be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
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
    told: Option<Stamp>,
    pages: Option<Content>,
    /// The state at the last open that had the kernel drop its pages, until one of them is read
    /// anew.
    opening: Option<Content>,
    /// The attributes as they were told last.
    last: Option<Attr>,
    /// They are true.
    certain: bool,
    /// This mount took a name of it away, or replaced it.
    unnamed: bool,
    /// It has no extended attributes and no access control list.
    bare: bool,
    /// Its directory and its name there, as this mount heard last. For messages: others may have
    /// renamed it since.
    name: Option<(u64, Box<[u8]>)>,
    /// When this mount read it last; the service may not know yet, or an answer of it be on its way
    /// that does not tell.
    accessed: Option<i64>,
}

/// What an open means for what the kernel has cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The pages are those of the file as it is.
    pub(super) keep_pages: bool,
    /// The attributes that the kernel was told are those of the file as it is.
    pub(super) keep_attributes: bool,
    /// Where the pages are not kept: the state that the next ones are of, for
    /// [`Nodes::first_read`].
    pub(super) opening: Option<Content>,
}

/// All nodes that the kernel knows.
#[derive(Debug, Default)]
pub(super) struct Nodes([Mutex<HashMap<u64, Node>>; NODE_SHARDS]);

impl Nodes {
    /// No node but the root, which the kernel knows without having looked it up.
    pub(super) fn with_root() -> Nodes {
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

    /// The kernel is told of a node in answer to a lookup, a create or a listing: it will forget
    /// it.
    pub(super) fn looked_up(&self, attr: &Attr) {
        let mut shard = self.shard(attr.id).lock();
        let node = shard.entry(attr.id).or_default();
        node.lookups += 1;
        node.told = Some(attr.into());
    }

    /// A node that the kernel knows has this name in this directory.
    pub(super) fn called(&self, id: u64, (directory, name): (u64, &[u8])) {
        self.with(id, |node| {
            let known = node.name.as_ref();
            if known.is_none_or(|(at, known)| (*at, &known[..]) != (directory, name)) {
                node.name = Some((directory, name.into()));
            }
        });
    }

    /// Its directory and its name there, as [`Nodes::called`] was told last.
    pub(super) fn name(&self, id: u64) -> Option<(u64, Box<[u8]>)> {
        self.with(id, |node| node.name.clone())
    }

    /// The kernel forgets so many lookups. True if it does not know the node any more.
    pub(super) fn forgotten(&self, id: u64, lookups: u64) -> bool {
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
    pub(super) fn has(&self, id: u64) -> bool {
        self.shard(id).lock().contains_key(&id)
    }

    /// The kernel is told attributes of a node that it knows.
    pub(super) fn told(&self, attr: &Attr) {
        self.with(attr.id, |node| node.told = Some(attr.into()));
    }

    /// The attributes are these, if nothing has overtaken the answer that tells it; `bare` as of
    /// [`Nodes::is_bare`].
    pub(super) fn learn(&self, news: &News, asked: Asked, attr: &Attr, bare: bool) {
        self.with(attr.id, |node| {
            // Under the lock, so that whoever notes a change either is seen here or takes this away
            // again.
            if !news.since(asked, Subject::File(attr.id)) {
                (node.last, node.certain) = (Some(*attr), true);
                node.bare = bare;
            } else if !node.certain {
                node.last = Some(*attr);
            }
        });
    }

    /// As [`Nodes::learn`], of extended attributes only.
    pub(super) fn learn_bare(&self, news: &News, asked: Asked, id: u64, bare: bool) {
        self.with(id, |node| {
            if !news.since(asked, Subject::File(id)) {
                node.bare = bare;
            }
        });
    }

    /// The attributes, where they are certain.
    pub(super) fn known(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last.filter(|_| node.certain))
    }

    /// This mount took a name of a node away.
    pub(super) fn unnamed(&self, id: u64) {
        self.with(id, |node| node.unnamed = true);
    }

    /// The attributes that this mount was told last of a node of which it took a name away; others
    /// may have changed them since.
    pub(super) fn last(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last.filter(|_| node.unnamed))
    }

    /// The attributes that this mount was told last, whether or not they still hold.
    pub(super) fn last_told(&self, id: u64) -> Option<Attr> {
        self.with(id, |node| node.last)
    }

    /// A read at this time counts as an access.
    pub(super) fn accessed(&self, id: u64, time: i64) {
        self.with(id, |node| node.accessed = node.accessed.max(Some(time)));
    }

    /// The time of access is what the service says.
    pub(super) fn forget_access(&self, id: u64) {
        self.with(id, |node| node.accessed = None);
    }

    /// Adds when this mount has read it.
    pub(super) fn cover(&self, attr: &mut Attr) {
        let accessed = self.with(attr.id, |node| node.accessed);
        attr.accessed = accessed.map_or(attr.accessed, |time| attr.accessed.max(time));
    }

    /// Whether it certainly has no extended attributes.
    pub(super) fn is_bare(&self, id: u64) -> bool {
        self.with(id, |node| node.bare)
    }

    /// The attributes are not certain any more; `bare`: nor is it whether there are extended ones.
    pub(super) fn doubt(&self, id: u64, bare: bool) {
        self.with(id, |node| {
            node.certain = false;
            node.bare &= !bare;
        });
    }

    /// Nothing is certain of any node, nor what its pages show.
    pub(super) fn doubt_all(&self) {
        for shard in &self.0 {
            for node in shard.lock().values_mut() {
                (node.certain, node.bare) = (false, false);
                (node.pages, node.opening) = (None, None);
                node.accessed = None;
            }
        }
    }

    /// Whether these are the attributes that the kernel was told last.
    pub(super) fn was_told(&self, attr: &Attr) -> bool {
        self.with(attr.id, |node| node.told == Some(attr.into()))
    }

    /// The file seems to end here, where reads found no more. True if the kernel was told that it
    /// is longer: it now takes it for as short, whatever becomes of it, and does not count as told.
    pub(super) fn ends_at(&self, id: u64, end: u64) -> bool {
        self.with(id, |node| {
            let longer = node.told.is_some_and(|told| told.size > end);
            if longer {
                (node.told, node.certain) = (None, false);
            }
            longer
        })
    }

    /// The ids of all nodes that the kernel knows.
    pub(super) fn all(&self) -> Vec<u64> {
        let shards = self.0.iter();
        shards
            .flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>())
            .collect()
    }

    /// The permission bits that the kernel was told.
    pub(super) fn mode(&self, id: u64) -> Option<u32> {
        self.with(id, |node| node.told.map(|stamp| stamp.mode))
    }

    /// A file is opened in this state. Pages read from now on are of this state or a later one;
    /// `exact` says that nobody else is writing it.
    pub(super) fn opened(&self, attr: &Attr, exact: bool) -> Verdict {
        let mut shard = self.shard(attr.id).lock();
        let Some(node) = shard.get_mut(&attr.id) else {
            return Verdict {
                keep_pages: false,
                keep_attributes: false,
                opening: None,
            };
        };
        let now = exact.then_some(Content::from(attr));
        let keep_pages = now.is_some() && node.pages == now;
        if !keep_pages {
            // The kernel drops them when it hears of it: whoever opens the file meanwhile must not
            // have them kept.
            (node.pages, node.opening) = (None, now);
        }
        Verdict {
            keep_pages,
            keep_attributes: exact && node.told == Some(attr.into()),
            opening: now.filter(|_| !keep_pages),
        }
    }

    /// The first read by an open since which the kernel has dropped the pages of before.
    pub(super) fn first_read(&self, id: u64, opening: Content) {
        self.with(id, |node| {
            if node.opening == Some(opening) {
                node.pages = node.opening.take();
            }
        });
    }

    /// The file has this content for certain, and the pages show it; or it is not known what they
    /// show.
    pub(super) fn settled(&self, id: u64, content: Option<Content>) {
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

    fn read(nodes: &Nodes, opened: Verdict) {
        assert!(!opened.keep_pages);
        nodes.first_read(5, opened.opening.unwrap());
    }

    #[test]
    fn pages_are_kept_exactly_while_size_and_time_stay() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        let first = nodes.opened(&attr(10, 1), true);
        assert!(!first.keep_pages, "nothing was read yet");
        read(&nodes, first);
        assert!(nodes.opened(&attr(10, 1), true).keep_pages);
        read(&nodes, nodes.opened(&attr(10, 2), true));
        let longer = nodes.opened(&attr(11, 2), true);
        assert!(!longer.keep_pages);
        assert!(
            !nodes.opened(&attr(11, 2), true).keep_pages,
            "the kernel may not have dropped the old ones yet"
        );
        read(&nodes, longer);
        assert!(nodes.opened(&attr(11, 2), true).keep_pages);
    }

    #[test]
    fn pages_go_while_somebody_writes() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        let before = nodes.opened(&attr(10, 1), true);
        assert!(!nodes.opened(&attr(10, 1), false).keep_pages);
        read(&nodes, before);
        assert!(
            !nodes.opened(&attr(10, 1), true).keep_pages,
            "they are of an uncertain state"
        );
    }

    #[test]
    fn attributes_that_the_kernel_was_told_are_not_told_again() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        assert!(nodes.opened(&attr(10, 1), true).keep_attributes);
        assert!(!nodes.opened(&attr(12, 3), true).keep_attributes);
        nodes.told(&attr(12, 3));
        assert!(nodes.opened(&attr(12, 3), true).keep_attributes);
    }

    #[test]
    fn pages_go_when_the_time_of_the_last_write_was_set_back() {
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
    fn attributes_are_known_until_there_is_news_of_them() {
        let (nodes, news) = (Nodes::default(), News::default());
        news.everything_changed(true);
        nodes.looked_up(&attr(10, 1));
        let asked = news.now();
        nodes.learn(&news, asked, &attr(10, 1), true);
        assert!(nodes.known(5).is_some() && nodes.is_bare(5));
        news.changed(Subject::File(5));
        nodes.doubt(5, false);
        assert!(nodes.known(5).is_none() && nodes.is_bare(5));
        nodes.learn(&news, asked, &attr(11, 1), true);
        assert!(nodes.known(5).is_none(), "the answer was overtaken");
        nodes.learn(&news, news.now(), &attr(12, 2), false);
        assert_eq!(nodes.known(5).map(|a| a.size), Some(12));
        nodes.doubt_all();
        assert!(nodes.known(5).is_none());
        assert!(nodes.last(5).is_none(), "it may have its name");
        nodes.unnamed(5);
        assert_eq!(nodes.last(5).map(|a| a.size), Some(12));
        nodes.learn(&news, asked, &attr(13, 1), true);
        assert_eq!(nodes.last(5).map(|a| a.size), Some(13));
    }

    #[test]
    fn a_node_goes_with_its_last_lookup() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(1, 1));
        nodes.looked_up(&attr(1, 1));
        assert!(!nodes.forgotten(5, 1));
        assert!(nodes.forgotten(5, 1));
        assert!(nodes.0.iter().all(|shard| shard.lock().is_empty()));
    }
}
