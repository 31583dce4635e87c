//! Walks a directory tree of the volume with many requests at a time, reading each directory in
//! pages.
//!
//! One owner of all state ([`Tree`]): the waiting entries and the open directories. Entries are
//! visited last in, first out, so that few wait. Requests name an entry by its directory's id, so
//! no path gets too long in a deep tree, and no rename leads the walk out of its tree.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use weft_client::{Attributes, Listed, Listing, Place, Volume};

use crate::limits::WALK_REQUESTS_MAX;
use crate::remote::path::{RemotePath, is_directory};
use crate::terminal::Problems;

/// When a file is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// A directory, before what it holds.
    Enter,
    /// A directory, after what it holds.
    Leave,
    /// Anything else.
    File,
}

/// Where an entry is: its path for messages, its place for calls.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    path: RemotePath,
    place: Place,
}

/// A walk over a tree.
pub(crate) struct Walk<'a, F> {
    volume: &'a Volume,
    problems: &'a Problems,
    visit: F,
    /// Entries that are done without failure.
    done: AtomicU64,
}

/// The number of an open directory.
type Number = u64;

/// A directory, from its being entered until everything below it is done.
struct Directory {
    location: Location,
    attributes: Attributes,
    parent: Option<Number>,
    /// Entries that are not done, plus one until the directory is completely listed.
    open: usize,
    /// No failure in it so far.
    well: bool,
}

enum Task {
    Visit(Visit, Option<Number>, Location, Attributes),
    List(Number, Listing),
}

enum Done {
    Visited(Visit, Option<Number>, Location, Attributes, bool),
    Listed(Number, Listing, Option<Vec<Listed>>),
}

/// What is still to do.
#[derive(Default)]
struct Tree {
    waiting: Vec<Task>,
    directories: HashMap<Number, Directory>,
    last: Number,
}

impl Location {
    /// For messages.
    pub(crate) fn path(&self) -> &RemotePath {
        &self.path
    }

    /// For calls.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

impl<'a, F, R> Walk<'a, F>
where
    F: Fn(Visit, Location, Attributes) -> R + Sync,
    R: Future<Output = anyhow::Result<()>> + Send,
{
    /// A walk that calls `visit` for every entry. It reports a failure and goes on.
    pub(crate) fn new(volume: &'a Volume, problems: &'a Problems, visit: F) -> Walk<'a, F> {
        Walk {
            volume,
            problems,
            visit,
            done: AtomicU64::new(0),
        }
    }

    /// The message when the user ends a walk. `done` is what happened to the names so far, such as
    /// "changed".
    pub(crate) fn interrupted(&self, done: &str) -> String {
        format!(
            "{} names are {done}, the others are unchanged; the same command continues",
            self.done()
        )
    }

    /// How many names are done: visited without failure; a directory counts after its entries.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Walks the tree below `path`. Symbolic links are visited, not followed.
    ///
    /// Returns whether there was no failure.
    pub(crate) async fn from(&self, path: RemotePath, attributes: Attributes) -> bool {
        let place = Place::from(&path);
        let mut tree = Tree::default();
        tree.found(None, Location { path, place }, attributes);
        let mut running: FuturesUnordered<BoxFuture<'_, Done>> = FuturesUnordered::new();
        let mut well = true;
        loop {
            while running.len() < WALK_REQUESTS_MAX
                && let Some(task) = tree.waiting.pop()
            {
                running.push(Box::pin(self.run(task)));
            }
            let Some(done) = running.next().await else {
                return well;
            };
            match done {
                Done::Visited(Visit::Enter, parent, location, attributes, true) => {
                    let place =
                        Place::of(attributes.id).shown_as(location.path().as_ref().to_vec());
                    tree.entered(parent, location, attributes, self.volume.list(place));
                }
                Done::Visited(_, parent, _, _, fine) => well &= tree.done(parent, fine),
                Done::Listed(number, listing, page) => well &= tree.listed(number, listing, page),
            }
        }
    }

    async fn run(&self, task: Task) -> Done {
        match task {
            Task::Visit(when, parent, location, attributes) => {
                let visited = (self.visit)(when, location.clone(), attributes.clone()).await;
                let well = self.problems.note(visited).is_some();
                if well && when != Visit::Enter {
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
                Done::Visited(when, parent, location, attributes, well)
            }
            Task::List(number, mut listing) => {
                let page = self.problems.note(listing.page().await);
                Done::Listed(number, listing, page)
            }
        }
    }
}

impl Tree {
    fn found(&mut self, parent: Option<Number>, location: Location, attributes: Attributes) {
        let when = if is_directory(&attributes) {
            Visit::Enter
        } else {
            Visit::File
        };
        self.waiting
            .push(Task::Visit(when, parent, location, attributes));
    }

    fn entered(
        &mut self,
        parent: Option<Number>,
        location: Location,
        attributes: Attributes,
        listing: Listing,
    ) {
        self.last += 1;
        let directory = Directory {
            location,
            attributes,
            parent,
            open: 1,
            well: true,
        };
        self.directories.insert(self.last, directory);
        self.waiting.push(Task::List(self.last, listing));
    }

    /// A page of a directory; `None`: it could not be listed. Returns what [`Tree::done`] does.
    fn listed(&mut self, number: Number, listing: Listing, page: Option<Vec<Listed>>) -> bool {
        let listed = page.is_some();
        let page = page.unwrap_or_default();
        if page.is_empty() {
            return self.done(Some(number), listed);
        }
        let directory = self.directories.get_mut(&number);
        let directory = directory.expect("a directory is open until all of it is listed");
        directory.open += page.len();
        let (id, path) = (directory.attributes.id, directory.location.path.clone());
        self.waiting.push(Task::List(number, listing));
        for entry in page {
            let path = path.join(&entry.name);
            let place = Place::under(id, entry.name).shown_as(path.as_ref().to_vec());
            self.found(Some(number), Location { path, place }, entry.attributes);
        }
        true
    }

    /// An entry of this directory is done. Returns false if it was the root of the tree, and there
    /// was a failure.
    fn done(&mut self, parent: Option<Number>, well: bool) -> bool {
        let (mut parent, mut well) = (parent, well);
        while let Some(number) = parent {
            let directory = self.directories.get_mut(&number);
            let directory = directory.expect("a directory is open until all in it is done");
            directory.open -= 1;
            directory.well &= well;
            if directory.open > 0 {
                return true;
            }
            let directory = self.directories.remove(&number).expect("it was there");
            if directory.well {
                let Directory {
                    location,
                    attributes,
                    parent,
                    ..
                } = directory;
                self.waiting
                    .push(Task::Visit(Visit::Leave, parent, location, attributes));
                return true;
            }
            // Failures below have been reported; a directory that contains one is not a success.
            (parent, well) = (directory.parent, false);
        }
        well
    }
}
