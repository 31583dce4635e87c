//! A disk with a volatile cache: writes since the last flush are lost, kept or torn when the power
//! fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use rand::Rng;
use rand::rngs::SmallRng;

/// A disk writes this many bytes as a whole or not at all.
const SECTOR: usize = 512;
/// The cache holds no more than this: beyond it, writes reach the medium without a flush.
const CACHE: usize = 256 << 20;

/// Two files of equal size: the medium, and the content including the cache.
pub struct Disk(Mutex<State>);

struct State {
    medium: File,
    shown: File,
    bytes: u64,
    /// Written since the last flush, in order.
    waiting: Vec<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    on: bool,
    /// Flushes report success without doing anything.
    lies: bool,
}

/// The effect of a power failure on cached writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    pub lost: usize,
    pub torn: usize,
}

fn no_power() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl State {
    fn write_down(&mut self, count: usize) -> io::Result<()> {
        for (at, data) in self.waiting.drain(..count) {
            self.waiting_bytes -= data.len();
            self.medium.write_all_at(&data, at)?;
        }
        Ok(())
    }
}

impl Disk {
    /// A disk of zeros, its files in `folder`.
    pub fn new(folder: &Path, bytes: u64) -> io::Result<Disk> {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true);
            let file = file.open(folder.join(name))?;
            file.set_len(bytes)?;
            io::Result::Ok(file)
        };
        Ok(Disk(Mutex::new(State {
            medium: open("medium")?,
            shown: open("shown")?,
            bytes,
            waiting: Vec::new(),
            waiting_bytes: 0,
            on: true,
            lies: false,
        })))
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.lock().unwrap().bytes
    }

    /// Skips all flushes from now on.
    pub fn lie(&self) {
        self.0.lock().unwrap().lies = true;
    }

    pub fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let state = self.0.lock().unwrap();
        if !state.on {
            return Err(no_power());
        }
        let length = (length as u64).min(state.bytes.saturating_sub(at));
        let mut data = vec![0; length as usize];
        state.shown.read_exact_at(&mut data, at)?;
        Ok(data)
    }

    pub fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if !state.on {
            return Err(no_power());
        }
        state.shown.write_all_at(data, at)?;
        state.waiting_bytes += data.len();
        state.waiting.push((at, data.to_vec()));
        if state.waiting_bytes > CACHE && !state.lies {
            let half = state.waiting.len().div_ceil(2);
            state.write_down(half)?;
        }
        Ok(())
    }

    /// Puts everything written on the medium.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if !state.on {
            return Err(no_power());
        }
        let count = if state.lies { 0 } else { state.waiting.len() };
        state.write_down(count)
    }

    /// Cuts the power: nothing works until [`Disk::power_on`]. Of the cached writes remain, at
    /// random: none; a prefix with its last write torn; any of the writes; any of their sectors.
    pub fn cut(&self, random: &mut SmallRng) -> io::Result<Cut> {
        let mut state = self.0.lock().unwrap();
        state.on = false;
        let waiting = std::mem::take(&mut state.waiting);
        state.waiting_bytes = 0;
        let way = random.random_range(0..4);
        let end = random.random_range(0..=waiting.len());
        let mut cut = Cut::default();
        for (i, (at, data)) in waiting.iter().enumerate() {
            let sectors = data.len().div_ceil(SECTOR);
            let torn = random.random_range(0..=sectors);
            let mut kept = 0;
            for sector in 0..sectors {
                let keep = match way {
                    0 => false,
                    1 => i < end || i == end && sector < torn,
                    2 => torn * 2 > sectors,
                    _ => random.random(),
                };
                if keep {
                    let from = sector * SECTOR;
                    let part = &data[from..data.len().min(from + SECTOR)];
                    state.medium.write_all_at(part, at + from as u64)?;
                    kept += 1;
                }
            }
            cut.lost += usize::from(kept == 0);
            cut.torn += usize::from(kept > 0 && kept < sectors);
        }
        for (at, data) in waiting {
            let mut found = data;
            state.medium.read_exact_at(&mut found, at)?;
            state.shown.write_all_at(&found, at)?;
        }
        Ok(cut)
    }

    /// The power is back.
    pub fn power_on(&self) {
        self.0.lock().unwrap().on = true;
    }
}
