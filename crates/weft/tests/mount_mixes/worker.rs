//! A worker that changes its share of the bytes of a file in every possible way, while others
//! change theirs.
//!
//! All workers share the first pages of the file, in pieces much shorter than a page. Then come
//! whole pages, within the limits of direct I/O on local file systems. The rest, with the end of
//! the file, belongs to the first worker alone. Since each byte has one writer, each worker knows
//! its bytes, and the final contents of the file depend only on the seed.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::{FallocateFlags, copy_file_range, fallocate};

use super::map::Map;

pub const PAGE: usize = 4096;
/// Bytes of one worker in a shared page.
const SLOT: usize = 64;
/// Pages of one worker in a row.
const BLOCK: usize = 4 * PAGE;
/// Descriptors of a worker.
const DESCRIPTORS: usize = 4;
/// The longest tail of the first worker.
const TAIL: usize = 6 * PAGE;

/// The parameters that all workers share.
#[derive(Clone, Debug)]
pub struct Mix {
    pub path: PathBuf,
    pub workers: usize,
    pub seed: u64,
    pub operations: usize,
    /// Bytes of pages that all share, and of whole pages.
    pub shared: usize,
    pub whole: usize,
}

impl Mix {
    fn fixed(&self) -> usize {
        self.shared + self.whole
    }

    /// Creates the file. Returns the first descriptor, to keep it open.
    pub fn make(&self) -> File {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(&self.path).unwrap();
        file.set_len(self.fixed() as u64).unwrap();
        file
    }

    /// Does the work of worker `number`.
    pub fn work(&self, number: usize) {
        Worker::new(self, number).run();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    Both,
}

struct Worker<'a> {
    mix: &'a Mix,
    number: usize,
    random: SmallRng,
    /// The expected content of this worker's bytes.
    bytes: Vec<u8>,
    files: Vec<(File, Mode)>,
    direct: Option<File>,
    map: Option<Map>,
}

