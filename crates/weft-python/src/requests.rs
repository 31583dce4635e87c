//! Structured requests, lists and collectives of a view, and the same in the background.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_client::{OpenView, Transfer};
use weft_ffi::{Failure, Loan, Loans, Posted, data_of, data_of_transfer};
use weft_layout::ViewOffset;

use crate::buffer::{Buffer, offset_of};
use crate::errors::exception;
use crate::group::Group;
use crate::operation::Operation;
use crate::pattern::Pattern;
use crate::view::{View, lends};
use crate::waiting::wait;

/// Which bytes, in the file and in memory. Without a pattern in memory, the buffer is packed.
fn transfer_of(
    offset: u64,
    pattern: &Pattern,
    memory: Option<&Pattern>,
    first: usize,
) -> PyResult<Transfer> {
    let transfer = Transfer::of(pattern.0.clone()).at(offset_of(offset)?);
    Ok(match memory {
        None => transfer,
        Some(memory) => transfer.in_memory_from(first as u64, memory.0.clone()),
    })
}

/// The exported memory of a call, and its transfer.
struct Prepared {
    buffer: Buffer,
    first: *mut u8,
    length: usize,
    transfer: Transfer,
}

fn prepared(
    buffer: &Bound<'_, PyAny>,
    fill: bool,
    offset: u64,
    pattern: &Pattern,
    memory: Option<&Pattern>,
) -> PyResult<Prepared> {
    let buffer = match memory {
        None if fill => Buffer::writable(buffer)?,
        None => Buffer::readable(buffer)?,
        Some(_) => Buffer::strided(buffer, fill)?,
    };
    let (first, length, at) = buffer.extent()?;
    let transfer = transfer_of(offset, pattern, memory, at)?;
    Ok(Prepared {
        buffer,
        first,
        length,
        transfer,
    })
}

impl Prepared {
    fn flagged(mut self, synced: bool, last_wins: bool) -> Prepared {
        if synced {
            self.transfer = self.transfer.synced();
        }
        if last_wins {
            self.transfer = self.transfer.last_wins();
        }
        self
    }

    fn loan(&self, loans: &Arc<Loans>) -> Result<Loan, Failure> {
        // SAFETY: the memory is exported as long as the buffer lives, which is until the loans have
        // ended.
        unsafe { Loan::new(self.first, self.length, loans) }
    }

    fn data(&mut self, view: &OpenView, loans: &Arc<Loans>) -> Result<Bytes, Failure> {
        let lend = lends(view);
        // SAFETY: as in `loan`.
        unsafe { data_of_transfer(&mut self.transfer, self.first, self.length, lend, loans) }
    }
}

#[pymethods]
impl View {
    /// Reads the bytes of a pattern. Returns how many were moved.
    #[pyo3(signature = (buffer, pattern, offset=0, *, memory=None, group=None))]
    fn read_request(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        pattern: &Pattern,
        offset: u64,
        memory: Option<&Pattern>,
        group: Option<&Group>,
    ) -> PyResult<u64> {
        let view = in_step(group, self.here(py))?;
        let refused = |failure| exception(&failure, Some(self.path()));
        let prepared = in_step(group, prepared(buffer, true, offset, pattern, memory))?;
        let loans = Arc::new(Loans::default());
        let mut loan = in_step(group, prepared.loan(&loans).map_err(refused))?;
        wait(py, Some(self.path()), async {
            let (transfer, memory) = (&prepared.transfer, loan.as_mut());
            match group {
                None => view.read_with(transfer, memory).await,
                Some(group) => {
                    let read = view.collective(&group.0).read(transfer, memory).await;
                    read.map(|collected| collected.bytes)
                }
            }
        })
    }

    /// Writes the bytes of a pattern. Returns how many were moved.
    #[pyo3(signature = (data, pattern, offset=0, *, memory=None, group=None, synced=false,
        last_wins=false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn write_request(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        pattern: &Pattern,
        offset: u64,
        memory: Option<&Pattern>,
        group: Option<&Group>,
        synced: bool,
        last_wins: bool,
    ) -> PyResult<u64> {
        let view = in_step(group, self.here(py))?;
        let mut prepared = in_step(group, prepared(data, false, offset, pattern, memory))?
            .flagged(synced, last_wins);
        let loans = Arc::new(Loans::default());
        let data = prepared.data(&view, &loans);
        let data = in_step(
            group,
            data.map_err(|failure| exception(&failure, Some(self.path()))),
        )?;
        let transfer = &prepared.transfer;
        let written = wait(py, Some(self.path()), async {
            match group {
                None => view.write_with(transfer, data).await,
                Some(group) => {
                    let written = view.collective(&group.0).write(transfer, data).await;
                    written.map(|collected| collected.bytes)
                }
            }
        });
        py.detach(|| loans.wait());
        written
    }

