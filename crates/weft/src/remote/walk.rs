//! Walks a directory tree of the volume, many requests at a time, each directory a page at a time.
//!
//! One owner of all state ([`Tree`]): the entries that wait, and the open directories. The entry
//! found last goes first, so that few wait. An entry is named by its directory's id, so that no
//! path gets too long, however deep the tree, and no rename leads the walk out of its tree.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use weft_client::{Attributes, Listed, Listing, Place, Volume};

use crate::remote::path::{RemotePath, is_directory};
use crate::terminal::Problems;

/// Requests in flight: enough for the metadata service to commit them in groups.
const REQUESTS: usize = 64;

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

/// Where something is.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    path: RemotePath,
    place: Place,
}

/// A walk over a tree.
pub(crate) struct Walk<'a, F> {
    volume: &'a Volume,
    problems: &'a Problems,
    visit: F,
    /// What was visited for the last time, and well.
    done: AtomicU64,
}

/// Of an open directory its number.
type Number = u64;

/// A directory, from its being entered until everything below it is done.
struct Directory {
    spot: Spot,
    attributes: Attributes,
    parent: Option<Number>,
    /// What is found in it and not done, and one more until all of it is listed.
    open: usize,
    /// Everything in it went well so far.
    well: bool,
}

enum Task {
    Visit(Visit, Option<Number>, Spot, Attributes),
    List(Number, Listing),
}

enum Done {
    Visited(Visit, Option<Number>, Spot, Attributes, bool),
    Listed(Number, Listing, Option<Vec<Listed>>),
}

/// What is still to do.
#[derive(Default)]
struct Tree {
    waiting: Vec<Task>,
    directories: HashMap<Number, Directory>,
    last: Number,
}

impl Spot {
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
    F: Fn(Visit, Spot, Attributes) -> R + Sync,
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
            "{} names are {done}, the others are as they were; the same command goes on",
            self.done()
        )
    }

    /// How many names are done: visited without failure, directories after what they hold.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Walks from here down. Symbolic links are visited, not followed.
    ///
    /// Returns whether everything went well here.
    pub(crate) async fn from(&self, path: RemotePath, attributes: Attributes) -> bool {
        let place = Place::from(&path);
        let mut tree = Tree::default();
        tree.found(None, Spot { path, place }, attributes);
        let mut running: FuturesUnordered<BoxFuture<'_, Done>> = FuturesUnordered::new();
        let mut well = true;
        loop {
            while running.len() < REQUESTS
                && let Some(task) = tree.waiting.pop()
            {
                running.push(Box::pin(self.run(task)));
            }
            let Some(done) = running.next().await else {
                return well;
            };
            match done {
                Done::Visited(Visit::Enter, parent, spot, attributes, true) => {
                    let place = Place::of(attributes.id).shown_as(spot.path().as_ref().to_vec());
                    tree.entered(parent, spot, attributes, self.volume.list(place));
                }
                Done::Visited(_, parent, _, _, fine) => well &= tree.done(parent, fine),
                Done::Listed(number, listing, page) => well &= tree.listed(number, listing, page),
            }
        }
    }

    async fn run(&self, task: Task) -> Done {
        match task {
            Task::Visit(when, parent, spot, attributes) => {
                let visited = (self.visit)(when, spot.clone(), attributes.clone()).await;
                let well = self.problems.note(visited).is_some();
                if well && when != Visit::Enter {
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
                Done::Visited(when, parent, spot, attributes, well)
            }
            Task::List(number, mut listing) => {
                let page = self.problems.note(listing.page().await);
                Done::Listed(number, listing, page)
            }
        }
    }
}

impl Tree {
    fn found(&mut self, parent: Option<Number>, spot: Spot, attributes: Attributes) {
        let when = if is_directory(&attributes) {
            Visit::Enter
        } else {
            Visit::File
        };
        self.waiting
            .push(Task::Visit(when, parent, spot, attributes));
    }

    fn entered(
        &mut self,
        parent: Option<Number>,
        spot: Spot,
        attributes: Attributes,
        listing: Listing,
    ) {
        self.last += 1;
        let directory = Directory {
            spot,
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
        let (id, path) = (directory.attributes.id, directory.spot.path.clone());
        self.waiting.push(Task::List(number, listing));
        for entry in page {
            let path = path.join(&entry.name);
            let place = Place::under(id, entry.name).shown_as(path.as_ref().to_vec());
            self.found(Some(number), Spot { path, place }, entry.attributes);
        }
        true
    }

    /// Something in this directory is done. Returns false if that was the tree itself, and it did
    /// not go well.
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
                    spot,
                    attributes,
                    parent,
                    ..
                } = directory;
                self.waiting
                    .push(Task::Visit(Visit::Leave, parent, spot, attributes));
                return true;
            }
            // Failures below have been reported; a directory with a failure inside is not a
            // success.
            (parent, well) = (directory.parent, false);
        }
        well
    }
}
