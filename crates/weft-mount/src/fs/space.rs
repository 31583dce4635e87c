//! Where a file has data, room made in advance, and copies from file to file.

use std::ops::Range;

use rustix::io::Errno;
use weft_layout::FileOffset;
use weft_proto::limits::INLINE_MAX;

use super::files::{Handle, now};
use super::views::{is_view, unsupported};
use super::{Caller, FileSystem, FsError};
use crate::limits::{COPY_MAX, COPY_STEP};

/// The servers' blocks: shorter holes are not told.
const HOLE: u64 = 4096;
/// The kernel's pages.
const PAGE: u64 = 4096;

impl FileSystem {
    /// Makes room, or clears bytes; `mode` as of fallocate(2).
    ///
    /// Room is not set aside: what is made is the file's size.
    pub async fn allocate(
        &self,
        caller: Caller,
        handle: u64,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return Err(unsupported());
        }
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let clears = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => false,
            libc::FALLOC_FL_PUNCH_HOLE if keeps => true,
            libc::FALLOC_FL_ZERO_RANGE => true,
            _ => {
                let what = "bytes can be cleared and room made, nothing moved";
                return Err(FsError::refused(what, Errno::OPNOTSUPP));
            }
        };
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= weft_layout::OFFSET_MAX)
            .ok_or(FsError::refused(
                "it ends past the largest offset",
                Errno::FBIG,
            ))?;
        let handle = self.handles.get(handle)?;
        handle.writable()?;
        let began = now();
        self.strip_for(caller, &handle).await?;
        if clears {
            let clear = async {
                handle.data.clear(offset, length).await?;
                handle.note_wrote();
                self.resized(handle.id, began);
                Ok(())
            };
            self.beside_pages(&handle, offset..end, clear).await?;
        } else {
            // What is there has its room already; of holes in it only the servers know.
            let there = handle.data.size().await?.max(offset);
            let space = self.space(handle.id).await?;
            if space.available < end.saturating_sub(there) {
                return Err(if space.by_quota {
                    FsError::refused("the quota does not leave so much room", Errno::DQUOT)
                } else {
                    FsError::refused("the volume has not so much room", Errno::NOSPC)
                });
            }
        }
        if !keeps && handle.data.size().await? < end {
            handle.note_wrote();
            handle.data.extend(end).await?;
            self.resized(handle.id, began);
        }
        Ok(())
    }

    /// Where the next data (`whence` `SEEK_DATA`) or the next hole (`SEEK_HOLE`) begins.
    pub async fn seek(&self, handle: u64, offset: u64, whence: i32) -> Result<u64, FsError> {
        if is_view(handle) {
            return self.seek_view(handle, offset, whence).await;
        }
        let nothing = FsError::refused("nothing is there", Errno::NXIO);
        let handle = self.handles.get(handle)?;
        self.flush_all(handle.id).await?;
        let size = handle.data.size().await?;
        if offset >= size {
            return Err(nothing);
        }
        if handle.data.is_inline() {
            // Its bytes say what they are: where they lie there are no holes, and its servers know
            // nothing of it.
            let content = handle.data.read(0, INLINE_MAX).await?;
            if handle.data.is_inline() {
                return seek_in(&content, offset, whence);
            }
        }
        // Whole blocks: a server knows to the byte how far a cell reaches.
        let from = offset / HOLE * HOLE;
        let mut ranges = handle.file.data_ranges(FileOffset(from), HOLE);
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
                _ => return Err(FsError::refused("no such seek", Errno::INVAL)),
            }
        }
    }

    /// Copies bytes from one open file to another; returns how many.
    pub async fn copy(
        &self,
        caller: Caller,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
    ) -> Result<u64, FsError> {
        if is_view(from) || is_view(to) {
            return Err(unsupported());
        }
        let (from, to) = (self.handles.get(from)?, self.handles.get(to)?);
        to.writable()?;
        let _at_work = to.at_work.read().await;
        let began = now();
        let length = length.min(COPY_MAX);
        if from.id == to.id && from_offset < to_offset + length && to_offset < from_offset + length
        {
            return Err(FsError::refused("the ranges overlap", Errno::INVAL));
        }
        let mut range = to_offset..to_offset.saturating_add(length);
        if self.files.may_be_mapped(to.id) {
            // No further than is copied: what maps write behind that must not be masked.
            let left = from.data.size().await?.saturating_sub(from_offset);
            range.end = range.end.min(to_offset.saturating_add(left));
            if !leaves_pages_whole(&to, &range).await? {
                let what = "the copy ends within a page";
                return Err(FsError::refused(what, Errno::OPNOTSUPP));
            }
        }
        self.strip_for(caller, &to).await?;
        let copy = async {
            let copied = to
                .data
                .copy_from(&from.data, from_offset, to_offset, length);
            if let Some(copied) = copied.await? {
                to.note_wrote();
                self.resized(to.id, began);
                return Ok(copied);
            }
            self.copy_small(&from, from_offset, &to, to_offset, length)
                .await
        };
        self.beside_pages(&to, range, copy).await
    }

    /// Copies by reading and writing.
    async fn copy_small(
        &self,
        from: &Handle,
        from_offset: u64,
        to: &Handle,
        to_offset: u64,
        length: u64,
    ) -> Result<u64, FsError> {
        let mut done = 0;
        while done < length {
            let part = usize::try_from(length - done).map_or(COPY_STEP, |rest| rest.min(COPY_STEP));
            let data = from.data.read(from_offset + done, part).await?;
            if data.is_empty() {
                break;
            }
            let count = data.len() as u64;
            to.data.write(to_offset + done, data).await?;
            done += count;
        }
        self.written(to);
        Ok(done)
    }
}

/// As [`FileSystem::seek`], in all bytes of a small file: a block of zeros is a hole, as it would
/// be had nothing been written there.
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
        _ => return Err(FsError::refused("no such seek", Errno::INVAL)),
    };
    let mut at = offset;
    while at < size && is_hole(at) != wanted {
        at = (at / HOLE + 1) * HOLE;
    }
    if at >= size && (!wanted || offset >= size) {
        return Err(FsError::refused("nothing is there", Errno::NXIO));
    }
    Ok(at.min(size))
}

/// Whether a range has none of a page's bytes, or all that it has within the file. After a copy the
/// kernel drops the range's pages whole, with what was changed in them meanwhile; where the mount
/// does not copy, the kernel copies through its pages.
async fn leaves_pages_whole(handle: &Handle, range: &Range<u64>) -> Result<bool, FsError> {
    let whole = |offset: u64| offset.is_multiple_of(PAGE);
    if whole(range.start) && whole(range.end) {
        return Ok(true);
    }
    Ok(whole(range.start) && handle.data.size().await? <= range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_of_a_small_file_are_its_holes() {
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
