//! Reads and writes of patterns: which bytes of a view, and where they lie in memory.
//!
//! ```no_run
//! # async fn example(view: weft_client::OpenView) -> Result<(), weft_client::Error> {
//! use weft_client::Transfer;
//! use weft_layout::{Pattern, ViewOffset};
//!
//! // 64 bytes every 256, a thousand times, from byte 128 on; in memory every 80 bytes.
//! let records = Transfer::of(Pattern::bytes(64).every(256).times(1000))
//!     .at(ViewOffset(128))
//!     .in_memory(Pattern::bytes(64).every(80).times(1000));
//! let mut memory = vec![0; 80 * 1000];
//! view.read_with(&records, &mut memory).await?;
//! # Ok(()) }
//! ```

use bytes::Bytes;
use weft_layout::{Memory, Pattern, PatternError, Request, ViewOffset};

use super::list::RUNS_MAX;
use super::span::{Durability, Source, Target};
use crate::{Error, OpenView};

/// Which bytes of a view one call moves, and where they lie in memory.
///
/// The bytes of both patterns are numbered in the order in which each names them; byte `n` of the
/// one is byte `n` of the other. In what order they travel is left to Weft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pattern: Pattern,
    at: ViewOffset,
    memory: Option<(u64, Pattern)>,
    last_wins: bool,
    synced: bool,
}

impl Transfer {
    /// These bytes, from the view's first on, packed in memory.
    pub fn of(pattern: Pattern) -> Transfer {
        Transfer {
            pattern,
            at: ViewOffset(0),
            memory: None,
            last_wins: false,
            synced: false,
        }
    }

    /// From this byte of the view on. Negative strides may reach before it.
    #[must_use]
    pub fn at(self, at: ViewOffset) -> Transfer {
        Transfer { at, ..self }
    }

    /// Where the bytes lie in memory: as many as the request has.
    #[must_use]
    pub fn in_memory(self, pattern: Pattern) -> Transfer {
        self.in_memory_from(0, pattern)
    }

    /// As [`Transfer::in_memory`], from this byte of the buffer on: for patterns that go backwards.
    #[must_use]
    pub fn in_memory_from(self, start: u64, pattern: Pattern) -> Transfer {
        let memory = Some((start, pattern));
        Transfer { memory, ..self }
    }

    /// A write may touch a byte more than once; what the pattern names last stays.
    #[must_use]
    pub fn last_wins(self) -> Transfer {
        Transfer {
            last_wins: true,
            ..self
        }
    }

    /// What is written survives power loss when the call returns.
    #[must_use]
    pub fn synced(self) -> Transfer {
        Transfer {
            synced: true,
            ..self
        }
    }

    /// Whether the bytes lie one after the other in memory.
    pub fn is_packed(&self) -> bool {
        self.memory.is_none()
    }

    /// Copies the bytes of a write, one after the other, and makes this a transfer from the copy.
    /// Nothing is touched in `memory` between them, unless bytes of it stand for so many of the
    /// request that a copy of all of it is shorter: then that is returned, and this stays.
    ///
    /// # Errors
    /// When a pattern is not legal, the two have different lengths, or `memory` is too short; this
    /// stays as it is.
    pub fn pack(&mut self, memory: &Bytes) -> Result<Bytes, Error> {
        let request = Request::new(self.at, &self.pattern)?;
        let length = request.memory();
        let Some(places) = self
            .memory(&request)?
            .filter(|_| length <= memory.len() as u64)
        else {
            return Ok(Bytes::copy_from_slice(memory));
        };
        check_room(memory.len(), places.end())?;
        let source = Source::Patterned(memory.clone(), places);
        let mut bytes = Vec::with_capacity(length as usize);
        while (bytes.len() as u64) < length {
            let number = bytes.len() as u64;
            let (from, range) = source.find(number, length - number);
            bytes.extend_from_slice(&from[range]);
        }
        self.memory = None;
        Ok(bytes.into())
    }

