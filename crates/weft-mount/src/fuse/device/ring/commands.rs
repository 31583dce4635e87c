//! Entries of a ring's submission queue.

#![allow(
    unsafe_code,
    reason = "the library has no setter for the length of a command's address"
)]

use std::os::fd::RawFd;

use io_uring::squeue::Entry128;
use io_uring::{opcode, types};
use zerocopy::IntoBytes;

use super::slot::Slot;
use crate::fuse::device::abi::{RingCommand, ring};

/// Where `struct io_uring_sqe` has its field `len`.
const LENGTH_AT: usize = 24;

/// Marks the completion that wakes the thread; others carry the number of their slot.
pub(super) const WAKE: u64 = u64::MAX;

/// Hands a new slot to the kernel.
pub(super) fn register(device: RawFd, queue: u16, number: usize, slot: &Slot) -> Entry128 {
    let vectors = slot.vectors();
    let entry = opcode::UringCmd80::new(types::Fd(device), ring::REGISTER)
        .addr(Some(vectors.as_ptr() as u64))
        .cmd(argument(queue, 0))
        .build()
        .user_data(number as u64);
    with_length(entry, vectors.len() as u32)
}

/// Hands the answer in a slot to the kernel, and the slot for the next request.
pub(super) fn commit(device: RawFd, queue: u16, number: usize, commit_id: u64) -> Entry128 {
    opcode::UringCmd80::new(types::Fd(device), ring::COMMIT_AND_FETCH)
        .cmd(argument(queue, commit_id))
        .build()
        .user_data(number as u64)
}

/// Completes each time that the descriptor becomes readable.
pub(super) fn wake(descriptor: RawFd) -> Entry128 {
    let events = libc::POLLIN.cast_unsigned().into();
    let poll = opcode::PollAdd::new(types::Fd(descriptor), events).multi(true);
    Entry128::from(poll.build().user_data(WAKE))
}

fn argument(qid: u16, commit_id: u64) -> [u8; 80] {
    let command = RingCommand {
        commit_id,
        qid,
        ..RingCommand::default()
    };
    let mut bytes = [0; 80];
    bytes[..size_of::<RingCommand>()].copy_from_slice(command.as_bytes());
    bytes
}

fn with_length(mut entry: Entry128, length: u32) -> Entry128 {
    let bytes = (&raw mut entry).cast::<u8>();
    // SAFETY: the library declares the entry as the kernel's 128 bytes, of which every pattern is
    // valid, and the field lies within them.
    unsafe {
        bytes.add(LENGTH_AT).cast::<u32>().write_unaligned(length);
    }
    entry
}
