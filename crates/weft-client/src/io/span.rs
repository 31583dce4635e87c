//! Where the bytes of a call lie in the caller's memory, by their number among the bytes of the
//! request.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weft_layout::{Memory, Strided, StridedCopy, StridedPieces, copy_all};

/// Where the bytes of a read go.
pub(crate) trait Sink: Send {
    /// Places `bytes[range]` at memory position `at`.
    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>);

    /// Places strided pieces, whose bytes follow one another from `from` on.
    fn deal(&mut self, strided: &StridedPieces, bytes: &Bytes, from: usize) {
        if strided.is_contiguous_in_memory() {
            let all = from..from + strided.bytes() as usize;
            return self.put(strided.memory as usize, bytes, all);
        }
        let length = strided.length as usize;
        for (n, from) in (0..strided.count).zip((from..).step_by(length)) {
            self.put(strided.memory_of(n) as usize, bytes, from..from + length);
        }
    }

    /// Deals several entries, each with the position of its bytes.
    fn deal_all(&mut self, entries: &[(StridedPieces, usize)], bytes: &Bytes) {
        for (strided, from) in entries {
            self.deal(strided, bytes, *from);
        }
    }
}

impl<S: Sink> Sink for &mut S {
    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>) {
        (**self).put(at, bytes, range);
    }

    fn deal(&mut self, strided: &StridedPieces, bytes: &Bytes, from: usize) {
        (**self).deal(strided, bytes, from);
    }

    fn deal_all(&mut self, entries: &[(StridedPieces, usize)], bytes: &Bytes) {
        (**self).deal_all(entries, bytes);
    }
}

/// What written bytes survive when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The death of any server's process.
    Process,
    /// Power loss.
    Power,
}

/// Bytes to write.
#[derive(Clone)]
pub(crate) enum Source {
    /// Contiguous.
    Packed(Bytes),
    /// In several buffers.
    Parts(Arc<Parts>),
    /// Scattered over one buffer.
    Patterned(Bytes, Memory),
}

/// Several buffers, one after another.
pub(crate) struct Parts {
    starts: Vec<u64>,
    parts: Vec<Bytes>,
}

impl Source {
    /// Several buffers, one after another.
    pub(crate) fn parts(parts: impl IntoIterator<Item = Bytes>) -> Source {
        let parts: Vec<Bytes> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        let starts = starts(parts.iter().map(Bytes::len));
        Source::Parts(Arc::new(Parts { starts, parts }))
    }

    /// How many bytes of memory there are.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::Packed(bytes) | Source::Patterned(bytes, _) => bytes.len() as u64,
            Source::Parts(all) => {
                let last = all.starts.last().copied().unwrap_or(0);
                last + all.parts.last().map_or(0, |part| part.len() as u64)
            }
        }
    }

    /// The bytes from `number` on, at most `length`, as far as they are contiguous: a buffer and
    /// their range in it.
    pub(crate) fn find(&self, number: u64, length: u64) -> (&Bytes, Range<usize>) {
        let (bytes, at, row) = match self {
            Source::Packed(bytes) => (bytes, number, length),
            Source::Patterned(bytes, memory) => {
                let (at, row) = memory.place(number);
                (bytes, at, row)
            }
            Source::Parts(all) => {
                let i = find(&all.starts, number);
                let (part, at) = (&all.parts[i], number - all.starts[i]);
                (part, at, part.len() as u64 - at)
            }
        };
        (bytes, at as usize..(at + row.min(length)) as usize)
    }
}

/// Memory to read into.
pub(crate) enum Target<'a> {
    /// Contiguous.
    Packed(&'a mut [u8]),
    /// In several buffers, and where each starts.
    Parts(Vec<u64>, Vec<&'a mut [u8]>),
    /// Scattered over one buffer.
    Patterned(&'a mut [u8], Memory),
}

impl<'a> Target<'a> {
    /// Several buffers, one after another.
    pub(crate) fn parts(parts: impl IntoIterator<Item = &'a mut [u8]>) -> Target<'a> {
        let parts: Vec<&mut [u8]> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        Target::Parts(starts(parts.iter().map(|p| p.len())), parts)
    }
}

impl Sink for Target<'_> {
    fn deal_all(&mut self, entries: &[(StridedPieces, usize)], bytes: &Bytes) {
        let Target::Packed(memory) = self else {
            for (strided, from) in entries {
                self.deal(strided, bytes, *from);
            }
            return;
        };
        let copy = |(strided, from): &(StridedPieces, usize)| StridedCopy {
            to: strided.in_memory(),
            from: Strided::packed(*from, strided.length as usize),
            length: strided.length as usize,
            count: strided.count as usize,
        };
        let mut copies: Vec<StridedCopy> = entries.iter().map(copy).collect();
        copy_all(memory, bytes, &mut copies);
    }

    fn deal(&mut self, strided: &StridedPieces, bytes: &Bytes, from: usize) {
        let (length, count) = (strided.length as usize, strided.count as usize);
        match self {
            Target::Packed(_) => self.deal_all(&[(*strided, from)], bytes),
            Target::Parts(..) | Target::Patterned(..) if strided.is_contiguous_in_memory() => {
                self.put(strided.memory as usize, bytes, from..from + length * count);
            }
            Target::Parts(..) | Target::Patterned(..) => {
                for n in 0..count {
                    let from = from + n * length;
                    let at = strided.memory_of(n as u64) as usize;
                    self.put(at, bytes, from..from + length);
                }
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>) {
        let mut bytes = &bytes[range];
        match self {
            Target::Packed(memory) => memory[at..at + bytes.len()].copy_from_slice(bytes),
            Target::Patterned(memory, pattern) => {
                let mut number = at as u64;
                while !bytes.is_empty() {
                    let (at, row) = pattern.place(number);
                    let (now, later) = bytes.split_at(bytes.len().min(row as usize));
                    memory[at as usize..at as usize + now.len()].copy_from_slice(now);
                    number += now.len() as u64;
                    bytes = later;
                }
            }
            Target::Parts(starts, parts) => {
                let mut i = find(starts, at as u64);
                let mut from = at - starts[i] as usize;
                while !bytes.is_empty() {
                    let free = &mut parts[i][from..];
                    let (now, later) = bytes.split_at(free.len().min(bytes.len()));
                    free[..now.len()].copy_from_slice(now);
                    (bytes, i, from) = (later, i + 1, 0);
                }
            }
        }
    }
}

fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut end = 0;
    lengths
        .map(|length| {
            let start = end;
            end += length as u64;
            start
        })
        .collect()
}

/// The buffer that holds this byte; buffers are not empty.
fn find(starts: &[u64], number: u64) -> usize {
    starts.partition_point(|start| *start <= number) - 1
}
