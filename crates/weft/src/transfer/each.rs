//! Transfers a tree file by file, through a view or to compare both sides. Each regular file is a
//! separate transfer with all guarantees of [`super`]; several run at a time.
//!
//! A comparison without a view covers everything: kinds, targets of symbolic links, and names that
//! only one side has. A view applies to bytes, so with a view only directories and regular files
//! count; other entries are skipped and reported.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use indicatif::ProgressBar;
use weft_client::{FileKind, Volume};

use super::args::TransferArgs;
use super::resume::Occupied;
use super::{export, import};
use crate::args::{LayoutArgs, mode};
use crate::copy::{CopySummary, Node, TransferPart, Tree, TreePath};
use crate::limits::TREE_TRANSFER_PIECES;
use crate::remote::RemotePath;
use crate::terminal::{ProblemKind, Problems, interrupt, name, output, progress};

/// A directory or a file, and where it goes.
struct TreeJob {
    from: Vec<u8>,
    to: Vec<u8>,
    node: Node,
}

struct Each<'a> {
    volume: &'a Volume,
    from: Tree,
    to: Tree,
    /// The options of each file's transfer.
    args: TransferArgs,
    /// The part of the tree.
    part: TransferPart,
    /// The tree's own path at the target.
    root: Vec<u8>,
    problems: Problems,
    /// Files that hold data and were not to be overwritten.
    occupied: ProblemKind,
    counts: Counts,
    bar: ProgressBar,
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    directories: AtomicU64,
    others: AtomicU64,
    bytes: AtomicU64,
    left_out: AtomicU64,
}

/// Transfers every file of the tree, or compares it.
pub(super) async fn each(
    volume: &Volume,
    from: &TreePath,
    to: &TreePath,
    args: &TransferArgs,
) -> Result<ExitCode> {
    let began = Instant::now();
    let doing = if args.compare { "comparing" } else { "copying" };
    let bar = progress::of_things(doing, "files", None);
    let tree = |side: &TreePath| {
        if side.weft {
            Tree::Weft(volume.clone())
        } else {
            Tree::Local
        }
    };
    let each = Each {
        volume,
        from: tree(from),
        to: tree(to),
        args: TransferArgs {
            part: TransferPart::WHOLE,
            streams: TREE_TRANSFER_PIECES,
            recursive: false,
            among_others: true,
            ..args.clone()
        },
        part: args.part,
        root: to.path.clone(),
        problems: Problems::beside(bar.clone()),
        occupied: ProblemKind::default(),
        counts: Counts::default(),
        bar,
    };
    let root = match each.from.stat(&from.path, true).await? {
        Some(node) if node.is_directory() => node,
        Some(_) => bail!("{} is not a directory", each.from.show(&from.path)),
        None => bail!("{} does not exist", each.from.show(&from.path)),
    };
    let root = TreeJob {
        from: from.path.clone(),
        to: to.path.clone(),
        node: root,
    };
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let walk = async {
        each.walk(root, args.streams.into()).await;
        interrupt::check()
    };
    let walked = interrupt::guard(walk, String::new).await;
    each.bar.finish_and_clear();
    let named = "files that hold data and were not overwritten";
    each.problems
        .summarize(&each.occupied, named, "--force overwrites them");
    if let Some(signal) = walked.err().as_ref().and_then(interrupt::of) {
        let files = count(&each.counts.files);
        return Err(signal.ended(if args.compare {
            format!("{files} files are compared, and nothing was changed")
        } else {
            format!("{files} files are copied completely, others maybe partially; the same command with --force copies all of them again")
        }));
    }
    let left_out = count(&each.counts.left_out);
    if left_out > 0 {
        let left_out = match left_out {
            1 => "1 link or special file".to_owned(),
            n => format!("{n} links and special files"),
        };
        output::say(format_args!(
            "weft: skipped {left_out}: a view applies to regular files only"
        ));
    }
    let (bytes, seconds) = (count(&each.counts.bytes), began.elapsed().as_secs_f64());
    let summary = CopySummary {
        files: count(&each.counts.files),
        directories: count(&each.counts.directories),
        others: count(&each.counts.others),
        bytes,
        seconds,
        mib_per_second: bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9),
        failures: each.problems.count(),
    };
    if args.json {
        output::json(&summary)?;
    } else if args.verbose || output::interactive() {
        output::say(summary.line());
    }
    Ok(each.problems.exit_code())
}

