//! The tasks of a copy: one entry of a tree, or one page of a directory.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use weft_client::FileKind;

use super::context::{Copy, CopyJob};
use super::data;
use super::tree::Pages;
use crate::terminal::{interrupt, name};

/// A directory in progress: not made yet, or listed in part.
pub(super) struct Expansion {
    directory: CopyJob,
    pages: Option<Pages>,
}

/// A page of a directory.
pub(super) struct Page {
    pub(super) directory: CopyJob,
    /// The copy's identity, when this is the first page.
    pub(super) made: Option<(u64, u64)>,
    pub(super) found: Vec<CopyJob>,
    /// The rest of the directory.
    pub(super) more: Option<Expansion>,
}

/// The result of a task: a page of a directory, or nothing.
pub(super) type Done = Option<Box<Page>>;

impl Expansion {
    pub(super) fn new(directory: CopyJob) -> Expansion {
        Expansion {
            directory,
            pages: None,
        }
    }
}

/// Copies anything but a directory.
pub(super) async fn copy(copy: Arc<Copy>, job: CopyJob) -> Result<Done> {
    interrupt::check()?;
    let mut skipped = false;
    if copy.options.refuse || copy.options.resume {
        match existing(&copy, &job).await? {
            Existing::Nothing => {}
            Existing::Same => skipped = true,
            Existing::Other => {
                let path = copy.to.show(&job.to);
                let problem = format_args!("{path} already exists");
                copy.problems.say_of_kind(&copy.existing, problem);
                return Ok(None);
            }
        }
    }
    let copied = match job.node.kind {
        _ if skipped => false,
        FileKind::Regular => data::copy(&copy, &job).await?,
        FileKind::Symlink => {
            let text = copy.from.read_link(&job.from).await?;
            let free = copy.to.free_name(&job.to, copy.options.no_clobber).await?;
            if free {
                copy.to.make_link(&job.to, &text).await?;
            }
            free
        }
        FileKind::Fifo | FileKind::Socket | FileKind::BlockDevice | FileKind::CharDevice => {
            let free = copy.to.free_name(&job.to, copy.options.no_clobber).await?;
            if free {
                copy.to.make_node(&job.to, &job.node).await?;
            }
            free
        }
        FileKind::Directory | FileKind::Unspecified => {
            bail!(
                "cannot copy {}: its kind of file is not supported",
                copy.from.show(&job.from)
            )
        }
    };
    if copied || skipped {
        if copy.options.verify && job.node.kind == FileKind::Regular {
            data::compare(&copy, &job).await?;
        }
        finish(&copy, &job).await?;
        copy.digest.entry(job.node.kind);
    }
    Ok(None)
}

/// What exists under the name of the copy.
enum Existing {
    /// Nothing, or a file to replace.
    Nothing,
    /// The copy, which an interrupted run made.
    Same,
    /// A file that must not be replaced.
    Other,
}

async fn existing(copy: &Copy, job: &CopyJob) -> Result<Existing> {
    let Some(there) = copy.to.stat(&job.to, false).await? else {
        return Ok(Existing::Nothing);
    };
    if !copy.options.resume {
        return Ok(Existing::Other);
    }
    let same = job.node.kind == FileKind::Regular
        && there.kind == FileKind::Regular
        && (there.size, there.modified) == (job.node.size, job.node.modified);
    if !same {
        return Ok(Existing::Nothing);
    }
    if let Some(layout) = &there.layout {
        // What the interrupted run wrote was not synced.
        let layout = weft_layout::Layout::try_from(layout)
            .map_err(|e| anyhow!("{}: {e}", copy.to.show(&job.to)))?;
        copy.note_servers(&layout);
    }
    copy.bar.inc(job.node.size);
    Ok(Existing::Same)
}

/// Makes a directory if it is not made yet, and lists its next page.
pub(super) async fn expand(copy: Arc<Copy>, expansion: Expansion) -> Result<Done> {
    let Expansion { directory, pages } = expansion;
    let (mut pages, made) = if let Some(pages) = pages {
        (pages, None)
    } else {
        // Listed before it is made, so that a directory that cannot be listed leaves no copy
        // behind.
        let pages = copy.from.list(&directory.from).await?;
        let made = copy
            .to
            .make_directory(&directory.to, directory.node.mode)
            .await?;
        copy.digest.entry(FileKind::Directory);
        (pages, Some(made))
    };
    let page = match pages.next().await {
        Ok(page) => page,
        Err(e) => {
            // The directory itself exists and must be finished.
            copy.note::<()>(Err(
                e.context(format!("cannot list {}", copy.from.show(&directory.from)))
            ));
            return Ok(Some(Box::new(Page {
                directory,
                made,
                found: Vec::new(),
                more: None,
            })));
        }
    };
    let last = page.is_empty();
    let mut found = Vec::with_capacity(page.len());
    for entry in page {
        let what = || format!("cannot read all of {}", copy.from.show(&directory.from));
        if let Some(entry) = copy.note(entry.with_context(what)) {
            found.push(CopyJob {
                from: name::join(&directory.from, &entry.name),
                to: name::join(&directory.to, &entry.name),
                node: entry.node,
            });
        }
    }
    let more = (!last).then(|| Expansion {
        directory: directory.clone(),
        pages: Some(pages),
    });
    Ok(Some(Box::new(Page {
        directory,
        made,
        found,
        more,
    })))
}

/// Gives the copy the attributes of its source.
pub(super) async fn finish(copy: &Copy, job: &CopyJob) -> Result<()> {
    let xattrs = copy.from.xattrs(&job.from, &job.node).await?;
    copy.to.finish(&job.to, &job.node, copy.owner, xattrs).await
}

/// Makes a further name of a file that was copied.
pub(super) async fn link(copy: &Copy, first: &[u8], path: &[u8]) -> Result<()> {
    if copy.to.free_name(path, copy.options.no_clobber).await? {
        copy.to.link(first, path).await?;
    }
    Ok(())
}
