//! Memory for one request and its answer.

#![allow(
    unsafe_code,
    reason = "the kernel reads and writes this memory between a command and its completion"
)]

use std::cell::UnsafeCell;

use bytes::Bytes;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::fuse::device::abi::{InHeader, OutHeader, RingHeader, opcode};
use crate::fuse::device::buffers::Buffers;
use crate::fuse::device::incoming::Incoming;
use crate::limits::ZERO_COPY_WRITE_MIN;

/// A slot. The kernel has it from a command until the command completes, the mount from then until
/// the next command.
#[derive(Debug)]
pub(super) struct Slot {
    header: Box<UnsafeCell<RingHeader>>,
    payload: UnsafeCell<Box<[u8]>>,
    /// Header and payload; the kernel reads them when the slot is registered.
    vectors: [libc::iovec; 2],
}

/// The numbers that an answer must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestNumbers {
    /// The request's.
    pub(super) unique: u64,
    /// The slot's, for this request.
    pub(super) commit_id: u64,
}

// SAFETY: the vectors point into the other two fields; those are used by one side at a time, which
// the callers of the unsafe functions promise.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// A slot for requests and answers of `length` bytes. Costs no memory until it is used.
    pub(super) fn new(length: usize) -> Slot {
        let header = Box::new(UnsafeCell::new(RingHeader::new_zeroed()));
        let mut payload = vec![0; length].into_boxed_slice();
        let vectors = [
            libc::iovec {
                iov_base: header.get().cast(),
                iov_len: size_of::<RingHeader>(),
            },
            libc::iovec {
                iov_base: payload.as_mut_ptr().cast(),
                iov_len: length,
            },
        ];
        Slot {
            header,
            payload: UnsafeCell::new(payload),
            vectors,
        }
    }

    /// For the command that registers the slot.
    pub(super) fn vectors(&self) -> &[libc::iovec; 2] {
        &self.vectors
    }

    /// The request in the slot; `None` if its lengths do not add up.
    ///
    /// # Safety
    /// The slot's last command has completed, and no answer has been given since.
    pub(super) unsafe fn request(&self, buffers: &Buffers) -> (RequestNumbers, Option<Incoming>) {
        // SAFETY: the kernel does not use the slot now, as the caller promises.
        let (slot, payload) = unsafe { (&*self.header.get(), &**self.payload.get()) };
        let header = InHeader::read_from_prefix(&slot.in_out).map(|(header, _)| header);
        let header = header.unwrap_or_default();
        let numbers = RequestNumbers {
            unique: header.unique,
            commit_id: slot.slot.commit_id,
        };
        let length = slot.slot.payload_sz as usize;
        let fixed = (header.len as usize).checked_sub(size_of::<InHeader>() + length);
        let fixed = fixed.and_then(|fixed| slot.op_in.get(..fixed));
        let incoming = fixed.zip(payload.get(..length)).map(|(fixed, payload)| {
            let (body, data) = if header.opcode == opcode::WRITE {
                (fixed.to_vec(), data(payload, buffers))
            } else {
                ([fixed, payload].concat(), Bytes::new())
            };
            Incoming { header, body, data }
        });
        (numbers, incoming)
    }

    /// Puts an answer into the slot; `EIO`, and false, if it does not fit.
    ///
    /// # Safety
    /// As for [`Slot::request`].
    pub(super) unsafe fn answer(&self, unique: u64, error: i32, body: &[&[u8]]) -> bool {
        // SAFETY: the kernel does not use the slot now, as the caller promises.
        let (slot, payload) = unsafe { (&mut *self.header.get(), &mut **self.payload.get()) };
        let fits = body.iter().map(|part| part.len()).sum::<usize>() <= payload.len();
        let (error, body) = if fits {
            (error, body)
        } else {
            (-libc::EIO, &[][..])
        };
        let mut at = 0;
        for part in body {
            payload[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        // A slot is shorter than 4 GiB.
        let header = OutHeader::of(unique, error, body).unwrap_or_default();
        slot.in_out[..size_of::<OutHeader>()].copy_from_slice(header.as_bytes());
        slot.slot.payload_sz = at as u32;
        fits
    }
}

/// The data of a WRITE, in memory of its own.
fn data(payload: &[u8], buffers: &Buffers) -> Bytes {
    if payload.len() < ZERO_COPY_WRITE_MIN {
        return Bytes::copy_from_slice(payload);
    }
    let mut buffer = buffers.take();
    if payload.len() < buffer.length() / 2 {
        return Bytes::copy_from_slice(payload);
    }
    buffer.as_mut()[..payload.len()].copy_from_slice(payload);
    buffer.freeze(payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::device::abi::{RingSlot, WriteIn};

    fn filled(number: u32, fixed: &[u8], payload: &[u8], len: usize) -> Slot {
        let mut slot = Slot::new(1000);
        let header = slot.header.get_mut();
        let of_request = InHeader {
            len: len as u32,
            opcode: number,
            unique: 6,
            ..InHeader::default()
        };
        header.in_out[..size_of::<InHeader>()].copy_from_slice(of_request.as_bytes());
        header.op_in[..fixed.len()].copy_from_slice(fixed);
        header.slot = RingSlot {
            commit_id: 9,
            payload_sz: payload.len() as u32,
            ..RingSlot::default()
        };
        let room = payload.len().min(1000);
        slot.payload.get_mut()[..room].copy_from_slice(&payload[..room]);
        slot
    }

    fn request(slot: &Slot) -> Option<Incoming> {
        // SAFETY: no kernel knows the slot.
        let (numbers, incoming) = unsafe { slot.request(&Buffers::new(1000)) };
        assert_eq!((numbers.unique, numbers.commit_id), (6, 9));
        incoming
    }

    #[test]
    fn a_request_is_its_fixed_part_and_what_follows() {
        let slot = filled(opcode::LOOKUP, &[], b"name\0", 45);
        assert_eq!(request(&slot).unwrap().body, b"name\0");
        let slot = filled(opcode::MKDIR, &[7; 8], b"d\0", 50);
        assert_eq!(
            request(&slot).unwrap().body,
            [7, 7, 7, 7, 7, 7, 7, 7, b'd', 0]
        );
    }

    #[test]
    fn the_data_of_a_write_is_apart() {
        let fixed = WriteIn {
            size: 3,
            ..WriteIn::default()
        };
        let slot = filled(opcode::WRITE, fixed.as_bytes(), b"abc", 83);
        let incoming = request(&slot).unwrap();
        assert_eq!(
            (&incoming.data[..], incoming.write().unwrap().size),
            (&b"abc"[..], 3)
        );
    }

    #[test]
    fn lengths_that_do_not_add_up_make_no_request() {
        for (fixed, payload, len) in [(8, 1, 49), (8, 2, 40), (8, 1001, 1049), (8, 2, 500)] {
            let slot = filled(opcode::MKDIR, &vec![0; fixed], &vec![0; payload], len);
            assert_eq!(
                request(&slot).is_some(),
                len == 49,
                "{fixed} {payload} {len}"
            );
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_refused() {
        let slot = Slot::new(10);
        // SAFETY: no kernel knows the slot.
        let fits = |body: &[&[u8]]| unsafe { slot.answer(6, 0, body) };
        assert!(fits(&[b"12345", b"67890"]) && fits(&[]));
        assert!(!fits(&[b"12345", b"67890", b"1"]));
    }
}