impl<'a> Worker<'a> {
    fn new(mix: &'a Mix, number: usize) -> Worker<'a> {
        let mut worker = Worker {
            mix,
            number,
            random: SmallRng::seed_from_u64(mix.seed << 8 | number as u64),
            bytes: vec![0; mix.fixed()],
            files: Vec::new(),
            direct: None,
            map: None,
        };
        for mode in [Mode::Both, Mode::Read, Mode::Write, Mode::Both] {
            worker.files.push((open(&mix.path, mode, 0), mode));
        }
        worker
    }

    fn run(mut self) {
        for step in 0..self.mix.operations {
            let what = self.step();
            assert!(
                what.is_ok(),
                "worker {} step {step}: {} of {:?}",
                self.number,
                what.unwrap_err(),
                self.mix
            );
        }
        self.map = None;
        let (file, _) = &self.files[0];
        file.sync_all().unwrap();
    }

    fn step(&mut self) -> Result<(), String> {
        let owns_tail = self.number == 0;
        match self.random.random_range(0..100) {
            24..38 => return self.check(),
            38..46 => return self.check_map(),
            46..51 => return self.clear(),
            51..56 => return self.copy(),
            56..61 => return self.write_direct(),
            61 => return self.sync(),
            62..65 if owns_tail => return self.change_tail(),
            0..24 | 62..65 => return self.write(),
            65..69 => self.sync_map(),
            69..73 => self.reopen(),
            73..75 => self.map = None,
            _ => self.write_map(),
        }
        Ok(())
    }

    /// A range of this worker's bytes: in a page that all share, or in whole pages.
    fn range(&mut self) -> (usize, usize) {
        if self.mix.whole == 0 || self.random.random_bool(0.7) {
            let slots = self.mix.shared / SLOT / self.mix.workers;
            let slot = self.random.random_range(0..slots) * self.mix.workers + self.number;
            let from = self.random.random_range(0..SLOT);
            let length = self.random.random_range(1..=SLOT - from);
            return (slot * SLOT + from, length);
        }
        let (start, length) = self.pages();
        let from = self.random.random_range(0..length);
        (start + from, self.random.random_range(1..=length - from))
    }

    /// Whole pages of this worker.
    fn pages(&mut self) -> (usize, usize) {
        let blocks = self.mix.whole / BLOCK / self.mix.workers;
        let block = self.random.random_range(0..blocks) * self.mix.workers + self.number;
        let from = self.random.random_range(0..BLOCK / PAGE);
        let count = self.random.random_range(1..=BLOCK / PAGE - from);
        let start = self.mix.shared + block * BLOCK;
        (start + from * PAGE, count * PAGE)
    }

    fn fresh(&mut self, length: usize) -> Vec<u8> {
        let mut fresh = vec![0; length];
        self.random.fill_bytes(&mut fresh);
        fresh
    }

    fn keep(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    fn file(&mut self, not: Mode) -> File {
        let fits = self.files.iter().filter(|(_, mode)| *mode != not);
        let fits: Vec<&File> = fits.map(|(file, _)| file).collect();
        let which = self.random.random_range(0..fits.len());
        fits[which].try_clone().unwrap()
    }

    fn mapped(&mut self) -> &Map {
        if self.map.is_none() {
            let both = self.files.iter().filter(|(_, mode)| *mode == Mode::Both);
            let both: Vec<&File> = both.map(|(file, _)| file).collect();
            let which = self.random.random_range(0..both.len());
            self.map = Some(Map::of(both[which], self.mix.fixed()));
        }
        self.map.as_ref().unwrap()
    }

    fn write(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let fresh = self.fresh(length);
        let file = self.file(Mode::Read);
        told("pwrite", file.write_all_at(&fresh, offset as u64))?;
        self.keep(offset, &fresh);
        Ok(())
    }

    fn write_map(&mut self) {
        let (offset, length) = self.range();
        let fresh = self.fresh(length);
        self.mapped().write(offset, &fresh);
        self.keep(offset, &fresh);
    }

    fn is(&self, how: &str, offset: usize, found: &[u8]) -> Result<(), String> {
        let expected = &self.bytes[offset..offset + found.len()];
        match found.iter().zip(expected).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{how}: byte {} is {} and not {}, in a range of {} from {offset} on",
                offset + at,
                found[at],
                expected[at],
                found.len()
            )),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let file = self.file(Mode::Write);
        let mut found = vec![0; length];
        told("pread", file.read_exact_at(&mut found, offset as u64))?;
        self.is("pread", offset, &found)
    }

    fn check_map(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let found = self.mapped().read(offset, length);
        self.is("map", offset, &found)
    }

    fn sync_map(&mut self) {
        let (offset, length) = self.range();
        self.mapped().sync(offset, length);
    }

    fn sync(&mut self) -> Result<(), String> {
        let file = self.file(Mode::Read);
        told("fdatasync", file.sync_data())
    }

    fn clear(&mut self) -> Result<(), String> {
        let (offset, length) = self.range();
        let how = if self.random.random_bool(0.5) {
            FallocateFlags::PUNCH_HOLE
        } else {
            FallocateFlags::ZERO_RANGE
        };
        let file = self.file(Mode::Read);
        let how = how | FallocateFlags::KEEP_SIZE;
        told(
            "fallocate",
            fallocate(&file, how, offset as u64, length as u64),
        )?;
        self.keep(offset, &vec![0; length]);
        Ok(())
    }

    fn copy(&mut self) -> Result<(), String> {
        let ((from, one), (to, two)) = if self.mix.whole > 0 && self.random.random_bool(0.3) {
            (self.pages(), self.pages())
        } else {
            (self.range(), self.range())
        };
        let length = one.min(two);
        if from < to + length && to < from + length {
            return Ok(());
        }
        let (source, target) = (self.file(Mode::Write), self.file(Mode::Read));
        let (mut at, mut there) = (from as u64, to as u64);
        let mut left = length;
        while left > 0 {
            let copied = copy_file_range(&source, Some(&mut at), &target, Some(&mut there), left);
            left -= told("copy_file_range", copied)?;
        }
        let copied = self.bytes[from..from + length].to_vec();
        self.keep(to, &copied);
        Ok(())
    }

