//! The local disk's own figures: direct I/O at depth, and the local file system through the page
//! cache.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

const REQUEST: usize = 1 << 20;
const ALIGN: usize = 4096;

/// Direct writes of 1 MiB, `depth` at a time, into a new preallocated file, and a sync; MiB per
/// second.
pub(crate) fn direct_write(path: &Path, mib: u64, depth: usize) -> Result<f64> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, mib << 20)?;
    let places: Vec<u64> = (0..mib).map(|i| i << 20).collect();
    let started = Instant::now();
    let write = |buffer: &mut [u8], at| file.write_all_at(buffer, at);
    at_depth(&places, REQUEST, depth, write)?;
    file.sync_data()?;
    Ok(mib as f64 / started.elapsed().as_secs_f64())
}

/// Direct reads of `size` bytes at each of some places, `depth` at a time; seconds.
pub(crate) fn direct_read(path: &Path, places: &[u64], size: usize, depth: usize) -> Result<f64> {
    let file = open_direct(path)?;
    let started = Instant::now();
    at_depth(places, size, depth, |buffer, at| {
        file.read_exact_at(buffer, at)
    })?;
    Ok(started.elapsed().as_secs_f64())
}

/// Direct writes of `size` bytes at each of some places, each with a sync of its own, `depth` at a
/// time; seconds.
pub(crate) fn direct_write_synced(
    path: &Path,
    places: &[u64],
    size: usize,
    depth: usize,
) -> Result<f64> {
    let file = open_direct(path)?;
    let started = Instant::now();
    at_depth(places, size, depth, |buffer, at| {
        file.write_all_at(buffer, at)?;
        file.sync_data()
    })?;
    Ok(started.elapsed().as_secs_f64())
}

fn open_direct(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    Ok(options.open(path)?)
}

/// Does an operation at each of some places, with `depth` threads that have an aligned buffer each.
fn at_depth(
    places: &[u64],
    size: usize,
    depth: usize,
    operation: impl Fn(&mut [u8], u64) -> std::io::Result<()> + Sync,
) -> Result<()> {
    let operation = &operation;
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..depth)
            .map(|lane| {
                scope.spawn(move || {
                    let mut memory = vec![5; size + ALIGN];
                    let skip = memory.as_ptr().align_offset(ALIGN);
                    let buffer = &mut memory[skip..skip + size];
                    let mine = places.iter().skip(lane).step_by(depth);
                    mine.into_iter().try_for_each(|at| operation(buffer, *at))
                })
            })
            .collect();
        for lane in lanes {
            lane.join().expect("a lane does not panic")?;
        }
        Ok(())
    })
}

/// Plain writes of 1 MiB into a new file, and a sync; MiB per second.
pub(crate) fn buffered_write(path: &Path, mib: u64) -> Result<f64> {
    let mut file = File::create_new(path)?;
    let buffer = vec![5; REQUEST];
    let started = Instant::now();
    for _ in 0..mib {
        file.write_all(&buffer)?;
    }
    file.sync_data()?;
    Ok(mib as f64 / started.elapsed().as_secs_f64())
}
