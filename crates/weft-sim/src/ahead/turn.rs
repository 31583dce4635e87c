//! The right of a client to change a name, and a look at one: what the model said when they began.

use weft_client::Place;

use super::entry::Entry;
use super::slot::{Glance, Maker};

/// What a client wants to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A name that stands for nothing.
    AbsentFile,
    AbsentDirectory,
    File,
    /// A file whose bytes lie with its metadata.
    InlineFile,
}

/// The right to change a name.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) directory: usize,
    /// The directory's id.
    pub(super) parent: u64,
    pub(super) name: String,
    /// Its path, for processes that cannot know the directory's id yet.
    pub(super) path: Option<String>,
    pub(super) by: Maker,
    /// What it stood for when the turn began.
    pub(super) entry: Entry,
    pub(super) drops: u64,
    pub(super) disturbances: u64,
}

impl Turn {
    /// Where its client finds the name.
    pub(super) fn place(&self) -> Place {
        match &self.path {
            Some(path) => path.into(),
            None => Place::under(self.parent, &self.name),
        }
    }
}

/// A name that somebody is looking at.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) directory: usize,
    pub(super) name: String,
    pub(super) glance: Glance,
    pub(super) drops: u64,
    pub(super) trusted: bool,
    pub(super) disturbances: u64,
}

impl Want {
    pub(super) fn is_met(self, name: &str, entry: &Entry) -> bool {
        let file = name.starts_with('f');
        match self {
            Want::AbsentFile => file && *entry == Entry::Absent,
            Want::AbsentDirectory => !file && *entry == Entry::Absent,
            Want::File => entry.file().is_some(),
            Want::InlineFile => entry
                .file()
                .is_some_and(|file| file.content.cells.is_none()),
        }
    }
}
