//! Walks over the pieces of a request, a bounded number of steps at a time.
//!
//! A message of some hundred bytes can name a billion pieces, of which other servers may have all.
//! So code that counts pieces, or searches for the next one, works in slices of steps, yields its
//! thread in between, and stops when no caller is left.

use std::collections::BTreeSet;

use tokio::task::yield_now;
use weft_layout::{CellIndex, CellLengths, Pieces, Splitter};
use weft_net::{Caller, Gone};
use weft_proto::{Code, Failure};

use super::Job;
use crate::limits::WALK_STEPS;

/// The callers that wait for a job.
pub(in crate::io) struct Callers(Vec<Caller>);

impl Callers {
    pub(in crate::io) fn of(callers: impl IntoIterator<Item = Caller>) -> Callers {
        Callers(callers.into_iter().collect())
    }

    /// Whether none is left.
    pub(in crate::io) fn gone(&self) -> bool {
        self.0.iter().all(Caller::gone)
    }
}

/// The failure of a job without callers.
pub(in crate::io) fn abandoned(_: Gone) -> Failure {
    Failure::new(Code::Cancelled, "the caller has gone away")
}

/// Repeats `search`, which counts down the steps that it may take, until it answers.
///
/// # Errors
/// [`Gone`] when no caller is left.
pub(in crate::io) async fn until<T>(
    callers: &Callers,
    mut search: impl FnMut(&mut u32) -> Option<T>,
) -> Result<T, Gone> {
    loop {
        if let Some(found) = search(&mut { WALK_STEPS }) {
            return Ok(found);
        }
        yield_now().await;
        if callers.gone() {
            return Err(Gone);
        }
    }
}

/// Counts the bytes of the pieces, up to the lengths of their cells.
pub(in crate::io) async fn bytes_of(
    pieces: Pieces,
    lengths: impl CellLengths,
    callers: &Callers,
) -> Result<u64, Gone> {
    let (mut splitter, mut sum) = (Splitter::new(pieces, lengths), 0);
    let count = |steps: &mut u32| {
        while splitter.look(steps)? {
            sum += splitter.next(u64::MAX).map_or(0, |strided| strided.bytes());
        }
        Some(sum)
    };
    until(callers, count).await
}

/// Adds the server's cells that the job touches to `seen`.
pub(in crate::io) async fn touched(
    job: &Job,
    seen: &mut BTreeSet<CellIndex>,
    callers: &Callers,
) -> Result<(), Failure> {
    let cells = job.map.grid().cells_on(job.slot).count();
    let mut splitter = Splitter::whole(job.pieces()?);
    let look = |steps: &mut u32| {
        while seen.len() < cells && splitter.look(steps)? {
            seen.extend(splitter.next(u64::MAX).map(|strided| strided.cell));
        }
        Some(())
    };
    until(callers, look).await.map_err(abandoned)
}
