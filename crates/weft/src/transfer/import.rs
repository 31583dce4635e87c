//! Import: from a local file to a view.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use weft_client::{Access, Changes, OpenView, Place, Time, Volume};

use super::args::TransferArgs;
use super::checks::{changed, end_of, regular, step, view_text};
use super::data::{Local, Side, View};
use super::report::{Clock, TransferSummary};
use super::resume::{Begin, Identity, ProgressRecords, TransferTarget};
use super::share::Transfer;
use super::task::Task;
use crate::args::{LayoutArgs, mode};
use crate::copy::local;
use crate::remote::{self, RemotePath, new_view};
use crate::terminal::{name, output};

/// The open local file.
struct SourceFile {
    file: Arc<File>,
    name: Arc<str>,
    metadata: Metadata,
}

/// Copies a part of a local file to a view of a file in the volume, which is created if needed.
pub(crate) async fn import(
    volume: &Volume,
    local: &Path,
    to: &RemotePath,
    layout: &LayoutArgs,
    args: &TransferArgs,
) -> Result<TransferSummary> {
    let clock = Clock::start();
    let source = open(local).await?;
    let to = target(volume, local, to).await?;
    // What can be refused is refused before the file is created.
    let pieces = pieces(&source, args)?;
    if !args.compare {
        new_view::check_view(volume, &to, args.view.view(), layout).await?;
    }
    let file = attach(volume, &to, &source, layout, args).await?;
    let view = Arc::new(file.view_of_fork(args.view.view(), args.view.fork())?);
    // Before the lookup of progress records: another part writes its record before its data.
    let held = held(&file, &view, args).await?;
    let task = task(volume, &source, &to, &view, pieces, args, clock);
    let transfer = Transfer {
        task: &task,
        from: Side::Local(Local {
            file: source.file.clone(),
            name: source.name.clone(),
        }),
        to: Side::View(View::new(view, args, &to)),
        old: !file.created(),
        write_last: !args.view.is_plain(),
    };
    let (length, plain) = (task.identity.length, args.view.is_plain());
    if args.compare {
        if plain && args.view.length().is_none() && held != length {
            bail!("{} has {length} bytes, but {to} has {held}", source.name);
        }
        transfer.compare(Vec::new()).await?;
        file.close().await?;
        return Ok(task.nothing());
    }

    let modified = file.attributes().modified;
    let same = plain && held == length && modified == task.identity.modified;
    let Begin::From(at) = task.begin(held <= args.view.start(), same).await? else {
        file.close().await?;
        return Ok(task.nothing());
    };
    if plain && held != length {
        let sized = file.truncate(length).await;
        sized.with_context(|| {
            format!("cannot set the size of {to} to {length} bytes: nothing is copied")
        })?;
    }
    let mut moved = transfer.copy(at).await?;
    source.unchanged(local).await?;
    transfer.verify(std::mem::take(&mut moved.digests)).await?;
    file.close().await?;
    if task.end().await? && plain {
        // Only after every part has closed the file: before that, writes would change the time, and
        // the mode could deny access to other parts.
        let changes = Changes {
            mode: Some(source.metadata.mode() & 0o7777),
            modified: Some(Time::Nanos(task.identity.modified)),
            ..Changes::default()
        };
        let file = Place::of(file.id());
        volume.set_attributes(file, &changes).await?;
    }
    Ok(task.summary(at, &moved))
}

/// The file in the volume: inside a directory it gets the name that it has here.
async fn target(volume: &Volume, local: &Path, to: &RemotePath) -> Result<RemotePath> {
    let there = remote::look(volume, to).await?;
    if !there.as_ref().is_some_and(remote::is_directory) {
        return Ok(to.clone());
    }
    let last = local.file_name().context("the local file has no name")?;
    Ok(to.join(name::bytes(last)))
}

async fn attach(
    volume: &Volume,
    to: &RemotePath,
    source: &SourceFile,
    layout: &LayoutArgs,
    args: &TransferArgs,
) -> Result<weft_client::File> {
    let place = remote::reach(volume, to.as_ref()).await?;
    let file = volume.attach(place, access(source, layout, args)).await?;
    if !file.created() && !layout.agrees(file.layout()) {
        bail!(
            "{to} exists with another layout ({}, BSU {}, chunk {}), which cannot change: leave the layout options out, or \
             remove the file first",
            output::count(file.layout().cells(), "cell"),
            file.layout().bsu(),
            file.layout().chunk()
        );
    }
    Ok(file)
}

