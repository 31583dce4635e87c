//! Copies trees between the local file system and a volume, and within a volume.
//!
//! One owner of all state ([`Engine`]): it holds what is still to do, keeps a bounded number of tasks under way and
//! takes in what they found. Files go before directories, so that what waits stays little; a directory is taken in a
//! page at a time.
//!
//! Invariants:
//! 1. A directory is there before what it holds; its times and bits are set after everything in it is done, deepest
//!    first.
//! 2. Of several names of one file, one is copied and the others become hard links to the copy.
//! 3. What fails is said, with its path and its server, and the copy goes on; it stops when servers are lost again and
//!    again.
//! 4. Into a volume, a copy ends with one sync of each server that got data: what was reported survives power loss.
//! 5. No copy ends in zeros that its source does not have: a file that is cut while it is copied is a failure, and one that
//!    states no size, as in /proc, or a wrong one, as in /sys, is copied to its end. What of a file cannot be ended is taken away.
//! 6. A signal ends a copy in order: what is under way is taken away or ended, and what is whole stays.
//!
//! Deliberately absent: forks other than `data`; a file that is written to while it is copied is copied as it is read.

mod data;
mod entry;
pub(crate) mod local;
mod report;
mod sink;
mod source;
mod tree;
pub(crate) mod zeros;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};
use indicatif::ProgressBar;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use weft_client::{FileKind, Volume};
use weft_layout::{Layout, ServerId};
use weft_proto::Code;

use crate::streams::Buffers;
use crate::streams::panicked;
use crate::terminal::interrupt::Orderly;
use crate::terminal::{Alike, Problems};
use crate::terminal::{interrupt, name, output, progress};
use crate::transfer::Part;
use entry::{Done, Expansion};
pub(crate) use report::Summary;
use report::{Far, Tally};
pub(crate) use tree::{Node, Tree};

/// Small files under way for each stream: they wait for answers, not for bytes.
const FILES_PER_STREAM: usize = 8;
/// Failures for lack of a server after which a copy gives up.
const LOST_MAX: u64 = 32;
/// Failures for lack of room after which a copy gives up: a smaller file may still find some.
const FULL_MAX: u64 = 10;

/// What the user wants.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct Options {
    /// Directories, too.
    pub(crate) recursive: bool,
    /// Owners, and layouts within a volume, too.
    pub(crate) preserve: bool,
    /// Leave alone what is there.
    pub(crate) no_clobber: bool,
    /// Refuse to replace a file that is there.
    pub(crate) refuse: bool,
    /// Leave files alone whose copy has the size and the time of modification of its source; replace others.
    pub(crate) resume: bool,
    /// Read every file again on both sides, and compare.
    pub(crate) verify: bool,
    /// Of what is no directory, copy one share; every part makes the directories.
    pub(crate) part: Part,
    /// Files that move data at a time.
    pub(crate) streams: usize,
    /// End with a sync.
    pub(crate) sync: bool,
    /// What the user can do after an interruption.
    pub(crate) go_on: &'static str,
}

/// A side of a copy: a path, and whether it is in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// The path's bytes.
    pub(crate) path: Vec<u8>,
    /// Written `weft:/…`.
    pub(crate) weft: bool,
}

/// What all tasks of a copy share.
struct Copy {
    from: Tree,
    to: Tree,
    options: Options,
    /// Owners are kept: it was asked for, and we may.
    owner: bool,
    problems: Problems,
    /// Files that are there and were not to be replaced.
    there: Alike,
    /// What failed for lack of room.
    full: Alike,
    tally: Tally,
    bar: ProgressBar,
    far: Far,
    small: Buffers,
    large: Buffers,
    /// For what a piece is compared with: never taken before one of `large`, so nobody waits for ever.
    second: Buffers,
    streams: Semaphore,
    servers: Mutex<BTreeSet<ServerId>>,
    lost: AtomicU64,
}

/// One thing to copy.
#[derive(Clone, Debug)]
struct Job {
    from: Vec<u8>,
    to: Vec<u8>,
    node: Node,
}

/// The owner of what is still to do.
#[derive(Default)]
struct Engine {
    files: Vec<Job>,
    directories: Vec<Expansion>,
    /// The first name of files with several.
    first_names: HashMap<(u64, u64), Vec<u8>>,
    /// Further names, with the first.
    links: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directories to finish.
    made: Vec<Job>,
    made_identities: HashSet<(u64, u64)>,
}