    /// The request and the memory of a read.
    pub(crate) fn reading<'a>(
        &self,
        view: &OpenView,
        buffer: &'a mut [u8],
    ) -> Result<(Request, Target<'a>), Error> {
        let request = Request::sorted(self.at, &self.pattern, !view.map.rearranges())?;
        let target = match self.memory(&request)? {
            None => {
                check_room(buffer.len(), request.memory())?;
                Target::Packed(buffer)
            }
            Some(memory) => {
                check_room(buffer.len(), memory.end())?;
                memory.check_disjoint()?;
                Target::Patterned(buffer, memory)
            }
        };
        Ok((request, target))
    }

    /// The request and the memory of a write.
    pub(crate) fn writing(&self, view: &OpenView, data: Bytes) -> Result<Writing, Error> {
        let mut request = Request::sorted(self.at, &self.pattern, !view.map.rearranges())?;
        let mut ordered = false;
        if let Err(overlap) = request.check_disjoint() {
            if !self.last_wins {
                return Err(overlap.into());
            }
            request = Request::new(self.at, &self.pattern)?;
            ordered = true;
        }
        let source = match self.memory(&request)? {
            None => {
                check_room(data.len(), request.memory())?;
                Source::Packed(data)
            }
            Some(memory) => {
                check_room(data.len(), memory.end())?;
                Source::Patterned(data, memory)
            }
        };
        Ok(Writing {
            request,
            source,
            durability: self.durability(),
            ordered,
        })
    }

    fn durability(&self) -> Durability {
        if self.synced {
            Durability::Power
        } else {
            Durability::Process
        }
    }

    /// The runs, if this is a list that may need several messages.
    fn long_list(&self) -> Option<&[(i64, u64)]> {
        match &self.pattern {
            Pattern::List(runs) if runs.len() > RUNS_MAX => Some(runs),
            _ => None,
        }
    }

    fn memory(&self, request: &Request) -> Result<Option<Memory>, Error> {
        let memory = self.memory.as_ref();
        let memory = memory.map(|(start, pattern)| Memory::new(*start, pattern, request));
        Ok(memory.transpose()?)
    }
}

/// A transfer, ready to be written.
pub(crate) struct Writing {
    pub(crate) request: Request,
    pub(crate) source: Source,
    pub(crate) durability: Durability,
    /// It touches bytes more than once, and the later stay.
    pub(crate) ordered: bool,
}

/// How much memory a call was given and needs.
fn check_room(given: usize, needed: u64) -> Result<(), Error> {
    if given as u64 >= needed {
        return Ok(());
    }
    Err(Error::Buffer { given, needed })
}

impl OpenView {
    /// Reads the bytes of a transfer: one request to each server that holds any, whatever their
    /// number. Ghosts and holes as for [`OpenView::read_at`].
    ///
    /// Returns the number of bytes moved.
    /// # Errors
    /// [`Error::Pattern`] when the transfer is not legal or two of its bytes have one place in
    /// memory; [`Error::Buffer`] when the buffer is too small. Nothing is read then.
    /// # Cancellation
    /// Dropped, the servers stop; the buffer may be partly filled.
    pub async fn read_with(&self, transfer: &Transfer, buffer: &mut [u8]) -> Result<u64, Error> {
        if let Some(runs) = transfer.long_list() {
            return self.read_long(transfer, runs, buffer).await;
        }
        let (request, target) = transfer.reading(self, buffer)?;
        Ok(self.read_request(&request, target).await?.bytes)
    }

    /// Writes the bytes of a transfer: one request to each server that holds any, whatever their
    /// number. Ghosts swallow their bytes and count nothing.
    ///
    /// Returns the number of bytes moved.
    /// # Durability
    /// On return the bytes survive the death of any server's process, and power loss if the
    /// transfer is [`Transfer::synced`].
    /// # Errors
    /// [`Error::Pattern`] when the transfer is not legal, or touches a byte of the view twice
    /// without [`Transfer::last_wins`]; [`Error::Buffer`] when `data` is too small. Nothing is
    /// written then. [`Error::MayHaveHappened`] as for [`OpenView::write_at`].
    /// # Cancellation
    /// Dropped, any part of the bytes may have been written.
    pub async fn write_with(&self, transfer: &Transfer, data: Bytes) -> Result<u64, Error> {
        if let Some(runs) = transfer.long_list() {
            return self.write_long(transfer, runs, data).await;
        }
        let Writing {
            request,
            source,
            durability,
            ordered,
        } = transfer.writing(self, data)?;
        self.write_request(&request, source, durability, ordered)
            .await
    }