/// One past the last byte of the view that may hold data.
async fn held(file: &weft_client::File, view: &OpenView, args: &TransferArgs) -> Result<u64> {
    let attributes = file.attributes();
    Ok(if file.created() {
        0
    } else if args.view.is_canonical() && attributes.size_exact {
        attributes.size
    } else {
        view.size().await?
    })
}

/// Bytes of the transfer, and of a piece of it.
fn pieces(source: &SourceFile, args: &TransferArgs) -> Result<(u64, u64)> {
    let size = source.metadata.len();
    let length = args.view.length().map_or(size, |length| length.min(size));
    end_of(args.view.start(), length)?;
    Ok((length, step(&args.view, args.part, length)?))
}

/// What is to be done.
fn task<'a>(
    volume: &Volume,
    source: &SourceFile,
    to: &RemotePath,
    view: &Arc<OpenView>,
    (length, step): (u64, u64),
    args: &'a TransferArgs,
    clock: Clock,
) -> Task<'a> {
    let identity = Identity {
        file: source.metadata.ino(),
        size: source.metadata.len(),
        modified: modified(&source.metadata),
        view: view_text(&args.view),
        length,
        parts: args.part.of,
    };
    let records =
        ProgressRecords::of_import(volume, view.file().id(), &identity.view, args.part.of);
    // A plain file gets its size before any data. The end of a view is known to its servers.
    let size = args.view.is_plain().then_some(length);
    Task {
        args,
        doing: "importing",
        from: source.name.to_string(),
        to: to.to_string(),
        identity,
        records: Arc::new(records),
        target: Arc::new(TransferTarget::View(view.clone(), size)),
        share: args.part.share(length, step),
        step,
        clock,
    }
}

fn access(source: &SourceFile, layout: &LayoutArgs, args: &TransferArgs) -> Access {
    if args.compare {
        return Access::read();
    }
    let mode = if args.view.is_plain() {
        // Other parts write, too.
        source.metadata.mode() & 0o777 | 0o200
    } else {
        0o666 & !mode::umask()
    };
    let access = if args.verify {
        Access::read_write()
    } else {
        Access::write()
    };
    access.create(mode).layout(&layout.layout())
}

async fn open(path: &Path) -> Result<SourceFile> {
    let name: Arc<str> = name::escape(name::bytes(path.as_os_str())).into();
    let path = name::bytes(path.as_os_str());
    // Checked before it is opened: opening a fifo waits for a writer.
    let look = local::at(path, |place| std::fs::metadata(place)).await;
    let kind = look.with_context(|| format!("cannot read {name}"))?;
    let instead = "use `weft put`, which reads a stream";
    regular(&name, kind.is_file(), kind.is_dir(), instead)?;
    let opened = local::at(path, |place| {
        let file = File::open(place)?;
        let metadata = file.metadata()?;
        let unsized_data = metadata.len() == 0 && file.read_at(&mut [0], 0)? > 0;
        Ok((file, metadata, unsized_data))
    });
    let (file, metadata, unsized_data) = opened
        .await
        .with_context(|| format!("cannot read {name}"))?;
    if unsized_data {
        bail!("{name} states a size of 0 bytes but has data, like files in /proc: {instead}");
    }
    Ok(SourceFile {
        file: Arc::new(file),
        name,
        metadata,
    })
}

impl SourceFile {
    /// Whether the path still names the file that was copied, unchanged.
    async fn unchanged(&self, path: &Path) -> Result<()> {
        let path = name::bytes(path.as_os_str());
        let now = local::at(path, |place| std::fs::metadata(place)).await;
        let now = now.with_context(|| format!("cannot examine {} again", self.name))?;
        let then = &self.metadata;
        let how = if (now.dev(), now.ino()) != (then.dev(), then.ino()) {
            "its name now belongs to another file".to_owned()
        } else if now.len() != then.len() {
            format!("{} bytes before, {} now", then.len(), now.len())
        } else if modified(&now) != modified(then) {
            "it was modified".to_owned()
        } else {
            return Ok(());
        };
        Err(changed(&self.name, &how))
    }
}

/// Nanoseconds since the epoch.
fn modified(metadata: &Metadata) -> i64 {
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    seconds.saturating_add(metadata.mtime_nsec())
}
