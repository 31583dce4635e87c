//! Chunks on a local disk, shared by the processes of a machine: CAPFS's D-cache, outliving them.
//!
//! A chunk is a file that is named by its hash, in one of 256 folders by the first byte of it. It
//! is written beside its place and renamed, so that readers see all of it or nothing, and compared
//! with its name whenever it is read: whatever happened to it, no wrong byte comes out. Names are
//! spread evenly, so that each folder has a 256th of the bytes; writes keep their folder within its
//! share and remove the least lately used chunks. Processes share the folder and no other state.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use weft_sum::ChunkName;

use crate::limits::{DISK_CACHE_LOOK, DISK_CACHE_TOUCH, DISK_CHUNK_MAX};

/// Folders of chunks.
const FOLDERS: u64 = 256;
/// What a file takes beside its bytes, about.
const FILE_COST: u64 = 4096;

/// Of the files that this process has begun.
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// A folder of chunks.
#[derive(Debug)]
pub(crate) struct DiskCache {
    folder: PathBuf,
    /// Bytes of each folder of chunks, at most.
    share: u64,
    puts: AtomicU64,
    /// It was said that chunks are too large for their share.
    told: AtomicBool,
}

impl DiskCache {
    /// The cache in this folder, which is made if it is not there, for its owner only.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn open(folder: &Path, most: u64) -> io::Result<DiskCache> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        Ok(DiskCache {
            folder: folder.to_owned(),
            share: most / FOLDERS,
            puts: AtomicU64::new(0),
            told: AtomicBool::new(false),
        })
    }

    fn path_of(&self, name: &ChunkName) -> (PathBuf, String) {
        let hex = name.to_string();
        let (folder, file) = hex.split_at(2);
        (self.folder.join(folder), file.to_owned())
    }

    /// The bytes of a chunk. Blocks for a read of the disk.
    pub(crate) fn get(&self, name: &ChunkName) -> Option<Bytes> {
        let (folder, file) = self.path_of(name);
        let path = folder.join(file);
        let file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        let read = (&file).take(DISK_CHUNK_MAX + 1).read_to_end(&mut bytes);
        if let Err(error) = read {
            tracing::debug!(path = %path.display(), %error, "a kept chunk is not read");
            return None;
        }
        if ChunkName::of(&bytes) == *name {
            if file
                .metadata()
                .is_ok_and(|known| age(&known) > DISK_CACHE_TOUCH)
            {
                // Orders the removal of chunks; it need not be exact.
                let _ = file.set_modified(SystemTime::now());
            }
            return Some(bytes.into());
        }
        tracing::warn!(path = %path.display(), "a kept chunk is damaged, and removed");
        let _ = fs::remove_file(&path);
        None
    }

    /// Keeps a chunk under the name that it has. Blocks for a write of the disk; a chunk that
    /// cannot be kept is not.
    pub(crate) fn put(&self, name: &ChunkName, bytes: &[u8]) {
        if bytes.len() as u64 + FILE_COST > self.share {
            if !self.told.swap(true, Ordering::Relaxed) {
                let (bytes, least) = (bytes.len(), (bytes.len() as u64 + FILE_COST) * FOLDERS);
                tracing::warn!(
                    "chunks of {bytes} bytes are not kept on disk: that needs a cache of {least} bytes"
                );
            }
            return;
        }
        let (folder, file) = self.path_of(name);
        if let Err(error) = DiskCache::write(&folder, &file, bytes) {
            tracing::debug!(%error, "a chunk is not kept on disk");
            if error.kind() == io::ErrorKind::StorageFull {
                DiskCache::tidy(&folder, self.share / 2);
            }
            return;
        }
        // A large folder is looked at now and then, a small one whenever something is added.
        let puts = self.puts.fetch_add(1, Ordering::Relaxed);
        let small = self.share / (bytes.len() as u64 + FILE_COST) < 4 * DISK_CACHE_LOOK;
        if small || puts.is_multiple_of(DISK_CACHE_LOOK) {
            DiskCache::tidy(&folder, self.share);
        }
    }

    fn write(folder: &Path, file: &str, bytes: &[u8]) -> io::Result<()> {
        let path = folder.join(file);
        if path.exists() {
            return Ok(());
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        // No other process, container or thread has this name.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let new = folder.join(format!(
            "{file}.{}-{number}-{:08x}.new",
            std::process::id(),
            since_epoch().subsec_nanos()
        ));
        let mut created = File::create_new(&new)?;
        let written = created.write_all(bytes);
        let renamed = written.and_then(|()| fs::rename(&new, &path));
        if renamed.is_err() {
            let _ = fs::remove_file(&new);
        }
        renamed
    }

    /// Removes the oldest chunks of a folder that has more than so many bytes, and what died before
    /// it had its name.
    fn tidy(folder: &Path, most: u64) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            if let Ok(known) = entry.metadata() {
                files.push((age(&known), known.len() + FILE_COST, entry.path()));
            }
        }
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort_unstable();
        while let Some((age, of_file, path)) = files.pop() {
            let unfinished = path.extension().is_some_and(|name| name == "new");
            let lost = unfinished && age > DISK_CACHE_TOUCH;
            if lost || bytes > most && !unfinished {
                // Another process may have removed it.
                let _ = fs::remove_file(&path);
                bytes -= of_file;
            }
        }
    }
}

