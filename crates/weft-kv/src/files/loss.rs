//! Finding out that the engine's journal lost what it had promised.
//!
//! fjall takes whatever it cannot read in a journal for the torn end of a crash: it cuts the file
//! there, without a word, and everything behind is gone. After a crash of the process or the
//! machine a torn end is legal, but only behind what was synced. So
//!
//! - every commit carries its number, in a key that belongs to no space;
//! - after every sync the number up to which it reached is written to the file `weft.synced` in the
//!   engine's folder. That is not synced itself: after power loss it may say less than is true,
//!   never more;
//! - before fjall opens (and cuts) the journals they are read here (`batch.rs`). The numbers must
//!   go on without a gap, from what the tables hold (`tables.rs`), and at least as far as
//!   `weft.synced` says. Else the engine is not opened, and nothing is changed.
//!
//! Tables are looked at only where journals alone do not suffice: where the oldest are gone, or
//! something cannot be read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::KvError;
use crate::batch::batch;
use crate::files::tables;

/// Says up to which commit a sync has reached.
const SYNCED: &str = "weft.synced";
/// First bytes of that file.
const MAGIC: &[u8; 4] = b"WfS\x01";

/// A journal lacks commits that were on stable storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The journal.
    pub(crate) path: PathBuf,
    /// Where what can be read of it ends.
    pub(crate) at: u64,
    /// The first commit that is missing.
    pub(crate) first: u64,
    /// The last that must be there.
    pub(crate) last: u64,
}

/// The file that says what was synced.
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

/// Decodes bytes and encodes what they say; `None`: they were refused.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// The decoders of bytes on a disk, for whoever feeds them anything; what they give is what they
/// were given. Of a journal's batch only its length and its number are understood.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("watermark", |bytes| Some(encode(decode(bytes)?).to_vec())),
    ("batch of a journal", |bytes| {
        let length = batch(bytes)?.length;
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
    // Its complement: a torn write says nothing.
    out[12..].copy_from_slice(&(!number).to_le_bytes());
    out
}

/// What was synced for certain; 0 where nothing is known.
pub(crate) fn synced(folder: &Path) -> io::Result<u64> {
    let bytes = match std::fs::read(folder.join(SYNCED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        bytes => bytes?,
    };
    Ok(decode(&bytes).unwrap_or(0))
}

/// Journals with bytes behind what can be read of them, and where these begin.
pub(crate) type Torn = Vec<(PathBuf, u64)>;

/// What the journals of a folder are like.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) torn: Torn,
    /// Where in which journals what comes after the first missing commit begins.
    pub(crate) behind: Torn,
    /// What is missing of what was on stable storage.
    pub(crate) loss: Option<Loss>,
}

/// What can be read of a journal.
struct Journal {
    path: PathBuf,
    /// Numbers of its commits, and where they begin.
    numbers: Vec<(u64, u64)>,
    /// Where what can be read ends.
    end: u64,
    /// Something else than zeros is behind that.
    torn: bool,
}

/// Reads all journals of a folder; changes nothing.
pub(crate) fn find(folder: &Path) -> Result<Found, KvError> {
    let unread = |error: io::Error| KvError::open(folder, &error);
    let must = synced(folder).map_err(unread)?;
    if must > 0 {
        tables::complete(folder)?;
    }
    let journals = read_all(folder).map_err(unread)?;
    let torn = journals.iter().filter(|j| j.torn);
    let torn: Torn = torn.map(|j| (j.path.clone(), j.end)).collect();
    let mut loss = missing(folder, &journals, 0, must);
    if loss.is_some() || !torn.is_empty() {
        // Where nobody can look, the tables are believed to have what is before the journals: the
        // engine's own number is compared with what was synced once it is open.
        let before = journals.iter().flat_map(|j| &j.numbers).next();
        let before = before.map_or(must, |(first, _)| first.saturating_sub(1));
        let held = tables::number(folder)?.unwrap_or(before);
        loss = missing(folder, &journals, held, must);
    }
    let behind = loss.as_ref().map_or_else(Torn::new, |loss| {
        let from = journals.iter().skip_while(|j| j.path != loss.path);
        let first_at = |n: usize| if n == 0 { loss.at } else { 0 };
        let from = from.enumerate().map(|(n, j)| (j.path.clone(), first_at(n)));
        from.collect()
    });
    Ok(Found { torn, behind, loss })
}

/// Where in which journals commits begin that have a higher number than this one, and are not to
/// be.
pub(crate) fn beyond(folder: &Path, committed: u64) -> io::Result<Torn> {
    let mut beyond = Torn::new();
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

/// Makes an empty journal for an engine that has none: fjall takes the numbers of commits from its
/// tables only where it has a journal to read, and else begins anew below what they hold, so that
/// nobody would see it, and it would hide what is new.
pub(crate) fn have_one(folder: &Path) -> io::Result<()> {
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

/// Reads a journal up to what is no batch, or does not come after `sequence`.
fn read(path: PathBuf, sequence: &mut Option<u64>) -> io::Result<Journal> {
    let bytes = std::fs::read(&path)?;
    let (mut at, mut numbers) = (0, Vec::new());
    while let Some(batch) = batch(&bytes[at..]) {
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

/// What is missing between what the tables hold and what must be there.
fn missing(folder: &Path, journals: &[Journal], held: u64, must: u64) -> Option<Loss> {
    let mut reached = held;
    let mut end: Option<(&Path, u64)> = None;
    for journal in journals {
        for (number, at) in &journal.numbers {
            if *number > reached + 1 {
                // Between two journals the first has lost its end: it was synced before the second
                // was begun.
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

/// Cuts torn ends off: fjall would do so as well, but not without reading what is behind.
pub(crate) fn trim(torn: &[(PathBuf, u64)]) -> io::Result<()> {
    for (path, at) in torn {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(*at)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Puts copies of journals beside them before they are cut: `N.damaged`, then `N.damaged-1` and so
/// on.
pub(crate) fn keep(torn: &[(PathBuf, u64)]) -> io::Result<()> {
    for (path, _) in torn {
        let bytes = std::fs::read(path)?;
        let held = bytes
            .iter()
            .rposition(|b| *b != 0)
            .map_or(0, |last| last + 1);
        let name = |n: u32| match n {
            0 => path.with_extension("damaged"),
            n => path.with_extension(format!("damaged-{n}")),
        };
        let copy = (0..=u32::MAX).map(name).find(|copy| !copy.exists());
        let Some(copy) = copy else { continue };
        std::fs::write(&copy, &bytes[..held])?;
        File::open(&copy)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_watermark_says_nothing() {
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