    /// Reads runs of the view, each into a buffer of its own: one request to each server.
    fn read_list(&self, py: Python<'_>, runs: Vec<(u64, Bound<'_, PyAny>)>) -> PyResult<u64> {
        let view = self.here(py)?;
        let (buffers, mut lent) = lend(&runs, self.path())?;
        let mut list: Vec<(ViewOffset, &mut [u8])> = lent
            .iter_mut()
            .map(|(at, loan)| (*at, loan.as_mut()))
            .collect();
        let read = wait(py, Some(self.path()), view.read_list(&mut list));
        drop(lent);
        drop(buffers);
        read
    }

    /// Writes runs of the view, each from a buffer of its own: one request to each server.
    #[pyo3(signature = (runs, *, synced=false, last_wins=false))]
    fn write_list(
        &self,
        py: Python<'_>,
        runs: Vec<(u64, Bound<'_, PyAny>)>,
        synced: bool,
        last_wins: bool,
    ) -> PyResult<u64> {
        if synced && last_wins {
            return Err(PyValueError::new_err(
                "synced or last_wins, not both: sync the file",
            ));
        }
        let view = self.here(py)?;
        let loans = Arc::new(Loans::default());
        let (mut buffers, mut list) = (Vec::new(), Vec::new());
        for (offset, run) in &runs {
            let buffer = Buffer::readable(run)?;
            // SAFETY: the buffers are exported until the loans have ended, below.
            let data = unsafe { data_of(buffer.start(), buffer.length(), lends(&view), &loans) };
            let data = data.map_err(|failure| exception(&failure, Some(self.path())))?;
            list.push((offset_of(*offset)?, data));
            buffers.push(buffer);
        }
        let written = wait(py, Some(self.path()), async {
            match (synced, last_wins) {
                (true, _) => view.write_list_synced(&list).await,
                (_, true) => view.write_list_last_wins(&list).await,
                _ => view.write_list(&list).await,
            }
        });
        drop(list);
        py.detach(|| loans.wait());
        drop(buffers);
        written
    }

    /// Posts `read_request`. Never waits.
    #[pyo3(signature = (buffer, pattern, offset=0, *, memory=None, group=None))]
    fn post_read(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        pattern: &Pattern,
        offset: u64,
        memory: Option<&Pattern>,
        group: Option<&Group>,
    ) -> PyResult<Operation> {
        let view = in_step(group, self.here(py))?;
        let prepared = in_step(group, prepared(buffer, true, offset, pattern, memory))?;
        let loans = Arc::new(Loans::default());
        let refused = |failure| exception(&failure, Some(self.path()));
        let loan = in_step(group, prepared.loan(&loans).map_err(refused))?;
        let _context = weft_ffi::runtime().map_err(refused)?.enter();
        let posted = match group {
            None => {
                let posted = view.post_read_with(prepared.transfer, loan);
                Posted::new(loans, posted, |outcome| outcome.bytes)
            }
            Some(group) => {
                let posted = view.collective(&group.0).post_read(prepared.transfer, loan);
                Posted::new(loans, posted, |(collected, _)| collected.bytes)
            }
        };
        Ok(Operation::new(posted, Some(prepared.buffer), self.path()))
    }

    /// Posts `write_request`. Never waits.
    #[pyo3(signature = (data, pattern, offset=0, *, memory=None, group=None, synced=false,
        last_wins=false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn post_write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        pattern: &Pattern,
        offset: u64,
        memory: Option<&Pattern>,
        group: Option<&Group>,
        synced: bool,
        last_wins: bool,
    ) -> PyResult<Operation> {
        let view = in_step(group, self.here(py))?;
        let mut prepared = in_step(group, prepared(data, false, offset, pattern, memory))?
            .flagged(synced, last_wins);
        let loans = Arc::new(Loans::default());
        let refused = |failure| exception(&failure, Some(self.path()));
        let data = in_step(group, prepared.data(&view, &loans).map_err(refused))?;
        let _context = weft_ffi::runtime().map_err(refused)?.enter();
        let posted = match group {
            None => {
                let posted = view.post_write_with(prepared.transfer, data);
                Posted::new(loans, posted, |outcome| outcome.bytes)
            }
            Some(group) => {
                let posted = view
                    .collective(&group.0)
                    .post_write(prepared.transfer, data);
                Posted::new(loans, posted, |collected| collected.bytes)
            }
        };
        Ok(Operation::new(posted, Some(prepared.buffer), self.path()))
    }

    /// Posts a sync of the file. Never waits.
    fn post_sync(&self, py: Python<'_>) -> PyResult<Operation> {
        let view = self.here(py)?;
        let runtime = weft_ffi::runtime();
        let runtime = runtime.map_err(|failure| exception(&failure, Some(self.path())))?;
        let _context = runtime.enter();
        let posted = Posted::new(Arc::default(), view.post_sync(), |outcome| outcome.bytes);
        Ok(Operation::new(posted, None, self.path()))
    }
}

/// The arguments of a collective. Where they are refused, the collective counts nevertheless: this
/// member stays in step.
fn in_step<T>(group: Option<&Group>, arguments: PyResult<T>) -> PyResult<T> {
    if let (Some(group), Err(_)) = (group, &arguments) {
        group.0.skip();
    }
    arguments
}

type Lent = (Vec<Buffer>, Vec<(ViewOffset, Loan)>);

/// Exports and lends the buffers of a list, to be filled.
fn lend(runs: &[(u64, Bound<'_, PyAny>)], path: &str) -> PyResult<Lent> {
    let loans = Arc::new(Loans::default());
    let (mut buffers, mut lent) = (Vec::new(), Vec::new());
    for (offset, run) in runs {
        let buffer = Buffer::writable(run)?;
        // SAFETY: the caller keeps the buffers until the call has ended.
        let loan = unsafe { Loan::new(buffer.start(), buffer.length(), &loans) };
        let loan = loan.map_err(|failure| exception(&failure, Some(path)))?;
        lent.push((offset_of(*offset)?, loan));
        buffers.push(buffer);
    }
    Ok((buffers, lent))
}
