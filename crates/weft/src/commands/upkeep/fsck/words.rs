//! The text of findings.

use weft_client::{Fault, Finding, Found};
use weft_proto::upkeep::{DiskReport, ScrubStatusReply};

use super::rows::{Blocks, Bytes, Row};
use crate::terminal::name;
use crate::terminal::output::count;

/// The short name of a fault, for programs.
fn name_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Unknown => "unknown",
        Fault::Record => "unreadable record",
        Fault::NoInode => "no inode",
        Fault::EntryKind => "wrong kind",
        Fault::SecondName => "second name",
        Fault::NoDirectory => "no directory",
        Fault::NoName => "no name",
        Fault::Links => "wrong links",
        Fault::Entries => "wrong number of entries",
        Fault::Parent => "wrong parent",
        Fault::Circle => "circle",
        Fault::Orphan => "no orphan",
        Fault::XattrBytes => "wrong bytes of attributes",
        Fault::InlineBytes => "inline bytes beside cells",
        Fault::InlineSize => "wrong inline size",
        Fault::DeleteOwed => "delete owed",
        Fault::TruncateLost => "truncate not owed",
        Fault::Counter => "wrong counter",
        Fault::NoLayout => "no layout",
        Fault::Usage => "wrong usage",
        Fault::Refused => "refused",
        Fault::LostCells => "lost cells",
        Fault::Misplaced => "misplaced cell",
        Fault::InlineCells => "cells beside inline bytes",
        Fault::ChunkSize => "wrong chunk size",
        Fault::Short => "bytes lost",
        Fault::Long => "wrong size",
        Fault::CheckpointMissing => "checkpoint missing",
        Fault::CheckpointUnknown => "checkpoint unknown",
        Fault::Emptied => "cells lost",
        Fault::Removed => "removed",
        Fault::PartRemoved => "removed in part",
        Fault::IdRemoved => "removed id",
        Fault::ForkBytes => "wrong fork bytes",
        Fault::Entry => "damaged entry",
        Fault::Beyond => "block beyond the disk",
        Fault::Free => "block in use is free",
        Fault::Twice => "block in two chunks",
        Fault::Inherited => "inherited block missing",
        Fault::Tree => "wrong tree of forks",
        Fault::Checksum => "wrong checksum",
        Fault::Unreadable => "unreadable block",
        Fault::IndexRecord => "damaged index",
        Fault::Lost => "lost",
        Fault::Unproven => "not proven",
    }
}

