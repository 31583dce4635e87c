//! Copies from one open file to another.

use std::ops::Range;

use rustix::io::Errno;

use super::handle::Handle;
use crate::fs::clock::now_nanos;
use crate::fs::view_ids::{is_view, unsupported_in_views};
use crate::fs::{Caller, FileSystem, FsError};
use crate::limits::{COPY_MAX, COPY_STEP};

/// Bytes of the kernel's pages.
const PAGE: u64 = 4096;

impl FileSystem {
    /// Copies bytes from one open file to another; returns how many.
    pub async fn copy(
        &self,
        caller: Caller,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
    ) -> Result<u64, FsError> {
        if is_view(from) || is_view(to) {
            return Err(unsupported_in_views());
        }
        let (from, to) = (self.handles.get(from)?, self.handles.get(to)?);
        to.writable()?;
        let _at_work = to.in_flight.read().await;
        let began = now_nanos();
        let length = length.min(COPY_MAX);
        if from.id == to.id && from_offset < to_offset + length && to_offset < from_offset + length
        {
            return Err(FsError::refused("the ranges overlap", Errno::INVAL));
        }
        let mut range = to_offset..to_offset.saturating_add(length);
        if self.files.may_be_mapped(to.id) {
            // Only as far as the copy reaches: bytes that mappings write behind it must not be
            // masked.
            let left = from.data().size().await?.saturating_sub(from_offset);
            range.end = range.end.min(to_offset.saturating_add(left));
            if !leaves_pages_whole(&to, &range).await? {
                let what = "the copy ends within a page";
                return Err(FsError::refused(what, Errno::OPNOTSUPP));
            }
        }
        for handle in [&from, &to] {
            self.send_waiting(handle.id, None).await?;
        }
        self.strip_for(caller, &to).await?;
        let copy = async {
            let copied = to
                .data()
                .copy_from(from.data(), from_offset, to_offset, length);
            if let Some(copied) = copied.await? {
                to.note_wrote();
                self.resized(to.id, began);
                return Ok(copied);
            }
            self.copy_small(&from, from_offset, &to, to_offset, length)
                .await
        };
        self.bypassing_pages(&to, range, copy).await
    }

    /// Copies by reads and writes.
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
            let step = usize::try_from(length - done).map_or(COPY_STEP, |rest| rest.min(COPY_STEP));
            let data = from.data().read(from_offset + done, step).await?;
            if data.is_empty() {
                break;
            }
            let count = data.len() as u64;
            to.data().write(to_offset + done, data).await?;
            done += count;
        }
        self.written(to);
        Ok(done)
    }
}

/// Whether a range covers each page that it touches as far as the file reaches. After a copy the
/// kernel drops the range's pages whole, with concurrent changes in them; if the mount refuses to
/// copy, the kernel copies through its pages.
async fn leaves_pages_whole(handle: &Handle, range: &Range<u64>) -> Result<bool, FsError> {
    let whole = |offset: u64| offset.is_multiple_of(PAGE);
    if whole(range.start) && whole(range.end) {
        return Ok(true);
    }
    Ok(whole(range.start) && handle.data().size().await? <= range.end)
}
