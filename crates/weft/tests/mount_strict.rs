//! Two mounts with `-o strict`, one file, random operations on either: after each, both show what a
//! model in memory holds.
//!
//! `WEFT_CASES` is the number of operations, a few thousand by default; `WEFT_SEED` chooses the
//! seed.

mod ends_support;
mod mount_support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use ends_support::Ends;
use mount_support::Mounted;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{FallocateFlags, copy_file_range, fallocate};

/// The longest file.
const LONGEST: usize = 300_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// The file that both mounts must show.
struct Model {
    bytes: Vec<u8>,
    rng: SmallRng,
}

impl Model {
    fn length(&mut self) -> usize {
        let most = if self.rng.random_ratio(1, 8) {
            100_000
        } else {
            6000
        };
        self.rng.random_range(1..most)
    }

    /// A range within the file, or a little beyond its end.
    fn place(&mut self) -> (usize, usize) {
        let length = self.length();
        let last = (self.bytes.len() + 5000).min(LONGEST - length);
        (self.rng.random_range(0..=last), length)
    }

    fn grow(&mut self, end: usize) {
        let length = self.bytes.len().max(end);
        self.bytes.resize(length, 0);
    }

    /// Does one operation through `one`. Returns its description.
    fn change(&mut self, one: &File, appender: &File) -> String {
        let (at, length) = self.place();
        match self.rng.random_range(0..20) {
            0..8 => {
                let fill: u8 = self.rng.random();
                let data: Vec<u8> = (0..length)
                    .map(|i| fill.wrapping_add((i % 251) as u8))
                    .collect();
                one.write_all_at(&data, at as u64).unwrap();
                self.grow(at + length);
                self.bytes[at..at + length].copy_from_slice(&data);
                format!("write {at}+{length}")
            }
            8..10 if self.bytes.len() + length <= LONGEST => {
                let data = vec![self.rng.random(); length];
                appender.write_all_at(&data, 0).unwrap();
                self.bytes.extend(&data);
                format!("append {length}")
            }
            10..12 => {
                one.set_len(at as u64).unwrap();
                self.bytes.resize(at, 0);
                format!("truncate {at}")
            }
            12 => {
                fallocate(
                    one,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    at as u64,
                    length as u64,
                )
                .unwrap();
                let end = (at + length).min(self.bytes.len());
                self.bytes[at.min(end)..end].fill(0);
                format!("punch {at}+{length}")
            }
            13 => {
                fallocate(one, FallocateFlags::ZERO_RANGE, at as u64, length as u64).unwrap();
                self.grow(at + length);
                self.bytes[at..at + length].fill(0);
                format!("zero {at}+{length}")
            }
            14 if at >= 2 * length && at <= self.bytes.len() => {
                let (mut from, mut to) = (0, at as u64);
                let moved =
                    copy_file_range(one, Some(&mut from), one, Some(&mut to), length).unwrap();
                assert_eq!(moved, length);
                self.grow(at + length);
                self.bytes.copy_within(..length, at);
                format!("copy 0+{length} to {at}")
            }
            _ => "nothing".into(),
        }
    }

    /// Compares the file of a mount: the size, and some or all of the bytes.
    fn look(&mut self, file: &File, whole: bool) -> Result<(), String> {
        let size = file.metadata().unwrap().len();
        if size != self.bytes.len() as u64 {
            return Err(format!("the size is {size}, not {}", self.bytes.len()));
        }
        let (at, length) = if whole { (0, LONGEST) } else { self.place() };
        let mut seen = vec![99; length];
        let count = file.read_at(&mut seen, at as u64).unwrap();
        let end = (at + length).min(self.bytes.len());
        let expected = &self.bytes[at.min(end)..end];
        if seen[..count] == *expected {
            return Ok(());
        }
        let differs = seen.iter().zip(expected).position(|(a, b)| a != b);
        Err(format!(
            "{count} bytes at {at}, not {}; the first that differs: {differs:?}",
            expected.len()
        ))
    }
}

#[test]
fn two_strict_mounts_show_the_same_file() {
    let Some(m) = Mounted::with_options("strict") else {
        return;
    };
    let other = m.further("other", "strict");
    let seed = number("WEFT_SEED").unwrap_or(1);
    let open = |path: &std::path::Path, append: bool| {
        File::options()
            .read(true)
            .write(!append)
            .append(append)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap()
    };
    let paths = [m.file("f"), other.join("f")];
    let mut files = paths
        .each_ref()
        .map(|path| (open(path, false), open(path, true)));
    let mut model = Model {
        bytes: Vec::new(),
        rng: SmallRng::seed_from_u64(seed),
    };
    let mut done = Vec::new();
    for step in 0..number("WEFT_CASES").unwrap_or(1500) {
        let by = model.rng.random_range(0..2);
        if model.rng.random_ratio(1, 50) {
            // Closing and reopening must not matter.
            files[by] = (open(&paths[by], false), open(&paths[by], true));
        }
        let what = model.change(&files[by].0, &files[by].1);
        done.push(format!("{by}: {what}"));
        for at in [1 - by, by] {
            let whole = model.rng.random_ratio(1, 20);
            if let Err(why) = model.look(&files[at].0, whole) {
                let last = &done[done.len().saturating_sub(15)..];
                panic!("WEFT_SEED={seed}: step {step}, mount {at}: {why}\nafter {last:#?}");
            }
        }
    }
}

/// A shell's `>` empties a file and writes it anew. A reader finds the old bytes, the new ones, or
/// nothing.
#[test]
fn a_reader_of_a_file_that_is_rewritten_never_sees_zeros() {
    let Some(m) = Mounted::with_options("strict") else {
        return;
    };
    let (path, end) = (m.file("rewritten"), AtomicBool::new(false));
    std::fs::write(&path, [b'x'; 4096]).unwrap();
    std::thread::scope(|scope| {
        let ends = Ends(&end);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut empty = 0;
                    while !end.load(Ordering::Relaxed) {
                        let found = std::fs::read(&path).unwrap();
                        assert!(found.iter().all(|b| *b == b'x'), "zeros were read");
                        empty += u32::from(found.is_empty());
                    }
                    empty
                })
            })
            .collect();
        for _ in 0..number("WEFT_CASES").unwrap_or(1500) {
            std::fs::write(&path, [b'x'; 4096]).unwrap();
        }
        drop(ends);
        let empty: u32 = readers.into_iter().map(|r| r.join().unwrap()).sum();
        assert!(empty > 0, "no read met the file while it was empty");
    });
}
