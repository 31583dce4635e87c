//! Memory of the program that an operation in the background, or a write, works on.
//!
//! The client takes owned memory: a task may be cancelled at any moment, while another thread still
//! runs it. So what it gets is a *loan*, and the call that gives the memory back to the program
//! waits until every loan has ended.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use weft_client::Transfer;

use crate::failure::Failure;

/// Shorter writes are copied: that costs less than a loan.
const LEND_MIN: usize = 64 << 10;

/// How many loans of a piece of memory there are.
#[derive(Default)]
pub struct Loans {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Loans {
    /// Waits until there is none.
    pub fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.ended.wait(&mut count);
        }
    }
}

/// Memory of the program, until this is dropped.
pub struct Loan {
    first: *mut u8,
    length: usize,
    loans: Arc<Loans>,
}

// SAFETY: a loan is the only access to its memory, or all of them only read.
unsafe impl Send for Loan {}
// SAFETY: shared access only reads.
unsafe impl Sync for Loan {}

impl Loan {
    /// Lends memory to be filled.
    ///
    /// # Errors
    /// When there is none, or more than any program has.
    /// # Safety
    /// `first` points to `length` bytes that nothing else uses until [`Loans::wait`] has returned.
    pub unsafe fn new(first: *mut u8, length: usize, loans: &Arc<Loans>) -> Result<Loan, Failure> {
        if first.is_null() && length > 0 {
            return Err(Failure::invalid("the buffer is NULL"));
        }
        if length > isize::MAX as usize {
            return Err(Failure::invalid("the buffer is too long"));
        }
        *loans.count.lock() += 1;
        Ok(Loan {
            first,
            length,
            loans: Arc::clone(loans),
        })
    }

    fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the caller of `new` lends as many bytes, until this is dropped.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl AsMut<[u8]> for Loan {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and only this loan has the memory.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut count = self.loans.count.lock();
        *count -= 1;
        if *count == 0 {
            self.loans.ended.notify_all();
        }
    }
}

/// The bytes of a write: lent where the client keeps none of them beyond the call, else copied.
///
/// # Errors
/// As [`Loan::new`].
/// # Safety
/// `first` points to `length` bytes that do not change until [`Loans::wait`] has returned.
pub unsafe fn data_of(
    first: *const u8,
    length: usize,
    lend: bool,
    loans: &Arc<Loans>,
) -> Result<Bytes, Failure> {
    // SAFETY: the caller's; bytes that are written are only read.
    let loan = unsafe { Loan::new(first.cast_mut(), length, loans) }?;
    if lend && length >= LEND_MIN {
        return Ok(Bytes::from_owner(loan));
    }
    Ok(Bytes::copy_from_slice(loan.bytes()))
}

/// As [`data_of`] for the memory of a transfer, which becomes one of what is returned. Where bytes
/// are copied, only those that are written are touched: a program may have none between them.
///
/// # Errors
/// As [`Loan::new`].
/// # Safety
/// `first` points to the bytes of the transfer in a span of `length`, and they do not change until
/// [`Loans::wait`] has returned.
pub unsafe fn data_of_transfer(
    transfer: &mut Transfer,
    first: *const u8,
    length: usize,
    lend: bool,
    loans: &Arc<Loans>,
) -> Result<Bytes, Failure> {
    if transfer.is_packed() {
        // SAFETY: the caller's: the transfer has all bytes of the span.
        return unsafe { data_of(first, length, lend, loans) };
    }
    // SAFETY: the caller's; bytes that are written are only read, and those between them are not.
    let span = Bytes::from_owner(unsafe { Loan::new(first.cast_mut(), length, loans) }?);
    if lend && length >= LEND_MIN {
        return Ok(span);
    }
    // What is wrong with a transfer is said by the write itself, which collectives count.
    let packed = transfer.pack(&span);
    Ok(packed.unwrap_or_else(|_| Bytes::copy_from_slice(&span)))
}
