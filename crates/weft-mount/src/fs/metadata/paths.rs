//! Paths in messages: the names under which the kernel looked up a node and its directories.
//!
//! Only for messages, never to find anything by: other clients rename without this mount noticing.
//! If a name is unknown, as that of a file whose directory the kernel has forgotten, messages have
//! the number.

use weft_client::Place;
use weft_proto::meta::ROOT;
use weft_proto::text::escape;

use super::metadata_cache::MetadataCache;
use super::nodes::Nodes;
use crate::limits::PATH_DEPTH_MAX;

impl Nodes {
    /// The path of a node from the root, `/a/f`; that of the root itself is empty.
    fn path(&self, id: u64) -> Option<Vec<u8>> {
        let (mut at, mut names) = (id, Vec::new());
        while at != ROOT {
            if names.len() == PATH_DEPTH_MAX {
                return None;
            }
            let (directory, name) = self.name(at)?;
            names.push(name);
            at = directory;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Some(path)
    }
}

impl MetadataCache {
    /// The node with this id, which messages show by its path.
    pub(in crate::fs) fn place(&self, id: u64) -> Place {
        let place = Place::of(id);
        match self.nodes().path(id) {
            Some(path) if path.is_empty() => place.shown_as("/"),
            Some(path) => place.shown_as(path),
            None => place,
        }
    }

    /// A name in a directory, which messages show by its path.
    pub(in crate::fs) fn under(&self, directory: u64, name: &[u8]) -> Place {
        let place = Place::under(directory, name);
        match self.nodes().path(directory) {
            Some(mut path) => {
                path.push(b'/');
                path.extend_from_slice(name);
                place.shown_as(path)
            }
            None => place,
        }
    }

    /// A node in a log line: `/a/f (file 7)`.
    pub(in crate::fs) fn shown(&self, id: u64) -> String {
        match self.nodes().path(id) {
            Some(path) if !path.is_empty() => format!("{} (file {id})", escape(&path)),
            _ => format!("file {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_client::Attributes;

    use super::*;
    use crate::fs::metadata::attr::Attr;

    #[test]
    fn a_path_follows_the_kernels_lookups() {
        let nodes = Nodes::with_root();
        let add = |id, directory, name: &[u8]| {
            let attributes = Attributes {
                id,
                ..Attributes::default()
            };
            nodes.looked_up(&Attr::from(&attributes));
            nodes.called(id, (directory, name));
        };
        let path = |id| nodes.path(id).map(|path| String::from_utf8(path).unwrap());
        add(5, ROOT, b"a");
        add(6, 5, b"f");
        assert_eq!(path(ROOT).as_deref(), Some(""));
        assert_eq!(path(6).as_deref(), Some("/a/f"));
        nodes.called(6, (ROOT, b"g"));
        assert_eq!(path(6).as_deref(), Some("/g"));
        assert_eq!(path(7), None, "the name was not looked up");
        add(8, 7, b"f");
        assert_eq!(path(8), None, "its directory was not looked up");
        nodes.called(5, (6, b"a"));
        nodes.called(6, (5, b"f"));
        assert_eq!(path(6), None, "names of different times form a cycle");
    }
}
