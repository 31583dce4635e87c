//! Finding out that the engine's journal lost what it had promised.
//!
//! fjall takes whatever it cannot read in a journal for the torn end of a crash: it cuts the file there, without a word, and
//! everything behind is gone. After a crash of the process or the machine a torn end is legal, but only behind what was
//! synced. So
//!
//! - every commit carries its number, in a key that belongs to no space;
//! - after every sync the number up to which it reached is written to the file `weft.synced` in the engine's folder. That is
//!   not synced itself: after power loss it may say less than is true, never more;
//! - before fjall opens (and cuts) the journals they are read here. The numbers must go on without a gap, and at least as
//!   far as `weft.synced` says. Else the engine is not opened, and nothing is changed.
//!
//! What is relied upon of fjall 3.1: a journal is batches `1 count(4) sequence(8)`, items `2 type(1) compression(1) keyspace(8)
//! key length(2) value length(4) stored length(4) key value` or `4 keyspace(8)`, and `3 checksum(8) "FJL" 3`; behind them
//! zeros. fjall itself refuses a batch that is whole and whose checksum is wrong.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The key of the number; no space's keys begin with a zero byte.
pub(crate) const NUMBER_KEY: &[u8] = b"\0number";
/// Says up to which commit a sync has reached.
const SYNCED: &str = "weft.synced";
/// First bytes of that file.
const MAGIC: &[u8; 4] = b"WfS\x01";
/// What every batch ends with.
const TRAILER: &[u8] = b"FJL\x03";

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

/// The decoders of bytes on a disk, for whoever feeds them anything; what they give is what they were given. Of a journal's
/// batch only its length and its number are understood.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("watermark", |bytes| Some(encode(decode(bytes)?).to_vec())),
    ("batch of a journal", |bytes| {
        let (length, _) = batch(bytes)?;
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

/// Journals with a torn end, and where that begins.
pub(crate) type Torn = Vec<(PathBuf, u64)>;

/// Reads all journals of a folder; torn ends, or what is missing of what was synced.
pub(crate) fn find(folder: &Path) -> io::Result<Result<Torn, Loss>> {
    let mut journals = Vec::new();
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Vec::new())),
        entries => {
            for entry in entries? {
                let path = entry?.path();
                let number = path
                    .file_name()
                    .and_then(|n| n.to_str()?.strip_suffix(".jnl")?.parse::<u64>().ok());
                journals.extend(number.map(|number| (number, path)));
            }
        }
    }
    journals.sort();
    let must = synced(folder)?;
    let mut reached: Option<u64> = None;
    let (mut end, mut torn) = (None, Vec::new());
    for (_, path) in journals {
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        let mut at = 0;
        while let Some((length, number)) = batch(&bytes[at..]) {
            if let Some(number) = number {
                if let Some(known) = reached.filter(|known| *known + 1 < number) {
                    // Something is missing between two journals: the first was synced before the second was begun.
                    let (path, at) = end.unwrap_or((path, at as u64));
                    return Ok(Err(Loss {
                        path,
                        at,
                        first: known + 1,
                        last: number - 1,
                    }));
                }
                reached = Some(number);
            }
            at += length;
        }
        if bytes[at..].iter().any(|byte| *byte != 0) {
            torn.push((path.clone(), at as u64));
        }
        end = Some((path, at as u64));
    }
    Ok(match (reached, end) {
        (Some(known), Some((path, at))) if known < must => Err(Loss {
            path,
            at,
            first: known + 1,
            last: must,
        }),
        _ => Ok(torn),
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

/// A batch at the front: how long it is, and the commit's number if it has one.
fn batch(bytes: &[u8]) -> Option<(usize, Option<u64>)> {
    let mut rest = Fields(bytes);
    if rest.u8()? != 1 {
        return None;
    }
    let (count, _) = (rest.u32()?, rest.u64()?);
    let mut number = None;
    for _ in 0..count {
        match rest.u8()? {
            2 => {
                let (_, compression, _) = (rest.u8()?, rest.u8()?, rest.u64()?);
                let (key, value, stored) = (rest.u16()?, rest.u32()?, rest.u32()?);
                // fjall's checksum does not cover the first of the two lengths, and its debug build panics.
                if compression == 0 && value != stored {
                    return None;
                }
                let key = rest.take(usize::from(key))?;
                let stored = rest.take(stored as usize)?;
                if key == NUMBER_KEY && compression == 0 && value == 8 {
                    number = Some(u64::from_le_bytes(stored.try_into().ok()?));
                }
            }
            4 => {
                rest.u64()?;
            }
            _ => return None,
        }
    }
    if rest.u8()? != 3 {
        return None;
    }
    rest.u64()?;
    (rest.take(TRAILER.len())? == TRAILER).then_some((bytes.len() - rest.0.len(), number))
}

/// Reads fields off the front; `None` once bytes run out.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One commit of number 7, as fjall 3.1 writes it.
    fn golden() -> Vec<u8> {
        let mut bytes = vec![1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([
            2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 8, 0, 0, 0,
        ]);
        bytes.extend(NUMBER_KEY);
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend([3, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend(TRAILER);
        bytes
    }

    #[test]
    fn a_batch_is_read_and_any_of_its_beginnings_is_none() {
        let bytes = golden();
        assert_eq!(batch(&bytes), Some((bytes.len(), Some(7))));
        for end in 0..bytes.len() {
            assert_eq!(batch(&bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn lengths_that_contradict_each_other_are_no_batch() {
        let mut bytes = golden();
        bytes[13 + 14] ^= 32;
        assert_eq!(batch(&bytes), None);
    }

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
