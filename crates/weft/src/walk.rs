//! Walks a directory tree of the volume, many requests at a time, each directory a page at a time.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use weft_client::{Attributes, Volume};

use crate::problems::Problems;
use crate::remote::{RemotePath, is_directory};

/// Requests in flight: enough for the metadata service to commit them in groups.
const REQUESTS: usize = 64;
/// Entries of one directory that are worked on at a time; with [`REQUESTS`] the bound that counts.
const ENTRIES: usize = 64;

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

/// A walk over a tree.
pub(crate) struct Walk<'a, F> {
    volume: &'a Volume,
    problems: &'a Problems,
    visit: F,
    room: Arc<Semaphore>,
}

impl<'a, F, R> Walk<'a, F>
where
    F: Fn(Visit, RemotePath, Attributes) -> R + Sync,
    R: Future<Output = anyhow::Result<()>> + Send,
{
    /// A walk that calls `visit` for everything, and says what fails and goes on.
    pub(crate) fn new(volume: &'a Volume, problems: &'a Problems, visit: F) -> Walk<'a, F> {
        Walk {
            volume,
            problems,
            visit,
            room: Arc::new(Semaphore::new(REQUESTS)),
        }
    }

    /// Walks from here down. Symbolic links are visited, not followed.
    ///
    /// Returns whether everything went well here.
    pub(crate) fn from(&'a self, path: RemotePath, attributes: Attributes) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if !is_directory(&attributes) {
                return self.call(Visit::File, path, attributes).await;
            }
            if !self
                .call(Visit::Enter, path.clone(), attributes.clone())
                .await
            {
                return false;
            }
            let mut well = true;
            let mut listing = self.volume.list(&path);
            loop {
                let page = {
                    let _room = self.enter().await;
                    listing.page().await
                };
                let Some(page) = self.problems.note(page) else {
                    return false;
                };
                if page.is_empty() {
                    break;
                }
                let below = page
                    .into_iter()
                    .map(|e| self.from(path.join(&e.name), e.attributes));
                let results: Vec<bool> = stream::iter(below)
                    .buffer_unordered(ENTRIES)
                    .collect()
                    .await;
                well &= results.into_iter().all(|fine| fine);
            }
            // What could not be done below has been said; a directory left with a failure inside is no success.
            well && self.call(Visit::Leave, path, attributes).await
        })
    }

    async fn call(&self, when: Visit, path: RemotePath, attributes: Attributes) -> bool {
        let _room = self.enter().await;
        self.problems
            .note((self.visit)(when, path, attributes).await)
            .is_some()
    }

    async fn enter(&self) -> SemaphorePermit<'_> {
        self.room
            .acquire()
            .await
            .expect("the semaphore is never closed")
    }
}
