//! The local disk's own figures: direct I/O at depth, and the local file system through the page cache.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

const REQUEST: usize = 1 << 20;
const ALIGN: usize = 4096;

/// Direct writes of 1 MiB, `depth` at a time, into a new preallocated file, and a sync; MiB per second.
pub(crate) fn direct_write(path: &Path, mib: u64, depth: usize) -> Result<f64> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, mib << 20)?;
    let memory: Vec<Vec<u8>> = (0..depth).map(|_| vec![5; REQUEST + ALIGN]).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = memory
            .iter()
            .enumerate()
            .map(|(lane, memory)| {
                let file = &file;
                scope.spawn(move || -> Result<()> {
                    let skip = memory.as_ptr().align_offset(ALIGN);
                    let buffer = &memory[skip..skip + REQUEST];
                    for i in (lane as u64..mib).step_by(depth) {
                        file.write_all_at(buffer, i << 20)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for lane in lanes {
            lane.join().expect("a lane does not panic")?;
        }
        anyhow::Ok(())
    })?;
    file.sync_data()?;
    Ok(mib as f64 / started.elapsed().as_secs_f64())
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