fn sentence(fault: Fault, finding: &Finding) -> String {
    let (expected, found) = (finding.expected, finding.found);
    let entry = name::escape(&finding.name);
    let parent = finding.parent;
    match fault {
        Fault::Record => "a record of the namespace cannot be read".to_owned(),
        Fault::NoInode if parent != 0 => {
            format!("{entry:?} in directory {parent} names an inode that does not exist")
        }
        Fault::NoInode => "the inode does not exist".to_owned(),
        Fault::EntryKind => {
            format!(
                "{entry:?} in directory {parent} is of kind {found}, its inode of kind {expected}"
            )
        }
        Fault::SecondName => format!("the directory has {}", count(found, "name")),
        Fault::NoDirectory => "it has entries, but is not a directory".to_owned(),
        Fault::NoName => "it has no name".to_owned(),
        Fault::Links => format!("it counts {}; the right number is {expected}", count(found, "link")),
        Fault::Entries => format!("the directory counts {}; the right number is {expected}", count(found, "entry")),
        Fault::Parent => format!("its parent is {expected}, not {found}"),
        Fault::Circle => "the directory is in itself".to_owned(),
        Fault::Orphan => "it is recorded as deleted while open, but it is not".to_owned(),
        Fault::XattrBytes => {
            format!("it counts {found} bytes of extended attributes; the right number is {expected}")
        }
        Fault::InlineBytes => {
            format!("{found} bytes are stored with the metadata of a file that has cells")
        }
        Fault::InlineSize => format!("{expected} bytes are stored with the metadata, but its size is {found}"),
        Fault::DeleteOwed => {
            format!("a delete of it is pending on the servers (intent {expected}), but it exists")
        }
        Fault::TruncateLost => format!("it waits for a truncate (intent {found}) that is not pending"),
        Fault::Counter => {
            format!("the namespace's counter {entry:?} is {found}; the right value is {expected}")
        }
        Fault::Usage if entry.is_empty() => "a quota cannot be read".to_owned(),
        Fault::Usage => {
            format!("{found} {entry} are counted as used; the right number is {expected}")
        }
        Fault::NoLayout => "its layout is invalid".to_owned(),
        Fault::Refused => format!("a server refuses a pending operation on it (intent {expected})"),
        Fault::LostCells => "it has cells, but no inode".to_owned(),
        Fault::Misplaced => "the cell is not where the layout of its file puts it".to_owned(),
        Fault::InlineCells => "the cell holds bytes that do not belong to the file".to_owned(),
        Fault::ChunkSize => "the chunk size of the cell differs from that of its file".to_owned(),
        Fault::Short => format!(
            "its size is {found}, but the servers have only {expected} bytes: the rest is lost"
        ),
        Fault::Long => format!("its size is {found}, but the servers have {expected} bytes"),
        Fault::ForkBytes => format!(
            "{found} bytes are charged for its forks other than `data`, but the servers have {expected}"
        ),
        Fault::CheckpointMissing => {
            format!(
                "the server lost its share of checkpoint {expected}: reading that fails until the checkpoint is deleted, or --accept \
                 replaces it by zeros"
            )
        }
        Fault::CheckpointUnknown => {
            format!("its servers have checkpoint {expected}, which is not listed")
        }
        Fault::Emptied if expected == 0 => {
            "the server was formatted after the file was made; by the file's size it held no bytes of it, and --accept makes the file usable"
                .to_owned()
        }
        Fault::Emptied => format!(
            "the server was formatted after the file was made, which lost {expected} bytes by the file's size: reading them fails \
             until the file is removed, or --accept replaces them by zeros"
        ),
        Fault::Removed => {
            "its servers have deleted it, but its name exists".to_owned()
        }
        Fault::PartRemoved => {
            "some of its servers have deleted it: `weft read --cell` reads what is left, `weft rm` removes it".to_owned()
        }
        Fault::IdRemoved => {
"its servers have deleted its id: its bytes, stored with its metadata, exist, but it cannot have cells".to_owned()
        }
        Fault::Entry => "the entry of the chunk in the index cannot be read".to_owned(),
        Fault::Beyond => "the chunk is beyond the end of the disk".to_owned(),
        Fault::Free => "the blocks of the chunk are marked free".to_owned(),
        Fault::Twice => "another chunk uses the same blocks".to_owned(),
        Fault::Inherited => "the chunk shares blocks of a chunk that does not exist".to_owned(),
        Fault::Tree => {
            "the forks of the file do not derive from each other as recorded".to_owned()
        }
        Fault::Checksum => "the blocks do not match their checksums".to_owned(),
        // Lost with a truncated log: no disk is at fault.
        Fault::Unreadable if finding.blocks == 0 && finding.chunk.is_some() => {
            "bytes are lost".to_owned()
        }
        Fault::Unreadable => "the disk cannot read the blocks".to_owned(),
        Fault::IndexRecord => "a table or journal of a server, or of the metadata service, is damaged".to_owned(),
        Fault::Lost | Fault::Unproven => unreadable(fault, finding),
        Fault::Unknown => "an error that this version of weft does not know".to_owned(),
    }
}

/// The text for bytes whose reads fail.
fn unreadable(fault: Fault, finding: &Finding) -> String {
    let (from, to) = (finding.expected, finding.expected + finding.found);
    if fault == Fault::Lost {
        return format!(
            "bytes {from}..{to} of the cell are lost: reading them fails until they are written again, or --accept replaces them by zeros"
        );
    }
    if finding.file == 0 {
        return "a part of the server's log was lost, or its folder is an older copy, so it may lack cells: reading those fails. \
                The files are named; --repair ends this once none of them is left, --accept-server at once, for all"
            .to_owned();
    }
    if from == to {
        return format!(
            "it is not proven that the cell had no bytes beyond {from}, as a part of the server's log was lost or its folder is an older \
             copy: reading beyond fails until the file is truncated or written there, or --accept ends the cell here"
        );
    }
    format!(
        "bytes {from}..{to} of the cell are not proven to be what was written last, as a part of the server's log was lost or its folder is an \
         older copy: reading them fails until they are written again, or --accept makes them readable as they are"
    )
}

/// The row of a finding.
pub(super) fn row(found: Found) -> Row {
    let finding = found.finding;
    let fault = Fault::try_from(finding.fault).unwrap_or(Fault::Unknown);
    let mut what = sentence(fault, &finding);
    if !finding.text.is_empty() {
        what = format!("{what}: {}", finding.text);
    }
    let ends_otherwise = matches!(
        fault,
        Fault::Emptied | Fault::CheckpointMissing | Fault::PartRemoved | Fault::Unknown
    );
    let lost = matches!(fault, Fault::Lost | Fault::Unproven);
    let repairable = !(lost || ends_otherwise);
    let lost = (lost && finding.file != 0).then_some(Bytes {
        offset: finding.expected,
        length: finding.found,
    });
    let blocks =
        (lost.is_none() && finding.chunk.is_some() && finding.blocks > 0).then_some(Blocks {
            first: finding.first,
            count: finding.blocks,
            disk: finding.disk,
            disk_block: finding.block,
        });
    Row {
        fault: name_of(fault),
        what,
        file: Some(finding.file).filter(|file| *file != 0),
        paths: Vec::new(),
        server: finding.server,
        cell: finding.place.as_ref().map(|place| place.cell),
        fork: finding.place.map(|place| place.fork),
        chunk: finding.chunk,
        blocks,
        lost,
        repaired: found.done,
        repairable,
    }
}

