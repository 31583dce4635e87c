//! Detecting that the engine's journal lost commits that were on stable storage.
//!
//! fjall takes whatever it cannot read in a journal for the torn end of a crash: it truncates the
//! file there silently, and everything behind is gone. After a crash of the process or the machine
//! a torn end is legal, but only behind what was synced. So
//!
//! - every commit carries its number, in a key that belongs to no space;
//! - after every sync the number of the last synced commit is written to the file `weft.synced` in
//!   the engine's folder. That file is not synced: after power loss it may say less than is true,
//!   never more;
//! - before fjall opens (and truncates) the journals they are read here (`batch.rs`). The numbers
//!   must continue without a gap from those in the tables (`tables.rs`), and reach at least as far
//!   as `weft.synced` says. Otherwise the engine is not opened, and nothing is changed.
//!
//! Tables are read only where journals alone do not suffice: where the oldest are deleted, or
//! something cannot be read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::KvError;
use crate::files::tables;
use crate::journal_batch::read_batch;

/// The file with the number of the last synced commit.
const SYNCED: &str = "weft.synced";
/// First bytes of that file.
const MAGIC: &[u8; 4] = b"WfS\x01";

/// A journal lacks commits that were on stable storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The journal.
    pub(crate) path: PathBuf,
    /// Where its readable bytes end.
    pub(crate) at: u64,
    /// The first missing commit.
    pub(crate) first: u64,
    /// The last that must be there.
    pub(crate) last: u64,
}

/// The file with the number of the last synced commit.
#[derive(Debug)]
pub(crate) struct Watermark(File);

impl Watermark {
    /// Opens it in the engine's folder, or makes it there.
    pub(crate) fn open(folder: &Path) -> io::Result<Watermark> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Watermark(options.open(folder.join(SYNCED))?))
    }

    /// Everything up to this commit is on stable storage.
    pub(crate) fn set(&self, number: u64) -> io::Result<()> {
        self.0.write_all_at(&encode(number), 0)
    }
}

/// Decodes bytes and encodes the value again; `None` where they are refused.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// The decoders of bytes on a disk, for fuzzing; their output is their input. Of a journal's batch
/// only length and number are decoded.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("watermark", |bytes| Some(encode(decode(bytes)?).to_vec())),
    ("batch of a journal", |bytes| {
        let length = read_batch(bytes)?.length;
        Some([&bytes[..length], &bytes[length..]].concat())
    }),
];

fn decode(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?);
    (bytes == encode(number)).then_some(number)
}

fn encode(number: u64) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(MAGIC);
    out[4..12].copy_from_slice(&number.to_le_bytes());
    // The complement: a torn write is recognised.
    out[12..].copy_from_slice(&(!number).to_le_bytes());
    out
}