/// Copies the sources, which are all on one side, to `target`.
pub(crate) async fn run(
    volume: &Volume,
    sources: &[Side],
    target: &Side,
    options: Options,
) -> Result<Summary> {
    let tree = |weft| {
        if weft {
            Tree::Weft(volume.clone())
        } else {
            Tree::Local
        }
    };
    let bar = progress::of_bytes("copying", None);
    let from_weft = sources.iter().any(|s| s.weft);
    let copy = Arc::new(Copy {
        from: tree(from_weft),
        to: tree(target.weft),
        owner: options.preserve && rustix::process::geteuid().is_root(),
        problems: Problems::beside(bar.clone()),
        there: Alike::default(),
        full: Alike::default(),
        tally: Tally::default(),
        bar: bar.clone(),
        far: Far::of(bar.clone()),
        small: Buffers::new(options.streams * FILES_PER_STREAM, data::SMALL),
        large: Buffers::new(16, data::PIECE),
        second: Buffers::new(16, data::PIECE),
        streams: Semaphore::new(options.streams),
        servers: Mutex::default(),
        lost: AtomicU64::new(0),
        options,
    });
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
    copy.sum_up();
    if let Some(signal) = interrupt::pending() {
        return Err(signal.ended(copy.so_far()));
    }
    Ok(copy.tally.summary(copy.problems.count()))
}

async fn joined(task: JoinHandle<Result<Done>>) -> Result<Done> {
    task.await.map_err(|e| panicked(&e))?
}

impl Engine {
    /// Finds out where each source goes.
    async fn prepare(&mut self, copy: &Arc<Copy>, sources: &[Side], target: &Side) -> Result<()> {
        let there = copy.to.stat(&target.path, true).await?;
        let into = there.as_ref().is_some_and(Node::is_directory);
        if sources.len() > 1 && !into {
            bail!(
                "cannot copy {} files to {}: it is no directory",
                sources.len(),
                copy.to.show(&target.path)
            );
        }
        if !into && target.path.ends_with(b"/") && !copy.options.recursive {
            bail!("{} is no directory", copy.to.show(&target.path));
        }
        for source in sources {
            // A link that is named is copied itself only as part of trees.
            let found = copy.from.stat(&source.path, !copy.options.recursive).await;
            let Some(found) = copy.note(found) else {
                continue;
            };
            let Some(node) = found else {
                let path = source.path.strip_suffix(b"/.").unwrap_or(&source.path);
                let path = copy.from.show(path);
                copy.problems
                    .say(format_args!("{path}: there is no such file or directory"));
                continue;
            };
            let to = match name::last(&source.path) {
                b"" | b"." | b".." => target.path.clone(),
                name if into => name::join(&target.path, name),
                _ => target.path.clone(),
            };
            self.take(
                copy,
                Job {
                    from: source.path.clone(),
                    to,
                    node,
                },
            );
        }
        Ok(())
    }

