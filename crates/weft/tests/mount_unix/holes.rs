//! Data and holes of a file, exact to the block, for every way of making them; compared with a
//! local file system.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};
use rustix::io::Errno;

use crate::mount_support::Mounted;

const BLOCK: u64 = 4096;

/// All data of a file, as ranges, by seeking from one to the next.
fn data(file: &File) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    loop {
        match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return ranges,
            start => {
                let start = start.unwrap();
                at = seek(file, SeekFrom::Hole(start)).unwrap();
                ranges.push((start, at));
            }
        }
    }
}

/// A model of a file: its size, and for each block whether it has data.
struct Model {
    blocks: Vec<bool>,
    size: u64,
}

impl Model {
    fn cut(&mut self, size: u64) {
        self.size = size;
        self.blocks.resize(size.div_ceil(BLOCK) as usize, false);
    }

    fn written(&mut self, start: u64, end: u64) {
        self.cut(self.size.max(end));
        let blocks = (start / BLOCK) as usize..end.div_ceil(BLOCK) as usize;
        self.blocks[blocks].fill(true);
    }

    fn punched(&mut self, start: u64, end: u64) {
        let last = self.blocks.len();
        let blocks = (start / BLOCK) as usize..(end / BLOCK) as usize;
        self.blocks[blocks.start.min(last)..blocks.end.min(last)].fill(false);
    }

    fn data(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for block in (0..).zip(&self.blocks).filter(|(_, data)| **data) {
            let (start, end) = (block.0 * BLOCK, (block.0 + 1) * BLOCK);
            let end = end.min(self.size);
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }
}

/// A portable random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Changes a file so many times, within so many blocks, and compares it after each change, also
/// with a new descriptor.
fn change(path: &Path, seed: u64, blocks: u64, steps: u32) {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    let (mut model, mut random) = (
        Model {
            blocks: Vec::new(),
            size: 0,
        },
        Random(seed),
    );
    for step in 0..steps {
        let start = random.below(blocks) * BLOCK;
        let length = (random.below(4) + 1) * BLOCK;
        let what = random.below(6);
        match what {
            0 | 1 => {
                // Its first byte makes each block data, wherever it is truncated.
                let length = length - random.below(BLOCK - 1);
                file.write_all_at(&vec![b'x'; length as usize], start)
                    .unwrap();
                model.written(start, start + length);
            }
            2 => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&file, how, start, length).unwrap();
                model.punched(start, start + length);
            }
            3 => {
                let size = start + random.below(2) * random.below(BLOCK);
                ftruncate(&file, size).unwrap();
                model.cut(size);
            }
            4 => {
                fallocate(&file, FallocateFlags::empty(), start, length).unwrap();
                model.cut(model.size.max(start + length));
            }
            _ => file.sync_all().unwrap(),
        }
        let context = format!("seed {seed}, step {step}, {what} at {start}");
        assert_eq!(data(&file), model.data(), "{context}");
        if step % 8 == 0 {
            assert_eq!(data(&File::open(path).unwrap()), model.data(), "{context}");
        }
    }
}

#[test]
fn holes_are_exact_to_the_block_for_every_way_of_making_them() {
    let Some(m) = Mounted::new() else { return };
    // Small files stored with their metadata, files that have just outgrown it, and large ones.
    for (blocks, seeds) in [(3, 0..12), (8, 12..24), (200, 24..32)] {
        for seed in seeds {
            change(&m.file(&format!("f{seed}")), seed, blocks, 40);
        }
    }
}

#[test]
fn holes_match_those_of_a_local_file_system() {
    let Some(m) = Mounted::new() else { return };
    let plain = m.beside("plain");
    // Programs determine the block size by probing: it must be the same everywhere.
    for tree in [&m.path, &plain] {
        let file = fs::File::create(tree.join("tried")).unwrap();
        for place in (1..8).map(|n| n * BLOCK) {
            for offset in [place, place + 1, place + BLOCK - 1] {
                ftruncate(&file, 0).unwrap();
                file.write_all_at(b"a", offset).unwrap();
                assert_eq!(seek(&file, SeekFrom::Data(0)).unwrap(), place, "{offset}");
            }
        }
        ftruncate(&file, 0).unwrap();
        assert_eq!(seek(&file, SeekFrom::Data(0)), Err(Errno::NXIO));
        assert_eq!(seek(&file, SeekFrom::Hole(0)), Err(Errno::NXIO));
        // Data and a hole far apart, and the end of the file as a hole.
        let far = 8 << 30;
        file.write_all_at(&[b'a'; 4096], 0).unwrap();
        file.write_all_at(&[b'a'; 5000], far).unwrap();
        assert_eq!(data(&file), [(0, BLOCK), (far, far + 5000)]);
        assert_eq!(seek(&file, SeekFrom::Data(far / 2 + 1)).unwrap(), far);
        assert_eq!(
            seek(&file, SeekFrom::Hole(far / 2 + 1)).unwrap(),
            far / 2 + 1
        );
        assert_eq!(seek(&file, SeekFrom::Hole(far + 4999)).unwrap(), far + 5000);
    }
}