impl Each<'_> {
    /// Files go before directories, so that few entries wait. All running transfers are polled
    /// together: one that is not polled could hold buffers that the others wait for.
    async fn walk(&self, root: TreeJob, at_a_time: usize) {
        let (mut files, mut directories) = (Vec::new(), vec![root]);
        let mut running: FuturesUnordered<BoxFuture<'_, Result<Vec<TreeJob>>>> =
            FuturesUnordered::new();
        loop {
            while running.len() < at_a_time && interrupt::pending().is_none() {
                if let Some(job) = files.pop() {
                    running.push(Box::pin(self.file(job)));
                } else if let Some(directory) = directories.pop() {
                    running.push(Box::pin(self.expand(directory)));
                } else {
                    break;
                }
            }
            let Some(done) = running.next().await else {
                return;
            };
            for job in self.note(done) {
                if job.node.is_directory() {
                    directories.push(job);
                } else {
                    files.push(job);
                }
            }
        }
    }

    /// Reports a failure. Returns the entries found otherwise.
    fn note(&self, done: Result<Vec<TreeJob>>) -> Vec<TreeJob> {
        let error = match done {
            Ok(found) => return found,
            Err(error) => error,
        };
        if let Some(occupied) = error.downcast_ref::<Occupied>() {
            let target = occupied.target();
            let problem = format_args!("{target} holds data");
            self.problems.say_of_kind(&self.occupied, problem);
        } else if interrupt::of(&error).is_none() {
            self.problems.say(output::error(&error));
        }
        Vec::new()
    }

    /// Makes a directory, or checks that it exists. Returns its entries of this part.
    async fn expand(&self, directory: TreeJob) -> Result<Vec<TreeJob>> {
        let mut found = Vec::new();
        if self.args.compare {
            if let Some(how) = self.difference(&directory).await? {
                // Every part checks the directory; one part reports it.
                if self.is_mine(&directory.from, &directory.to) {
                    self.problems.say(how);
                }
                return Ok(found);
            }
        } else {
            let mode = 0o777 & !mode::umask();
            self.to.make_directory(&directory.to, mode).await?;
        }
        self.counts.directories.fetch_add(1, Ordering::Relaxed);
        let mut names = BTreeSet::new();
        let mut pages = self.from.list(&directory.from).await?;
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                let Some(entry) = self.problems.note(entry) else {
                    continue;
                };
                let job = TreeJob {
                    from: name::join(&directory.from, &entry.name),
                    to: name::join(&directory.to, &entry.name),
                    node: entry.node,
                };
                names.insert(entry.name);
                if job.node.is_directory() || self.is_mine(&job.from, &job.to) {
                    found.push(job);
                }
            }
        }
        if self.args.compare && !self.through_view() {
            self.report_extra(&directory, &names).await?;
        }
        Ok(found)
    }

    /// Reports names of the target that the source lacks.
    async fn report_extra(&self, directory: &TreeJob, names: &BTreeSet<Vec<u8>>) -> Result<()> {
        let mut pages = self.to.list(&directory.to).await?;
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(());
            }
            for entry in page {
                let Some(entry) = self.problems.note(entry) else {
                    continue;
                };
                let from = name::join(&directory.from, &entry.name);
                let to = name::join(&directory.to, &entry.name);
                if !names.contains(&entry.name) && self.is_mine(&from, &to) {
                    let (from, to) = (self.from.show(&from), self.to.show(&to));
                    self.problems
                        .say(format_args!("{to} exists, but {from} does not"));
                }
            }
        }
    }

    /// Handles an entry that is no directory.
    async fn file(&self, job: TreeJob) -> Result<Vec<TreeJob>> {
        if job.node.kind != FileKind::Regular {
            self.other(&job).await?;
            return Ok(Vec::new());
        }
        if self.args.compare || self.to.stat(&job.to, false).await?.is_some() {
            self.same_kind(&job).await?;
        }
        let done = if matches!(self.to, Tree::Weft(_)) {
            let (local, layout) = (name::os(&job.from), LayoutArgs::default());
            let to = RemotePath::new(job.to);
            import(self.volume, local.as_ref(), &to, &layout, &self.args).await?
        } else {
            let local = name::os(&job.to);
            let from = RemotePath::new(job.from);
            export(self.volume, &from, local.as_ref(), &self.args).await?
        };
        self.counts.files.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(1);
        self.counts.bytes.fetch_add(done.length, Ordering::Relaxed);
        Ok(Vec::new())
    }

    /// Compares an entry without data, or skips it.
    async fn other(&self, job: &TreeJob) -> Result<()> {
        if self.through_view() {
            self.counts.left_out.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.same_kind(job).await?;
        if job.node.kind == FileKind::Symlink {
            let here = self.from.read_link(&job.from).await?;
            let there = self.to.read_link(&job.to).await?;
            if here != there {
                bail!(
                    "{} and {} have different targets: {} and {}",
                    self.from.show(&job.from),
                    self.to.show(&job.to),
                    name::escape(&here),
                    name::escape(&there)
                );
            }
        }
        self.counts.others.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a target that is missing, or of another kind.
    async fn same_kind(&self, job: &TreeJob) -> Result<()> {
        self.difference(job).await?.map_or(Ok(()), |how| bail!(how))
    }

    /// The error that a target is missing, or of another kind.
    async fn difference(&self, job: &TreeJob) -> Result<Option<String>> {
        let (from, to) = (self.from.show(&job.from), self.to.show(&job.to));
        // Only the tree itself may be named by a link.
        let there = self.to.stat(&job.to, job.to == self.root).await?;
        Ok(match there {
            Some(there) if there.kind == job.node.kind => None,
            Some(_) => Some(format!("{to} is a different kind of file than {from}")),
            None => Some(format!("{to} does not exist, but {from} does")),
        })
    }

    fn through_view(&self) -> bool {
        !self.args.view.is_whole()
    }

    /// Whether a path belongs to this part, by its path in the volume, which is the same for every
    /// part.
    fn is_mine(&self, from: &[u8], to: &[u8]) -> bool {
        let in_volume = matches!(self.to, Tree::Weft(_));
        self.part.takes(if in_volume { to } else { from })
    }
}