/// Whether a row is about bytes lost with the end of a log, and not about blocks of a disk.
pub(super) fn is_of_log(row: &Row) -> bool {
    row.fault == name_of(Fault::Unreadable) && row.blocks.is_none()
}

/// A missing disk of a server.
pub(super) fn missing(server: u32, disk: &DiskReport) -> Row {
    let finding = Finding {
        fault: Fault::Unreadable as i32,
        server: Some(server),
        ..Finding::default()
    };
    let found = Found {
        finding,
        done: None,
    };
    Row {
        fault: "missing disk",
        repairable: false,
        what: format!(
            "disk {} ({}) is missing, and its data cannot be read until it is back: {}",
            disk.number, disk.path, disk.reason
        ),
        ..row(found)
    }
}

/// Replicas of a server that differed from its primary, and do not any more.
pub(super) fn replicas_differed(server: u32, done: &ScrubStatusReply) -> Row {
    let finding = Finding {
        fault: Fault::Unreadable as i32,
        server: Some(server),
        ..Finding::default()
    };
    let found = Found {
        finding,
        done: Some("they were sent anew".to_owned()),
    };
    Row {
        fault: "replicas differ",
        what: format!(
            "{} bytes of {} were damaged on other replicas, or not those of the primary",
            done.replica_bytes,
            count(done.replica_files as usize, "file")
        ),
        ..row(found)
    }
}

/// Damage on a server or on its replicas that no replica could mend.
pub(super) fn replicas_are_damaged(server: u32, done: &ScrubStatusReply) -> Row {
    let finding = Finding {
        fault: Fault::Unreadable as i32,
        server: Some(server),
        ..Finding::default()
    };
    let found = Found {
        finding,
        done: None,
    };
    Row {
        fault: "replicas differ",
        repairable: false,
        what: format!(
            "{} on its replicas, in checkpoints or where no replica is intact, cannot be mended: `weft scrub` lists them",
            count((done.bad - done.mended) as usize, "bad block")
        ),
        ..row(found)
    }
}

/// Unproven bytes on a server that were accepted.
pub(super) fn accepted_all(server: u32, (ranges, length): (u64, u64)) -> Row {
    let what = format!("{length} bytes in {ranges} ranges were not proven");
    Row {
        fault: name_of(Fault::Unproven),
        what,
        repaired: Some("accepted: they read as they are from now on".to_owned()),
        ..accepted(server, 0, (ranges, length))
    }
}

/// Lost or unproven bytes of a file on a server that were accepted.
pub(super) fn accepted(server: u32, file: u64, (ranges, length): (u64, u64)) -> Row {
    let finding = Finding {
        fault: Fault::Lost as i32,
        server: Some(server),
        file,
        ..Finding::default()
    };
    let done = "accepted: they read as zeros, or as what there is, from now on".to_owned();
    let found = Found {
        finding,
        done: Some(done),
    };
    Row {
        what: format!(
            "{} in {} were lost or not proven",
            count(length, "byte"),
            count(ranges, "range")
        ),
        lost: None,
        ..row(found)
    }
}

/// The place of a finding: names, file, cell, chunk, disk.
pub(super) fn place(row: &Row) -> String {
    let mut places = Vec::new();
    match (row.paths.is_empty(), row.file) {
        (false, Some(file)) => places.push(format!("{} (file {file})", row.paths.join(", "))),
        (true, Some(file)) => places.push(format!("file {file}")),
        _ => {}
    }
    if let (Some(cell), Some(fork)) = (row.cell, &row.fork) {
        places.push(format!("cell {cell} fork {fork}"));
    }
    if let Some(chunk) = row.chunk {
        places.push(format!("chunk {chunk}"));
    }
    if let Some(blocks) = &row.blocks {
        let (last, count) = (blocks.first + blocks.count - 1, blocks.count);
        places.push(match count {
            1 => format!("block {}", blocks.first),
            _ => format!("blocks {}-{last}", blocks.first),
        });
        places.push(format!("disk {} block {}", blocks.disk, blocks.disk_block));
    }
    if let Some(server) = row.server {
        places.push(format!("server {server}"));
    }
    places.join(", ")
}
