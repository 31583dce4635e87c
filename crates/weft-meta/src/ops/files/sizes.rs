//! Sizes that no writer reports: the service asks the servers and stores their answer.

use std::ops::{Bound, ControlFlow};

use weft_layout::Layout;

use crate::error::MetaError;
use crate::records::keys::{self, INODES};
use crate::records::record::{InodeRecord, LayoutRecord};
use crate::tx::Volume;

/// A file whose servers must be asked for its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledFile {
    /// Its id.
    pub file: u64,
    /// Where its cells are.
    pub layout: Layout,
}

/// Whether the servers must be asked for a file's size, according to its record.
fn is_unsettled(inode: &InodeRecord) -> bool {
    // A pending truncate reports the size when it is completed.
    !inode.size_exact && !inode.inline && inode.truncate == 0 && inode.layout.is_some()
}

pub(crate) fn has_unsettled(volume: &Volume) -> bool {
    !volume.state().grace().is_active() && !volume.state().unknown_sizes().is_empty()
}

pub(crate) fn take_unsettled(
    volume: &Volume,
    from: u64,
    most: usize,
) -> Result<(Vec<UnsettledFile>, Option<u64>), MetaError> {
    let taken = volume.state().unknown_sizes().take(from, most);
    let last = taken.last().copied();
    let found = unsettled_among(volume, &taken);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            volume.state().unknown_sizes().put_back(&taken);
            return Err(error);
        }
    };
    for file in &taken {
        if !found
            .iter()
            .any(|unknown_sizes| unknown_sizes.file == *file)
        {
            volume.state().unknown_sizes().answered(*file);
        }
    }
    Ok((found, last))
}

/// Those of the files whose servers must be asked.
fn unsettled_among(volume: &Volume, taken: &[u64]) -> Result<Vec<UnsettledFile>, MetaError> {
    let open = volume.state().open_files();
    volume.read(|reader| {
        let mut found = Vec::new();
        for &file in taken {
            let Some(inode) = keys::inode(reader, file)? else {
                continue;
            };
            if open.has_writer(file) {
                continue;
            }
            if inode.truncate != 0 {
                // It is checked again when the truncate is completed.
                volume.state().unknown_sizes().note(file);
                continue;
            }
            if !is_unsettled(&inode) {
                continue;
            }
            if let Some(Ok(layout)) = inode.layout.as_ref().map(LayoutRecord::checked) {
                found.push(UnsettledFile { file, layout });
            }
        }
        Ok(found)
    })
}

pub(crate) fn mark_size_unknown(volume: &Volume, file: u64) {
    volume.state().unknown_sizes().put_back(&[file]);
}

pub(crate) fn settle_size(
    volume: &Volume,
    file: u64,
    size: u64,
    fork_bytes: u64,
) -> Result<(), MetaError> {
    let settled = note_size(volume, file, size, fork_bytes);
    match settled {
        Ok(()) => volume.state().unknown_sizes().answered(file),
        Err(_) => volume.state().unknown_sizes().put_back(&[file]),
    }
    settled
}

fn note_size(volume: &Volume, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
    volume.transact_then(
        |tx| {
            tx.force();
            let inode = keys::inode(tx.reader(), file)?;
            let written = tx.open_files().has_writer(file);
            // A client may have attached, written and detached since the servers were asked.
            let noted = volume.state().unknown_sizes().is_noted(file);
            if let Some(inode) = inode.filter(is_unsettled)
                && !(written || noted || volume.state().grace().is_active())
            {
                let now = tx.change(file, &inode);
                (now.size, now.size_exact) = (size, true);
                (now.fork_bytes, now.forks_changed) = (fork_bytes, false);
                return Ok(true);
            }
            Ok(false)
        },
        |_, settled| {
            if *settled {
                volume.state().growth().reported(file);
            }
        },
    )?;
    Ok(())
}

pub(crate) fn doubt_sizes(
    volume: &Volume,
    from: u64,
    most: usize,
) -> Result<Option<u64>, MetaError> {
    let (next, sized) = inodes_where(volume, from, most, |inode| {
        let sized = inode.size_exact && !inode.inline && inode.layout.is_some();
        // Images never change.
        sized && inode.frozen.is_none()
    })?;
    volume.transact(|tx| {
        for id in &sized {
            if let Some(inode) = keys::inode(tx.reader(), *id)? {
                tx.change(*id, &inode).size_exact = false;
            }
        }
        Ok(())
    })?;
    for id in sized {
        volume.state().unknown_sizes().note(id);
    }
    Ok(next)
}

pub(crate) fn find_unknown_sizes(
    volume: &Volume,
    from: u64,
    most: usize,
) -> Result<Option<u64>, MetaError> {
    let (next, found) = inodes_where(volume, from, most, is_unsettled)?;
    let open = volume.state().open_files();
    let closed = found.into_iter().filter(|id| !open.has_writer(*id));
    closed.for_each(|id| volume.state().unknown_sizes().note(id));
    Ok(next)
}

/// The wanted ones among at most `most` inodes from `from` on, and where to continue.
fn inodes_where(
    volume: &Volume,
    from: u64,
    most: usize,
    wanted: impl Fn(&InodeRecord) -> bool,
) -> Result<(Option<u64>, Vec<u64>), MetaError> {
    let (mut looked_at, mut next, mut found) = (0, None, Vec::new());
    volume.read(|reader| {
        let first = from.to_be_bytes();
        let from = Bound::Included(first.as_slice());
        reader.scan(INODES, from, Bound::Unbounded, &mut |key, value| {
            let Some(id) = keys::number(key) else {
                return ControlFlow::Continue(());
            };
            if looked_at == most {
                next = Some(id);
                return ControlFlow::Break(());
            }
            looked_at += 1;
            // A check reports unreadable records.
            if keys::decode::<InodeRecord>("inode", id, value).is_ok_and(|i| wanted(&i)) {
                found.push(id);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    })?;
    Ok((next, found))
}