    /// Writes by a descriptor with `O_DIRECT`.
    fn write_direct(&mut self) -> Result<(), String> {
        if self.mix.whole == 0 {
            return Ok(());
        }
        let (offset, length) = self.pages();
        // Local file systems require aligned memory.
        let mut room = vec![0_u8; length + PAGE];
        let skip = room.as_ptr().align_offset(PAGE);
        let buffer = &mut room[skip..skip + length];
        let path = &self.mix.path;
        let direct = self
            .direct
            .get_or_insert_with(|| open(path, Mode::Both, libc::O_DIRECT));
        if self.random.random_bool(0.5) {
            told("direct pread", direct.read_exact_at(buffer, offset as u64))?;
            let found = buffer.to_vec();
            return self.is("direct pread", offset, &found);
        }
        self.random.fill_bytes(buffer);
        told("direct pwrite", direct.write_all_at(buffer, offset as u64))?;
        let fresh = buffer.to_vec();
        self.keep(offset, &fresh);
        if self.random.random_bool(0.2) {
            self.direct = None;
        }
        Ok(())
    }

    fn reopen(&mut self) {
        // The first descriptor can do everything.
        let which = self.random.random_range(1..DESCRIPTORS);
        let modes = [Mode::Read, Mode::Write, Mode::Both];
        let mode = modes[self.random.random_range(0..modes.len())];
        self.files[which] = (open(&self.mix.path, mode, 0), mode);
        let has = |wanted| self.files.iter().any(|(_, mode)| *mode == wanted);
        assert!(has(Mode::Both));
    }

    /// Operations that change the end of the file.
    fn change_tail(&mut self) -> Result<(), String> {
        let (fixed, end) = (self.mix.fixed(), self.bytes.len());
        let room = (fixed + TAIL).saturating_sub(end);
        match self.random.random_range(0..5) {
            0 if room > 0 => {
                let length = self.random.random_range(1..=room.min(700));
                let fresh = self.fresh(length);
                let append = open(&self.mix.path, Mode::Write, libc::O_APPEND);
                told("append", std::io::Write::write_all(&mut &append, &fresh))?;
                self.keep(end, &fresh);
            }
            1 => {
                let size = self.random.random_range(fixed..=fixed + TAIL);
                let file = self.file(Mode::Read);
                told("ftruncate", file.set_len(size as u64))?;
                self.bytes.resize(size, 0);
            }
            2 => {
                let offset = self.random.random_range(fixed..fixed + TAIL);
                let length = self.random.random_range(1..=fixed + TAIL - offset);
                let fresh = self.fresh(length);
                let file = self.file(Mode::Read);
                told("pwrite", file.write_all_at(&fresh, offset as u64))?;
                self.keep(offset, &fresh);
            }
            3 if end > fixed => {
                // A map of the current tail, written and dropped.
                let map = Map::of(&self.files[0].0, end);
                let offset = self.random.random_range(fixed..end);
                let length = self.random.random_range(1..=end - offset);
                let fresh = self.fresh(length);
                map.write(offset, &fresh);
                self.keep(offset, &fresh);
            }
            _ => {
                let file = self.file(Mode::Write);
                let size = told("fstat", file.metadata())?.len();
                if size != end as u64 {
                    return Err(format!("the file has {size} bytes and not {end}"));
                }
                let mut found = vec![0; end - fixed];
                told("pread", file.read_exact_at(&mut found, fixed as u64))?;
                self.is("pread", fixed, &found)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path, mode: Mode, flags: i32) -> File {
    let mut options = File::options();
    options.read(mode != Mode::Write).write(mode != Mode::Read);
    options.custom_flags(flags).open(path).unwrap()
}

fn told<T, E: std::fmt::Display>(call: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{call}: {error}"))
}
