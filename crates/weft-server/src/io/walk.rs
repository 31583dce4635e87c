//! Going over the pieces of a request a little at a time.
//!
//! A message of some hundred bytes can name a billion pieces, of which other servers may have all.
//! So whoever counts them, or looks for the next, does so in slices, lets others have the thread in
//! between, and stops when nobody waits for it.

use std::collections::BTreeSet;

use tokio::task::yield_now;
use weft_layout::{CellIndex, CellLengths, Cutter, Pieces};
use weft_net::{Caller, Gone};
use weft_proto::{Code, Failure};

use super::Job;

/// Steps of one slice: some milliseconds at most.
pub(super) const STEPS: u32 = 64 << 10;

/// Those who wait for a job's answer.
pub(super) struct Callers(Vec<Caller>);

impl Callers {
    pub(super) fn of(callers: impl IntoIterator<Item = Caller>) -> Callers {
        Callers(callers.into_iter().collect())
    }

    /// Whether nobody waits any more.
    pub(super) fn gone(&self) -> bool {
        self.0.iter().all(Caller::gone)
    }
}

/// What a caller who is gone will not hear.
pub(super) fn nobody_waits(_: Gone) -> Failure {
    Failure::new(Code::Cancelled, "nobody waits for this any more")
}

/// Goes on until the search is over, which counts down the steps it may take at a time.
pub(super) async fn until<T>(
    callers: &Callers,
    mut search: impl FnMut(&mut u32) -> Option<T>,
) -> Result<T, Gone> {
    loop {
        if let Some(found) = search(&mut { STEPS }) {
            return Ok(found);
        }
        yield_now().await;
        if callers.gone() {
            return Err(Gone);
        }
    }
}

/// Bytes of the pieces below the lengths of their cells.
pub(super) async fn bytes_of(
    pieces: Pieces,
    lengths: impl CellLengths,
    callers: &Callers,
) -> Result<u64, Gone> {
    let (mut cutter, mut sum) = (Cutter::new(pieces, lengths), 0);
    let count = |steps: &mut u32| {
        while cutter.look(steps)? {
            sum += cutter.next(u64::MAX).map_or(0, |stretch| stretch.bytes());
        }
        Some(sum)
    };
    until(callers, count).await
}

/// Adds the cells that the job touches here.
pub(super) async fn touched(
    job: &Job,
    seen: &mut BTreeSet<CellIndex>,
    callers: &Callers,
) -> Result<(), Failure> {
    let own = job.map.grid().cells_on(job.slot).count();
    let mut cutter = Cutter::whole(job.pieces()?);
    let look = |steps: &mut u32| {
        while seen.len() < own && cutter.look(steps)? {
            seen.extend(cutter.next(u64::MAX).map(|stretch| stretch.cell));
        }
        Some(())
    };
    until(callers, look).await.map_err(nobody_waits)
}