fn age(known: &Metadata) -> Duration {
    let modified = known.modified().ok();
    let age = modified.and_then(|modified| modified.elapsed().ok());
    age.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(n: u64) -> (ChunkName, Vec<u8>) {
        let bytes = n.to_le_bytes().repeat(500);
        (ChunkName::of(&bytes), bytes)
    }

    fn size(folder: &Path) -> u64 {
        let folders = fs::read_dir(folder).unwrap();
        let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        files
            .map(|file| file.unwrap().metadata().unwrap().len() + FILE_COST)
            .sum()
    }

    #[test]
    fn chunks_are_shared_bounded_and_never_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let most = 4 << 20;
        let one = DiskCache::open(folder.path(), most).unwrap();
        let two = DiskCache::open(folder.path(), most).unwrap();
        let (name, bytes) = chunk(0);
        assert!(one.get(&name).is_none());
        one.put(&name, &bytes);
        assert_eq!(two.get(&name).unwrap(), bytes);
        // Damage is noticed; the chunk can be kept again.
        let (of, file) = one.path_of(&name);
        let path = of.join(file);
        let mut damaged = bytes.clone();
        damaged[7] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(two.get(&name).is_none() && !path.exists());
        two.put(&name, &bytes);
        assert_eq!(one.get(&name).unwrap(), bytes);
        for n in 0..2_000 {
            let (name, bytes) = chunk(n);
            [&one, &two][n as usize % 2].put(&name, &bytes);
        }
        let kept = size(folder.path());
        assert!(kept <= most && kept > most / 4, "{kept}");
        // What died while it was written goes, too.
        let lost = of.join("x.1-1.new");
        let file = File::create(&lost).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(2))
            .unwrap();
        DiskCache::tidy(&of, one.share);
        assert!(!lost.exists());
        // One that is too large for its share is not kept.
        let large = vec![5; 20_000];
        let name = ChunkName::of(&large);
        one.put(&name, &large);
        assert!(one.get(&name).is_none());
    }

    #[test]
    fn the_least_lately_used_chunks_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path(), 256 * 5 * 8_192).unwrap();
        let chunks: Vec<_> = (0..20_000)
            .map(chunk)
            .filter(|(name, _)| name.as_bytes()[0] == 9)
            .take(12)
            .collect();
        let (kept, rest) = chunks.split_first().unwrap();
        cache.put(&kept.0, &kept.1);
        for (name, bytes) in rest {
            let (of, file) = cache.path_of(&kept.0);
            let old = SystemTime::now() - 2 * DISK_CACHE_TOUCH;
            File::options()
                .write(true)
                .open(of.join(file))
                .unwrap()
                .set_modified(old)
                .unwrap();
            // Its use makes it young again.
            assert!(cache.get(&kept.0).is_some());
            cache.put(name, bytes);
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(cache.get(&rest[0].0).is_none());
        assert!(cache.get(&rest[rest.len() - 1].0).is_some());
    }
}
