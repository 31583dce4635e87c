//! `fallocate` and `lseek`: space made in advance, cleared bytes, data and holes.

use rustix::io::Errno;
use weft_layout::FileOffset;
use weft_proto::limits::INLINE_MAX;

use crate::fs::clock::now_nanos;
use crate::fs::view_ids::{is_view, unsupported_in_views};
use crate::fs::{Caller, FileSystem, FsError};

/// The servers' block size: shorter holes are not reported.
const HOLE: u64 = 4096;

impl FileSystem {
    /// Allocates or clears bytes; `mode` as of fallocate(2). Space is not reserved: only the file's
    /// size grows.
    pub async fn allocate(
        &self,
        caller: Caller,
        handle: u64,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return Err(unsupported_in_views());
        }
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let clears = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => false,
            libc::FALLOC_FL_PUNCH_HOLE if keeps => true,
            libc::FALLOC_FL_ZERO_RANGE => true,
            _ => {
                let what = "only clearing and allocating bytes is supported";
                return Err(FsError::refused(what, Errno::OPNOTSUPP));
            }
        };
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= weft_layout::OFFSET_MAX)
            .ok_or(FsError::refused(
                "the range ends past the largest offset",
                Errno::FBIG,
            ))?;
        let handle = self.handles.get(handle)?;
        handle.writable()?;
        let began = now_nanos();
        self.send_waiting(handle.id, Some(&handle)).await?;
        self.strip_for(caller, &handle).await?;
        if clears {
            let clear = async {
                handle.data().clear(offset, length).await?;
                handle.note_wrote();
                self.resized(handle.id, began);
                Ok(())
            };
            self.bypassing_pages(&handle, offset..end, clear).await?;
        } else {
            // Existing bytes have their space; only the servers know the holes between them.
            let existing = handle.data().size().await?.max(offset);
            let space = self.space(handle.id).await?;
            if space.available < end.saturating_sub(existing) {
                return Err(if space.by_quota {
                    FsError::refused("the quota does not leave enough space", Errno::DQUOT)
                } else {
                    FsError::refused("the volume has not enough space", Errno::NOSPC)
                });
            }
        }
        if !keeps && handle.data().size().await? < end {
            handle.note_wrote();
            handle.data().extend(end).await?;
            self.resized(handle.id, began);
        }
        Ok(())
    }

    /// Where the next data (`whence` `SEEK_DATA`) or the next hole (`SEEK_HOLE`) begins.
    pub async fn seek(&self, handle: u64, offset: u64, whence: i32) -> Result<u64, FsError> {
        if is_view(handle) {
            return self.seek_view(handle, offset, whence).await;
        }
        let nothing = FsError::refused("there is no data or hole behind this offset", Errno::NXIO);
        let handle = self.handles.get(handle)?;
        self.flush_all(handle.id).await?;
        let size = handle.data().size().await?;
        if offset >= size {
            return Err(nothing);
        }
        if handle.data().is_inline() {
            // With the metadata there are no holes, and the servers know nothing of the file: the
            // bytes decide.
            let content = handle.data().read(0, INLINE_MAX).await?;
            if handle.data().is_inline() {
                return seek_in(&content, offset, whence);
            }
        }
        // Whole blocks, though a server knows the length of a cell to the byte.
        let from = offset / HOLE * HOLE;
        let mut ranges = handle.file().data_ranges(FileOffset(from), HOLE);
        let mut end = offset;
        loop {
            let range = ranges.next().await?;
            let range = range.map(|range| {
                let end = range.end.checked_next_multiple_of(HOLE);
                range.start / HOLE * HOLE..end.unwrap_or(u64::MAX)
            });
            match (whence, range) {
                (libc::SEEK_DATA, None) => return Err(nothing),
                (libc::SEEK_DATA, Some(range)) if range.start >= size => return Err(nothing),
                (libc::SEEK_DATA, Some(range)) => return Ok(range.start.max(offset)),
                (libc::SEEK_HOLE, Some(range)) if range.start <= end && end < size => {
                    end = end.max(range.end);
                }
                (libc::SEEK_HOLE, _) => return Ok(end.min(size)),
                _ => {
                    return Err(FsError::refused(
                        "the kind of seek is unknown",
                        Errno::INVAL,
                    ));
                }
            }
        }
    }
}

/// As [`FileSystem::seek`], in all bytes of a small file: a block of zeros counts as a hole.
fn seek_in(content: &[u8], offset: u64, whence: i32) -> Result<u64, FsError> {
    let size = content.len() as u64;
    let is_hole = |offset: u64| {
        let start = (offset / HOLE * HOLE) as usize;
        let block = &content[start..content.len().min(start + HOLE as usize)];
        block.iter().all(|byte| *byte == 0)
    };
    let wanted = match whence {
        libc::SEEK_DATA => false,
        libc::SEEK_HOLE => true,
        _ => {
            return Err(FsError::refused(
                "the kind of seek is unknown",
                Errno::INVAL,
            ));
        }
    };
    let mut at = offset;
    while at < size && is_hole(at) != wanted {
        at = (at / HOLE + 1) * HOLE;
    }
    if at >= size && (!wanted || offset >= size) {
        return Err(FsError::refused(
            "there is no data or hole behind this offset",
            Errno::NXIO,
        ));
    }
    Ok(at.min(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_in_a_small_file_are_holes() {
        let mut content = vec![0; 3 * 4096 + 10];
        content[4096 + 77] = b'x';
        content[3 * 4096 + 9] = b'x';
        let size = content.len() as u64;
        let seek = |offset, whence| seek_in(&content, offset, whence).ok();
        assert_eq!(seek(0, libc::SEEK_DATA), Some(4096));
        assert_eq!(seek(5000, libc::SEEK_DATA), Some(5000));
        assert_eq!(seek(5000, libc::SEEK_HOLE), Some(8192));
        assert_eq!(seek(8200, libc::SEEK_HOLE), Some(8200));
        assert_eq!(seek(8200, libc::SEEK_DATA), Some(12288));
        assert_eq!(seek(size - 1, libc::SEEK_HOLE), Some(size));
        for whence in [libc::SEEK_DATA, libc::SEEK_HOLE] {
            assert_eq!(seek(size, whence), None);
        }
        content.truncate(12288);
        assert!(seek_in(&content, 8192, libc::SEEK_DATA).is_err());
        assert!(seek_in(&content, 0, 99).is_err());
    }
}