    /// Reads a list of many runs, in as many messages as they need. All of it is checked before the
    /// first.
    async fn read_long(
        &self,
        transfer: &Transfer,
        runs: &[(i64, u64)],
        buffer: &mut [u8],
    ) -> Result<u64, Error> {
        let places = places(transfer.at, runs)?;
        let memory = transfer.memory(&self.list(&places, false)?)?;
        check_room(buffer.len(), room_of(memory.as_ref(), runs))?;
        if let Some(memory) = &memory {
            memory.check_disjoint()?;
        }
        let (mut done, mut moved) = (0, 0);
        for (_, request) in self.messages(&places, false)? {
            let next = done + request.memory();
            let target = match &memory {
                None => Target::Packed(&mut buffer[done as usize..next as usize]),
                Some(memory) => Target::Patterned(&mut *buffer, memory.behind(done)),
            };
            moved += self.read_request(&request, target).await?.bytes;
            done = next;
        }
        Ok(moved)
    }

    /// Writes a list of many runs, as [`OpenView::read_long`] reads it.
    async fn write_long(
        &self,
        transfer: &Transfer,
        runs: &[(i64, u64)],
        data: Bytes,
    ) -> Result<u64, Error> {
        let places = places(transfer.at, runs)?;
        let whole = self.list(&places, false)?;
        if !transfer.last_wins {
            whole.check_disjoint()?;
        }
        let memory = transfer.memory(&whole)?;
        check_room(data.len(), room_of(memory.as_ref(), runs))?;
        let (mut done, mut moved) = (0, 0);
        for (_, request) in self.messages(&places, transfer.last_wins)? {
            let next = done + request.memory();
            let source = match &memory {
                None => Source::Packed(data.slice(done as usize..next as usize)),
                Some(memory) => Source::Patterned(data.clone(), memory.behind(done)),
            };
            let durability = transfer.durability();
            moved += self
                .write_request(&request, source, durability, transfer.last_wins)
                .await?;
            done = next;
        }
        Ok(moved)
    }
}

/// The runs of a list that lies `at` a place of the view.
fn places(at: ViewOffset, runs: &[(i64, u64)]) -> Result<Vec<(ViewOffset, usize)>, Error> {
    let place = |(displacement, bytes): &(i64, u64)| {
        let first = i128::from(at.0) + i128::from(*displacement);
        let end = first + i128::from(*bytes);
        let past = PatternError::OutOfRange { first, end };
        let place = u64::try_from(first).map_err(|_| past)?;
        let bytes = usize::try_from(*bytes).map_err(|_| past)?;
        Ok((ViewOffset(place), bytes))
    };
    runs.iter().map(place).collect()
}

/// How much memory a list needs.
fn room_of(memory: Option<&Memory>, runs: &[(i64, u64)]) -> u64 {
    let packed = || {
        runs.iter()
            .fold(0, |sum: u64, run| sum.saturating_add(run.1))
    };
    memory.map_or_else(packed, Memory::end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_takes_the_bytes_in_their_order_and_none_between() {
        let backwards = Pattern::bytes(2).every(-3).times(3);
        let packed = Transfer::of(Pattern::bytes(1).every(5).times(6)).at(ViewOffset(7));
        let mut apart = packed.clone().in_memory_from(6, backwards);
        assert!(packed.is_packed() && !apart.is_packed());
        let short = apart.pack(&Bytes::from_static(b"ab-cd-e"));
        assert!(matches!(
            short,
            Err(Error::Buffer {
                given: 7,
                needed: 8
            })
        ));
        let bytes = apart.pack(&Bytes::from_static(b"ab-cd-ef"));
        assert_eq!(&bytes.unwrap()[..], b"efcdab");
        assert_eq!(apart, packed);
        // One byte of memory for a thousand million.
        let same = Pattern::bytes(1).every(0).times(1_000_000_000);
        let broadcast = Transfer::of(Pattern::bytes(1_000_000_000)).in_memory(same);
        let mut unpacked = broadcast.clone();
        let bytes = unpacked.pack(&Bytes::from_static(b"z"));
        assert_eq!((&bytes.unwrap()[..], unpacked), (&b"z"[..], broadcast));
        let mut unequal = packed.in_memory(Pattern::bytes(5));
        assert!(unequal.pack(&Bytes::from_static(&[0; 100])).is_err());
    }
}
