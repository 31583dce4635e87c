//! Changes of a file past the kernel's pages, beside those pages.
//!
//! Before the kernel sends a write that goes past its pages (direct I/O, `fallocate`,
//! `copy_file_range`), it drops the pages of the range. A program that has mapped the file may read
//! one of them again before the mount has taken the write: the page then shows old bytes. And
//! because a page is written back whole, a byte that the program changes in it takes the old ones
//! with it to the servers, over what was just written. So a change past the pages
//!
//! 1. *masks* its range, and waits for what pages are writing there already;
//! 2. is made;
//! 3. has the kernel drop the pages of its range again, if any was read since the file was opened.
//!    Pages that were changed are written back by that; what they say of the masked range is left
//!    out;
//! 4. ends the mask, and is answered.
//!
//! A page that is read after step 2 shows the change; one that was read before is gone after step
//! 3. Programs that write the same bytes at the same time get either version, as everywhere.
//!
//! Rejected: direct I/O only where every descriptor is for writing only. Programs that share a file
//! open it with `O_RDWR` to write and read it back, and a descriptor that was opened direct stays
//! so when another program maps the file.
//!
//! Invariants:
//! 1. No part of a page write touches a masked range while it is masked.
//! 2. Step 3 is left out only where no page was read before the change was made:
//!    [`Pages::note_read`] comes before the bytes are looked up, [`Pages::were_read`] after they
//!    were changed.
//! 3. Page writes wait for no change, so that a change may wait for page writes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The kernel's pages of a file, for all of its opens.
#[derive(Debug, Default)]
pub(in crate::fs) struct Pages {
    ranges: Mutex<Ranges>,
    /// A page write ended.
    ended: Notify,
    /// The kernel has read pages since the file was opened.
    read: AtomicBool,
}

#[derive(Debug, Default)]
struct Ranges {
    next: u64,
    masked: Vec<(u64, Range<u64>)>,
    writing: Vec<(u64, Vec<Range<u64>>)>,
}

impl Ranges {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Whether a page write touches this range.
    fn is_written(&self, range: &Range<u64>) -> bool {
        let mut parts = self.writing.iter().flat_map(|(_, parts)| parts);
        parts.any(|part| part.start < range.end && range.start < part.end)
    }
}

/// `range` without the masked ones, ascending.
fn unmasked(range: Range<u64>, masked: &[(u64, Range<u64>)]) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for (_, mask) in masked {
        let rest = parts.into_iter().flat_map(|part| {
            let before = part.start..part.end.min(mask.start);
            let behind = part.start.max(mask.end)..part.end;
            [before, behind].into_iter().filter(|rest| !rest.is_empty())
        });
        parts = rest.collect();
    }
    parts
}

impl Pages {
    /// The kernel reads pages. Must come before their bytes are looked up.
    pub(in crate::fs) fn note_read(&self) {
        self.read.store(true, Ordering::SeqCst);
    }

    /// Whether the kernel may have read pages before a change that is complete now.
    pub(in crate::fs) fn were_read(&self) -> bool {
        self.read.load(Ordering::SeqCst)
    }

    /// Masks a range while the result lives. Returns when no earlier page write touches it.
    pub(in crate::fs) async fn mask(&self, range: Range<u64>) -> Mask<'_> {
        let mask = {
            let mut ranges = self.ranges.lock();
            let number = ranges.number();
            ranges.masked.push((number, range.clone()));
            Mask(self, number)
        };
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.ranges.lock().is_written(&range) {
                return mask;
            }
            ended.await;
        }
    }

    /// Begins a page write of a range, which ends when the result is dropped.
    pub(in crate::fs) fn write_back(self: &Arc<Self>, range: Range<u64>) -> PageWrite {
        let mut ranges = self.ranges.lock();
        let number = ranges.number();
        let parts = unmasked(range, &ranges.masked);
        ranges.writing.push((number, parts.clone()));
        PageWrite {
            pages: self.clone(),
            number,
            parts,
        }
    }
}

/// A range that page writes leave out.
#[must_use = "dropped, it has no effect"]
#[derive(Debug)]
pub(in crate::fs) struct Mask<'a>(&'a Pages, u64);

impl Drop for Mask<'_> {
    fn drop(&mut self) {
        let mut ranges = self.0.ranges.lock();
        ranges.masked.retain(|(number, _)| *number != self.1);
    }
}

/// A page write in progress.
#[derive(Debug)]
pub(in crate::fs) struct PageWrite {
    pages: Arc<Pages>,
    number: u64,
    parts: Vec<Range<u64>>,
}

impl PageWrite {
    /// The parts of its range that are written.
    pub(in crate::fs) fn parts(&self) -> &[Range<u64>] {
        &self.parts
    }
}

impl Drop for PageWrite {
    fn drop(&mut self) {
        let mut ranges = self.pages.ranges.lock();
        ranges.writing.retain(|(number, _)| *number != self.number);
        drop(ranges);
        self.pages.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_page_write_skips_exactly_the_masked_bytes() {
        let pages = Arc::<Pages>::default();
        assert_eq!(
            pages.write_back(0..100).parts(),
            std::slice::from_ref(&(0..100))
        );
        let one = pages.mask(10..20).await;
        let _two = pages.mask(15..30).await;
        assert_eq!(pages.write_back(0..100).parts(), [0..10, 30..100]);
        assert_eq!(pages.write_back(12..28).parts(), []);
        drop(one);
        assert_eq!(pages.write_back(0..100).parts(), [0..15, 30..100]);
        assert_eq!(
            pages.write_back(40..50).parts(),
            std::slice::from_ref(&(40..50))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_mask_waits_for_earlier_page_writes_of_its_range() {
        let pages = Arc::<Pages>::default();
        let before = pages.write_back(0..10);
        let soon = Duration::from_secs(1);
        let other = tokio::time::timeout(soon, pages.mask(10..20)).await;
        assert!(other.is_ok(), "no page write is in its range");
        let mut mask = std::pin::pin!(pages.mask(5..8));
        assert!(tokio::time::timeout(soon, mask.as_mut()).await.is_err());
        let later = pages.write_back(0..10);
        assert_eq!(
            later.parts(),
            [0..5, 8..10],
            "the mask applies while it waits"
        );
        drop(before);
        assert!(
            tokio::time::timeout(soon, mask).await.is_ok(),
            "the later page write skips the range"
        );
    }
}