    /// Puts one thing where it waits for its turn.
    fn take(&mut self, copy: &Copy, job: Job) {
        if job.node.is_directory() {
            if !copy.options.recursive {
                let path = copy.from.show(&job.from);
                copy.problems
                    .say(format_args!("{path} is a directory: -r copies it"));
            } else if self.made_identities.contains(&job.node.identity) {
                let path = copy.from.show(&job.from);
                copy.problems
                    .say(format_args!("{path} is not copied into itself"));
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
            copy.far.found(job.node.size);
        }
        self.files.push(job);
    }

    /// Keeps tasks under way until nothing is left.
    async fn work(&mut self, copy: &Arc<Copy>) {
        let limit = copy.options.streams * FILES_PER_STREAM;
        // Directories being listed; outlives what counts in it.
        let listing = AtomicU64::new(0);
        let mut running: FuturesUnordered<BoxFuture<'_, Result<Done>>> = FuturesUnordered::new();
        loop {
            while running.len() < limit && !copy.gave_up() && interrupt::pending().is_none() {
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
                copy.far.all_found();
            }
            let Some(done) = running.next().await else {
                break;
            };
            let done = copy.note(done);
            copy.far.files(copy.tally.files());
            let Some(page) = done.flatten() else {
                continue;
            };
            if let Some(identity) = page.made {
                self.made_identities.insert(identity);
                self.made.push(page.directory);
            }
            for job in page.found {
                self.take(copy, job);
            }
            self.directories.extend(page.more);
        }
        if copy.lost.load(Ordering::Relaxed) >= LOST_MAX {
            copy.problems.say(
                "the copy stopped: servers are away; look with `weft status`, start them, and copy again",
            );
        }
    }

    async fn link(&mut self, copy: &Arc<Copy>) {
        let links = std::mem::take(&mut self.links);
        let link = |(first, path): (Vec<u8>, Vec<u8>)| async move {
            if interrupt::pending().is_none()
                && copy.note(entry::link(copy, &first, &path).await).is_some()
            {
                copy.tally.entry(FileKind::Regular);
            }
        };
        stream::iter(links)
            .for_each_concurrent(copy.options.streams * FILES_PER_STREAM, link)
            .await;
    }

    /// Gives directories their times and bits: the deepest first, as bits may lock those below away.
    async fn finish(&mut self, copy: &Arc<Copy>) {
        let mut made = std::mem::take(&mut self.made);
        let depth = |job: &Job| job.to.split(|b| *b == b'/').count();
        made.sort_by_key(|job| std::cmp::Reverse(depth(job)));
        for level in made.chunk_by(|a, b| depth(a) == depth(b)) {
            let finish = |job: &Job| {
                let job = job.clone();
                async move {
                    if interrupt::pending().is_none() {
                        copy.note(entry::finish(copy, &job).await);
                    }
                }
            };
            let width = copy.options.streams * FILES_PER_STREAM;
            stream::iter(level).for_each_concurrent(width, finish).await;
        }
    }
}

impl Copy {
    /// Says what failed; counts what failed for lack of a server.
    fn note<T>(&self, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        let code = error
            .chain()
            .find_map(|e| e.downcast_ref::<weft_client::Error>());
        if code.is_some_and(|e| e.code() == Code::Unavailable) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if interrupt::of(&error).is_some() {
            // Said once, at the end.
        } else if output::is_full(&error) {
            self.problems.say_alike(&self.full, output::error(&error));
        } else {
            self.problems.say(output::error(&error));
        }
        None
    }

    /// Says what many failures had in common.
    fn sum_up(&self) {
        self.problems.sum_up(
            &self.there,
            "files that are there and stay as they are",
            "--force replaces them, --resume those that differ in size or time",
        );
        let go_on = self.options.go_on;
        let advice = if self.full.count() >= FULL_MAX {
            format!("the copy stopped there; make room or have the quota raised, then {go_on}")
        } else {
            format!("make room or have the quota raised, then {go_on}")
        };
        self.problems
            .sum_up(&self.full, "copies that found no room", &advice);
    }

    /// What an interrupted copy has done.
    fn so_far(&self) -> String {
        let sync = if self.options.sync && matches!(self.to, Tree::Weft(_)) {
            " and may not survive power loss yet"
        } else {
            ""
        };
        format!(
            "{} are copied{sync}, and no file in part; directories may not have their modes and times yet. To go on: {}",
            self.tally.so_far(),
            self.options.go_on
        )
    }

    /// Whether a file is of this part. All names of one file are of the same.
    fn is_mine(&self, job: &Job) -> bool {
        if job.node.links > 1 {
            return self.options.part.takes(&job.node.identity.1.to_le_bytes());
        }
        // The path in the volume is the same for every part; the local one need not be.
        let in_volume = matches!(self.to, Tree::Weft(_));
        let path = if in_volume { &job.to } else { &job.from };
        self.options.part.takes(path)
    }

    fn gave_up(&self) -> bool {
        self.lost.load(Ordering::Relaxed) >= LOST_MAX || self.full.count() >= FULL_MAX
    }

    fn note_servers(&self, layout: &Layout) {
        let used = layout.servers().len().min(layout.cells() as usize);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.extend(&layout.servers()[..used]);
    }

    async fn sync(&self, volume: &Volume) {
        let servers: Vec<ServerId> = self
            .servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect();
        if self.options.sync && !servers.is_empty() {
            let synced = tokio::select! {
                biased;
                _ = interrupt::asked() => return,
                synced = volume.sync(servers) => synced,
            };
            self.note(synced.map_err(|e| {
                anyhow!(e)
                    .context("what was copied is not sure to survive power loss; copy it again")
            }));
        }
    }
}
