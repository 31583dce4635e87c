//! The engine of a copy: it owns the queues of work.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};
use tokio::task::JoinHandle;
use weft_client::{FileKind, Volume};

use super::context::{Copy, CopyJob};
use super::entry::{self, Done, Expansion};
use super::node::Node;
use super::options::{Options, TreePath};
use super::report::CopySummary;
use crate::streams::panicked;
use crate::terminal::interrupt::{self, Orderly};
use crate::terminal::{name, progress};

/// The work that is still to do.
#[derive(Default)]
struct Engine {
    files: Vec<CopyJob>,
    directories: Vec<Expansion>,
    /// The first name of files with several.
    first_names: HashMap<(u64, u64), Vec<u8>>,
    /// Further names, with the first.
    links: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directories to finish.
    made: Vec<CopyJob>,
    made_identities: HashSet<(u64, u64)>,
}

/// Copies the sources, which are all on one side, to `target`.
pub(crate) async fn run(
    volume: &Volume,
    sources: &[TreePath],
    target: &TreePath,
    options: Options,
) -> Result<CopySummary> {
    let bar = progress::of_bytes("copying", None);
    let copy = Arc::new(Copy::new(volume, sources, target, options, bar.clone()));
    let mut engine = Engine::default();
    let preparing = engine.prepare(&copy, sources, target);
    let prepared = interrupt::guard(preparing, || "nothing is copied yet".to_owned()).await;
    if prepared.is_ok() {
        let _orderly = Orderly::begin()?;
        engine.work(&copy).await;
        engine.link(&copy).await;
        engine.finish(&copy).await;
        copy.sync(volume).await;
    }
    bar.finish_and_clear();
    prepared?;
    copy.summarize();
    if let Some(signal) = interrupt::pending() {
        return Err(signal.ended(copy.so_far()));
    }
    Ok(copy.digest.summary(copy.problems.count()))
}

async fn joined(task: JoinHandle<Result<Done>>) -> Result<Done> {
    task.await.map_err(|e| panicked(&e))?
}

impl Engine {
    /// Determines the target of each source.
    async fn prepare(
        &mut self,
        copy: &Arc<Copy>,
        sources: &[TreePath],
        target: &TreePath,
    ) -> Result<()> {
        let there = copy.to.stat(&target.path, true).await?;
        let into = there.as_ref().is_some_and(Node::is_directory);
        if sources.len() > 1 && !into {
            bail!(
                "cannot copy {} files to {}: it is not a directory",
                sources.len(),
                copy.to.show(&target.path)
            );
        }
        if !into && target.path.ends_with(b"/") && !copy.options.recursive {
            bail!("{} is not a directory", copy.to.show(&target.path));
        }
        for source in sources {
            // A symbolic link that was named is copied as a link only with -r.
            let found = copy.from.stat(&source.path, !copy.options.recursive).await;
            let Some(found) = copy.note(found) else {
                continue;
            };
            let Some(node) = found else {
                let path = source.path.strip_suffix(b"/.").unwrap_or(&source.path);
                let path = copy.from.show(path);
                copy.problems.say(format_args!(
                    "cannot copy {path}: no such file or directory"
                ));
                continue;
            };
            let to = match name::last(&source.path) {
                b"" | b"." | b".." => target.path.clone(),
                name if into => name::join(&target.path, name),
                _ => target.path.clone(),
            };
            self.enqueue(
                copy,
                CopyJob {
                    from: source.path.clone(),
                    to,
                    node,
                },
            );
        }
        Ok(())
    }

    /// Queues one entry.
    fn enqueue(&mut self, copy: &Copy, job: CopyJob) {
        if job.node.is_directory() {
            if !copy.options.recursive {
                let path = copy.from.show(&job.from);
                copy.problems
                    .say(format_args!("{path} is a directory: copy it with -r"));
            } else if self.made_identities.contains(&job.node.identity) {
                let path = copy.from.show(&job.from);
                copy.problems
                    .say(format_args!("cannot copy {path} into itself"));
            } else {
                self.directories.push(Expansion::new(job));
            }
            return;
        }
        if !copy.is_mine(&job) {
            return;
        }
        if job.node.links > 1 {
            if let Some(first) = self.first_names.get(&job.node.identity) {
                self.links.push((first.clone(), job.to));
                return;
            }
            self.first_names.insert(job.node.identity, job.to.clone());
        }
        if job.node.kind == FileKind::Regular {
            copy.progress.found(job.node.size);
        }
        self.files.push(job);
    }

    /// Keeps tasks running until nothing is left to do.
    async fn work(&mut self, copy: &Arc<Copy>) {
        let limit = copy.options.small_files();
        // Directories being listed; outlives the tasks that decrement it.
        let listing = AtomicU64::new(0);
        let mut running: FuturesUnordered<BoxFuture<'_, Result<Done>>> = FuturesUnordered::new();
        loop {
            while running.len() < limit && !copy.must_stop() && interrupt::pending().is_none() {
                if let Some(job) = self.files.pop() {
                    let task = tokio::spawn(entry::copy(copy.clone(), job));
                    running.push(Box::pin(joined(task)));
                } else if let Some(directory) = self.directories.pop() {
                    let task = tokio::spawn(entry::expand(copy.clone(), directory));
                    listing.fetch_add(1, Ordering::Relaxed);
                    let listing = &listing;
                    running.push(Box::pin(async move {
                        let done = joined(task).await;
                        listing.fetch_sub(1, Ordering::Relaxed);
                        done
                    }));
                } else {
                    break;
                }
            }
            if self.directories.is_empty() && listing.load(Ordering::Relaxed) == 0 {
                copy.progress.all_found();
            }
            let Some(done) = running.next().await else {
                break;
            };
            let done = copy.note(done);
            copy.progress.files(copy.digest.files());
            let Some(page) = done.flatten() else {
                continue;
            };
            if let Some(identity) = page.made {
                self.made_identities.insert(identity);
                self.made.push(page.directory);
            }
            for job in page.found {
                self.enqueue(copy, job);
            }
            self.directories.extend(page.more);
        }
        if copy.lost_servers() {
            copy.problems.say(
                "the copy stopped because servers are unavailable: check with `weft status`, start them, and copy again",
            );
        }
    }

    async fn link(&mut self, copy: &Arc<Copy>) {
        let links = std::mem::take(&mut self.links);
        let link = |(first, path): (Vec<u8>, Vec<u8>)| async move {
            if interrupt::pending().is_none()
                && copy.note(entry::link(copy, &first, &path).await).is_some()
            {
                copy.digest.entry(FileKind::Regular);
            }
        };
        stream::iter(links)
            .for_each_concurrent(copy.options.small_files(), link)
            .await;
    }

    /// Sets the times and modes of directories, the deepest first: a mode may deny access to those
    /// below.
    async fn finish(&mut self, copy: &Arc<Copy>) {
        let mut made = std::mem::take(&mut self.made);
        let depth = |job: &CopyJob| job.to.split(|b| *b == b'/').count();
        made.sort_by_key(|job| std::cmp::Reverse(depth(job)));
        for level in made.chunk_by(|a, b| depth(a) == depth(b)) {
            let finish = |job: &CopyJob| {
                let job = job.clone();
                async move {
                    if interrupt::pending().is_none() {
                        copy.note(entry::finish(copy, &job).await);
                    }
                }
            };
            let width = copy.options.small_files();
            stream::iter(level).for_each_concurrent(width, finish).await;
        }
    }
}
