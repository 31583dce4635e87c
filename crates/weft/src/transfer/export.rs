//! Export: from a view to a local file.

use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use weft_client::{Access, Attributes, OpenView, Volume};

use super::args::TransferArgs;
use super::checks::{changed, regular, step, view_text};
use super::data::{Local, Side, View};
use super::report::{Clock, TransferSummary};
use super::resume::{Begin, Identity, ProgressRecords, TransferTarget, look};
use super::share::Transfer;
use super::task::Task;
use crate::copy::local;
use crate::remote::{self, RemotePath};
use crate::streams::blocking;
use crate::terminal::name;

/// Copies a part of a view of a file in the volume to a local file, which is created if needed.
pub(crate) async fn export(
    volume: &Volume,
    from: &RemotePath,
    local: &Path,
    args: &TransferArgs,
) -> Result<TransferSummary> {
    let clock = Clock::start();
    let place = remote::reach(volume, from.as_ref()).await?;
    let file = volume.attach(place, Access::read()).await?;
    let attributes = file.stat().await?;
    args.view.check_fork(&file).await?;
    let view = Arc::new(file.view_of_fork(args.view.view(), args.view.fork())?);
    let length = length(&view, &attributes, args).await?;
    let step = step(&args.view, args.part, length)?;
    let (path, there) = target(local, from).await?;
    if args.compare && there.is_none() {
        let name = name::escape(name::bytes(path.as_os_str()));
        bail!("{name} does not exist, so it cannot be compared with {from}");
    }
    let held = there.as_ref().map_or(0, Metadata::len);
    let identity = Identity {
        file: file.id(),
        size: attributes.size,
        modified: attributes.modified,
        view: view_text(&args.view),
        length,
        parts: args.part.of,
    };
    let task = Task {
        args,
        doing: "exporting",
        from: from.to_string(),
        to: name::escape(name::bytes(path.as_os_str())),
        identity,
        records: Arc::new(ProgressRecords::of_export(&path, args.part.of)),
        target: Arc::new(TransferTarget::local(&path)),
        share: args.part.share(length, step),
        step,
        clock,
    };
    let transfer = |to| Transfer {
        task: &task,
        from: Side::View(View::new(view, args, from)),
        to,
        old: held > 0,
        write_last: false,
    };
    if args.compare {
        if args.view.length().is_none() && held != length {
            bail!("{from} has {length} bytes, but {} has {held}", task.to);
        }
        let (to, _) = open(&path, &attributes, None).await?;
        transfer(to).compare(Vec::new()).await?;
        file.close().await?;
        return Ok(task.nothing());
    }

    let modified = there.and_then(|there| there.modified().ok());
    let same =
        args.view.is_plain() && held == length && modified == Some(time(attributes.modified));
    // Recorded before the local file exists, so that another part recognizes the file as that of
    // this transfer.
    let Begin::From(at) = task.begin(held == 0, same).await? else {
        file.close().await?;
        return Ok(task.nothing());
    };
    let (to, inode) = open(&path, &attributes, Some(length)).await?;
    task.target.opened(inode, length);
    let transfer = transfer(to);
    let mut moved = transfer.copy(at).await?;
    unchanged(&attributes, &file.stat().await?, from)?;
    transfer.verify(std::mem::take(&mut moved.digests)).await?;
    file.close().await?;
    if task.end().await? && args.view.is_plain() {
        finish(&transfer.to, &attributes).await?;
    }
    Ok(task.summary(at, &moved))
}

/// Bytes of the transfer: up to the view's end.
async fn length(view: &OpenView, attributes: &Attributes, args: &TransferArgs) -> Result<u64> {
    let size = if args.view.is_canonical() {
        attributes.size
    } else {
        view.size().await?
    };
    let rest = size.saturating_sub(args.view.start());
    Ok(args.view.length().map_or(rest, |length| length.min(rest)))
}

/// The local file, and its state. Inside a directory it gets the name that it has in the volume.
async fn target(local: &Path, from: &RemotePath) -> Result<(PathBuf, Option<Metadata>)> {
    let (mut path, mut there) = (local.to_owned(), look(local).await?);
    if there.as_ref().is_some_and(Metadata::is_dir) && !from.name().is_empty() {
        path = local.join(name::os(from.name()));
        there = look(&path).await?;
    }
    let name = name::escape(name::bytes(path.as_os_str()));
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if there.is_none()
        && let Some(folder) = folder
        && look(folder).await?.is_none()
    {
        bail!(
            "cannot export to {name}: there is no directory {}; make it first (mkdir -p)",
            name::escape(name::bytes(folder.as_os_str()))
        );
    }
    if let Some(there) = &there {
        let instead = "use `weft cat`, which writes a stream";
        regular(&name, there.is_file(), there.is_dir(), instead)?;
    }
    Ok((path, there))
}

/// Opens the local file. With a length it is opened as a target: created if it is missing, and set
/// to that length. Returns its inode, too.
async fn open(path: &Path, attributes: &Attributes, length: Option<u64>) -> Result<(Side, u64)> {
    let write = length.is_some();
    let mut options = File::options();
    options.read(true).write(write).create(write);
    // Other parts open it, too; it gets its final mode at the end.
    options.mode(attributes.mode & 0o777 | 0o600);
    let opened = local::at(name::bytes(path.as_os_str()), move |place| {
        let file = options.open(place)?;
        let there = file.metadata()?;
        if let Some(length) = length
            && there.len() != length
        {
            file.set_len(length)?;
        }
        Ok((file, there.ino()))
    });
    let name = name::escape(name::bytes(path.as_os_str()));
    let (file, inode) = opened
        .await
        .with_context(|| format!("cannot open {name}"))?;
    let side = Side::Local(Local {
        file: Arc::new(file),
        name: name.into(),
    });
    Ok((side, inode))
}

/// Sets mode and time of the local file to those of the source. Called after every part is done:
/// the mode could deny access to other parts.
async fn finish(local: &Side, attributes: &Attributes) -> Result<()> {
    let Side::Local(local) = local else {
        return Ok(());
    };
    let (file, mode) = (local.file.clone(), attributes.mode & 0o777);
    let times = std::fs::FileTimes::new().set_modified(time(attributes.modified));
    let finish = blocking(move || {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.set_times(times)?;
        file.sync_all()
    });
    finish
        .await
        .with_context(|| format!("cannot set mode and times of {}", local.name))
}

fn unchanged(then: &Attributes, now: &Attributes, from: &RemotePath) -> Result<()> {
    let how = if now.size != then.size {
        format!("{} bytes before, {} now", then.size, now.size)
    } else if now.modified != then.modified {
        "it was modified".to_owned()
    } else {
        return Ok(());
    };
    Err(changed(&from.to_string(), &how))
}

fn time(nanos: i64) -> SystemTime {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        SystemTime::UNIX_EPOCH - by
    } else {
        SystemTime::UNIX_EPOCH + by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_are_converted() {
        assert_eq!(time(0), SystemTime::UNIX_EPOCH);
        assert!(time(-1) < time(0) && time(0) < time(1));
    }
}
