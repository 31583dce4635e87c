//! Frames of the log that wait to be appended.

use std::ops::Range;

use bytes::{BufMut, Bytes};

use crate::limits::SHARED_MIN;
use crate::record::{FRAME_BYTES, FrameRecord, checksum};

/// Frames in order: bytes that the queue owns, and between them shared data that stays where it was
/// received.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    owned: Vec<u8>,
    shared: Vec<SharedData>,
    shared_bytes: usize,
}

#[derive(Debug)]
struct SharedData {
    /// The offset in `owned` that it precedes.
    before: usize,
    data: Bytes,
    sum: u32,
}

/// Where a frame begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    owned: usize,
    shared: usize,
    shared_bytes: usize,
}

/// A frame under construction at the end of the queue.
pub(crate) struct OpenFrame {
    /// The time of its items.
    pub(crate) modified: i64,
    queued: FrameQueue,
    start: Start,
}

impl FrameQueue {
    /// Begins a frame at the end, so that its items need not be copied.
    pub(crate) fn begin(self, modified: i64) -> OpenFrame {
        let start = Start {
            owned: self.owned.len(),
            shared: self.shared.len(),
            shared_bytes: self.shared_bytes,
        };
        let mut frame = OpenFrame {
            modified,
            queued: self,
            start,
        };
        frame.items().put_bytes(0, FRAME_BYTES);
        frame.items().put_i64_le(modified);
        frame
    }

    /// Adds a complete frame.
    pub(crate) fn append(&mut self, sequence: u64, synced: bool, body: &[u8]) {
        FrameRecord::append(&mut self.owned, sequence, synced, body);
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.owned.len() + self.shared_bytes
    }

    /// All bytes in order, as non-empty slices.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.slices_from(0, 0).map(|(slice, _)| slice)
    }

    /// The slices with their checksums, if known.
    fn slices_from(
        &self,
        owned: usize,
        shared: usize,
    ) -> impl Iterator<Item = (&[u8], Option<u32>)> {
        let mut at = owned;
        let shared = self.shared[shared..].iter();
        let ends = shared.map(|shared| (shared.before, &shared.data[..], Some(shared.sum)));
        let slices =
            ends.chain([(self.owned.len(), &[][..], None)])
                .flat_map(move |(to, data, sum)| {
                    let owned = &self.owned[std::mem::replace(&mut at, to)..to];
                    [(owned, None), (data, sum)]
                });
        slices.filter(|(slice, _)| !slice.is_empty())
    }

    /// Drops everything, and keeps up to `keep` bytes of memory.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.owned.clear();
        self.owned.shrink_to(keep);
    }
}

impl OpenFrame {
    /// An empty frame in an empty queue.
    pub(crate) fn empty() -> Self {
        OpenFrame {
            modified: 0,
            queued: FrameQueue::default(),
            start: Start {
                owned: 0,
                shared: 0,
                shared_bytes: 0,
            },
        }
    }

    /// The buffer for items; data can follow by [`OpenFrame::append_shared`].
    pub(crate) fn items(&mut self) -> &mut Vec<u8> {
        &mut self.queued.owned
    }

    /// Adds a range of `data` to the last item. A known sum goes into the frame's checksum: its
    /// caller verifies it before the frame is appended. Otherwise the sum is computed now, before
    /// copies prove that the data is still right.
    pub(crate) fn append_shared(&mut self, data: &Bytes, slice: Range<usize>, sum: Option<u32>) {
        if slice.len() < SHARED_MIN {
            return self.items().extend_from_slice(&data[slice]);
        }
        self.queued.shared_bytes += slice.len();
        let before = self.queued.owned.len();
        let data = data.slice(slice);
        let sum = sum.unwrap_or_else(|| checksum(&data));
        self.queued.shared.push(SharedData { before, data, sum });
    }

    /// Bytes of the frame so far.
    pub(crate) fn bytes(&self) -> usize {
        self.queued.bytes() - self.start.owned - self.start.shared_bytes
    }

    /// Closes the frame; returns the queue with it at the end.
    pub(crate) fn finish(self, sequence: u64) -> FrameQueue {
        let Start { owned, shared, .. } = self.start;
        let body = self.queued.slices_from(owned + FRAME_BYTES, shared);
        let crc = body.fold(0, |sum, (slice, known)| {
            let of_slice = known.unwrap_or_else(|| checksum(slice));
            weft_sum::joined(sum, of_slice, slice.len())
        });
        let length = self.bytes() - FRAME_BYTES;
        let head = FrameRecord::head(length, crc, sequence, false);
        let mut queued = self.queued;
        queued.owned[owned..owned + FRAME_BYTES].copy_from_slice(&head);
        FrameRecord::end(&mut queued.owned, length);
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::new_body;

    fn joined(queued: &FrameQueue) -> Vec<u8> {
        queued.slices().flatten().copied().collect()
    }

    #[test]
    fn shared_data_does_not_change_the_bytes_of_a_frame() {
        let large = |n: u8, extra: usize| Bytes::from(vec![n; SHARED_MIN + extra]);
        let datas = [
            vec![],
            vec![large(1, 0)],
            vec![large(2, 7), large(3, 1)],
            vec![
                Bytes::from_static(b"small"),
                large(4, 4096),
                Bytes::from_static(b"end"),
            ],
        ];
        let (mut queued, mut plain) = (FrameQueue::default(), Vec::new());
        for (sequence, datas) in (1..).zip(&datas) {
            queued.append(sequence * 2, true, b"between");
            FrameRecord::append(&mut plain, sequence * 2, true, b"between");
            let (mut frame, mut body) = (queued.begin(7), new_body(7));
            for (n, data) in datas.iter().enumerate() {
                frame.items().extend_from_slice(b"item");
                frame.append_shared(data, 0..data.len(), (n % 2 == 1).then(|| checksum(data)));
                body.extend_from_slice(b"item");
                body.extend_from_slice(data);
                assert_eq!(frame.bytes(), FRAME_BYTES + body.len());
            }
            queued = frame.finish(sequence * 2 + 1);
            FrameRecord::append(&mut plain, sequence * 2 + 1, false, &body);
            assert_eq!(queued.bytes(), plain.len());
            assert!(joined(&queued) == plain, "frame {sequence}");
        }
        assert!(queued.slices().all(|slice| !slice.is_empty()));
        assert_eq!(queued.slices().filter(|p| p.len() >= SHARED_MIN).count(), 4);
        queued.clear(64);
        assert!(queued.bytes() == 0 && joined(&queued).is_empty());
    }
}