/// The last commit that was certainly synced; 0 where none is known.
pub(crate) fn synced(folder: &Path) -> io::Result<u64> {
    let bytes = match std::fs::read(folder.join(SYNCED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        bytes => bytes?,
    };
    Ok(decode(&bytes).unwrap_or(0))
}

/// Journals, and where each is to be truncated.
pub(crate) type TruncatePoints = Vec<(PathBuf, u64)>;

/// The state of the journals in a folder.
#[derive(Debug, Default)]
pub(crate) struct JournalScan {
    /// Torn ends.
    pub(crate) torn: TruncatePoints,
    /// Everything after the first missing commit.
    pub(crate) behind: TruncatePoints,
    /// Commits that are missing although they were on stable storage.
    pub(crate) loss: Option<Loss>,
}

/// The readable part of a journal.
struct Journal {
    path: PathBuf,
    /// Numbers of its commits, and where they begin.
    numbers: Vec<(u64, u64)>,
    /// Where the readable part ends.
    end: u64,
    /// Other bytes than zeros follow.
    torn: bool,
}

/// Reads all journals of a folder; changes nothing.
pub(crate) fn scan(folder: &Path) -> Result<JournalScan, KvError> {
    let unread = |error: io::Error| KvError::open(folder, &error);
    let must = synced(folder).map_err(unread)?;
    if must > 0 {
        tables::check_complete(folder)?;
    }
    let journals = read_all(folder).map_err(unread)?;
    let torn = journals.iter().filter(|j| j.torn);
    let torn: TruncatePoints = torn.map(|j| (j.path.clone(), j.end)).collect();
    let mut loss = missing(folder, &journals, 0, must);
    if loss.is_some() || !torn.is_empty() {
        // Where the tables cannot be read, they are assumed to have everything before the journals:
        // once the engine is open, its last commit is compared with the watermark.
        let before = journals.iter().flat_map(|j| &j.numbers).next();
        let before = before.map_or(must, |(first, _)| first.saturating_sub(1));
        let in_tables = tables::last_commit(folder)?.unwrap_or(before);
        loss = missing(folder, &journals, in_tables, must);
    }
    let behind = loss.as_ref().map_or_else(TruncatePoints::new, |loss| {
        let from = journals.iter().skip_while(|j| j.path != loss.path);
        let first_at = |n: usize| if n == 0 { loss.at } else { 0 };
        let from = from.enumerate().map(|(n, j)| (j.path.clone(), first_at(n)));
        from.collect()
    });
    Ok(JournalScan { torn, behind, loss })
}

/// Where commits with a higher number than this one begin, which must be truncated.
pub(crate) fn beyond(folder: &Path, committed: u64) -> io::Result<TruncatePoints> {
    let mut beyond = TruncatePoints::new();
    for journal in read_all(folder)? {
        let mut numbers = journal.numbers.iter();
        let first = numbers.find(|(number, _)| *number > committed);
        if !beyond.is_empty() {
            beyond.push((journal.path, 0));
        } else if let Some((_, at)) = first {
            beyond.push((journal.path, *at));
        }
    }
    Ok(beyond)
}

/// Makes an empty journal for an engine that has none. Without a journal to read fjall does not
/// take its sequence numbers from the tables, but begins below them: new commits would be hidden by
/// old ones.
pub(crate) fn ensure_journal(folder: &Path) -> io::Result<()> {
    let is_engine = folder.join("version").exists();
    if is_engine && paths(folder)?.is_empty() {
        File::create(folder.join("0.jnl"))?.sync_all()?;
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The journals of a folder, oldest first.
fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut journals = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str());
        let number = name.and_then(|n| n.strip_suffix(".jnl")?.parse::<u64>().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

fn read_all(folder: &Path) -> io::Result<Vec<Journal>> {
    let mut sequence = None;
    let read = |path| read(path, &mut sequence);
    paths(folder)?.into_iter().map(read).collect()
}

/// Reads a journal up to the first bytes that are no batch, or one that does not follow `sequence`.
fn read(path: PathBuf, sequence: &mut Option<u64>) -> io::Result<Journal> {
    let bytes = std::fs::read(&path)?;
    let (mut at, mut numbers) = (0, Vec::new());
    while let Some(batch) = read_batch(&bytes[at..]) {
        if sequence.is_some_and(|known| batch.sequence <= known) {
            break;
        }
        *sequence = Some(batch.sequence);
        numbers.extend(batch.number.map(|number| (number, at as u64)));
        at += batch.length;
    }
    Ok(Journal {
        path,
        numbers,
        end: at as u64,
        torn: bytes[at..].iter().any(|byte| *byte != 0),
    })
}

/// The first gap between the last commit in the tables and the last that must be there.
fn missing(folder: &Path, journals: &[Journal], in_tables: u64, must: u64) -> Option<Loss> {
    let mut reached = in_tables;
    let mut end: Option<(&Path, u64)> = None;
    for journal in journals {
        for (number, at) in &journal.numbers {
            if *number > reached + 1 {
                // At a gap between two journals the first has lost its end: it was synced before
                // the second one was created.
                let (path, at) = end.unwrap_or((&journal.path, *at));
                return Some(Loss {
                    path: path.to_owned(),
                    at,
                    first: reached + 1,
                    last: number - 1,
                });
            }
            reached = reached.max(*number);
            end = None;
        }
        end = Some((&journal.path, journal.end));
    }
    let torn = journals.iter().find(|j| j.torn);
    let (path, at) = torn
        .map(|j| (&*j.path, j.end))
        .or(end)
        .unwrap_or((folder, 0));
    (reached < must).then(|| Loss {
        path: path.to_owned(),
        at,
        first: reached + 1,
        last: must,
    })
}

/// Truncates journals: fjall would do so as well, but only after it has read what is behind.
pub(crate) fn truncate(points: &[(PathBuf, u64)]) -> io::Result<()> {
    for (path, at) in points {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(*at)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Copies journals before they are truncated, to `N.damaged` beside them, then `N.damaged-1` and so
/// on.
pub(crate) fn back_up(points: &[(PathBuf, u64)]) -> io::Result<()> {
    for (path, _) in points {
        let bytes = std::fs::read(path)?;
        let length = bytes
            .iter()
            .rposition(|b| *b != 0)
            .map_or(0, |last| last + 1);
        let name = |n: u32| match n {
            0 => path.with_extension("damaged"),
            n => path.with_extension(format!("damaged-{n}")),
        };
        let copy = (0..=u32::MAX).map(name).find(|copy| !copy.exists());
        let Some(copy) = copy else { continue };
        std::fs::write(&copy, &bytes[..length])?;
        File::open(&copy)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_watermark_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(synced(folder.path()).unwrap(), 0);
        Watermark::open(folder.path())
            .unwrap()
            .set(1 << 40)
            .unwrap();
        assert_eq!(synced(folder.path()).unwrap(), 1 << 40);
        let file = File::options()
            .write(true)
            .open(folder.path().join(SYNCED))
            .unwrap();
        file.write_all_at(&[9], 14).unwrap();
        assert_eq!(synced(folder.path()).unwrap(), 0);
    }
}
