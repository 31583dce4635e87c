//! What the kernel knows of each file: how often it looked it up, which attributes it was told, and of which state of
//! the file the pages in its cache are. Bounded by the kernel's own memory of nodes: an entry goes when it forgets one.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::attr::Attr;

const SHARDS: usize = 16;

/// A state of a file's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) mode: u32,
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

/// A state of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) size: u64,
    pub(super) modified: i64,
}

#[derive(Debug, Default)]
struct Node {
    lookups: u64,
    told: Option<Stamp>,
    pages: Option<Content>,
}

/// What an open means for what the kernel has cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The pages are those of the file as it is.
    pub(super) keep_pages: bool,
    /// The attributes that the kernel was told are those of the file as it is.
    pub(super) keep_attributes: bool,
}

/// All nodes that the kernel knows.
#[derive(Debug, Default)]
pub(super) struct Nodes([Mutex<HashMap<u64, Node>>; SHARDS]);

impl Nodes {
    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Node>> {
        &self.0[id as usize % SHARDS]
    }

    /// The kernel is told of a node in answer to a lookup, a create or a listing: it will forget it.
    pub(super) fn looked_up(&self, attr: &Attr) {
        let mut shard = self.shard(attr.id).lock();
        let node = shard.entry(attr.id).or_default();
        node.lookups += 1;
        node.told = Some(attr.into());
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

    /// The kernel is told attributes of a node that it knows.
    pub(super) fn told(&self, attr: &Attr) {
        if let Some(node) = self.shard(attr.id).lock().get_mut(&attr.id) {
            node.told = Some(attr.into());
        }
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
        let shard = self.shard(id).lock();
        shard.get(&id).and_then(|n| n.told).map(|stamp| stamp.mode)
    }

    /// A file is opened in this state. Pages read from now on are of this state or a later one; `exact` says that
    /// nobody is writing it.
    pub(super) fn opened(&self, attr: &Attr, exact: bool) -> Verdict {
        let mut shard = self.shard(attr.id).lock();
        let Some(node) = shard.get_mut(&attr.id) else {
            return Verdict {
                keep_pages: false,
                keep_attributes: false,
            };
        };
        let now = exact.then_some(Content {
            size: attr.size,
            modified: attr.modified,
        });
        let verdict = Verdict {
            keep_pages: now.is_some() && node.pages == now,
            keep_attributes: exact && node.told == Some(attr.into()),
        };
        node.pages = now;
        verdict
    }

    /// The file has this content for certain, and the pages show it; or it is not known what they show.
    pub(super) fn settled(&self, id: u64, content: Option<Content>) {
        if let Some(node) = self.shard(id).lock().get_mut(&id) {
            node.pages = content;
        }
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

    #[test]
    fn pages_are_kept_exactly_while_size_and_time_stay() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        assert!(
            !nodes.opened(&attr(10, 1), true).keep_pages,
            "nothing was read yet"
        );
        assert!(nodes.opened(&attr(10, 1), true).keep_pages);
        assert!(!nodes.opened(&attr(10, 2), true).keep_pages);
        assert!(!nodes.opened(&attr(11, 2), true).keep_pages);
        assert!(nodes.opened(&attr(11, 2), true).keep_pages);
    }

    #[test]
    fn pages_go_while_somebody_writes() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(10, 1));
        nodes.opened(&attr(10, 1), true);
        assert!(!nodes.opened(&attr(10, 1), false).keep_pages);
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
    fn a_node_goes_with_its_last_lookup() {
        let nodes = Nodes::default();
        nodes.looked_up(&attr(1, 1));
        nodes.looked_up(&attr(1, 1));
        assert!(!nodes.forgotten(5, 1));
        assert!(nodes.forgotten(5, 1));
        assert!(nodes.0.iter().all(|shard| shard.lock().is_empty()));
    }
}
