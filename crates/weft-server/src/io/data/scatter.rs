//! Distributes the stream of a write over its pieces.

use bytes::Bytes;
use weft_layout::{CellIndex, Endless, Splitter};
use weft_proto::Failure;
use weft_store::{Run, Scattered};

use crate::failure;
use crate::io::job::Job;
use crate::io::job::walk::{self, Callers};
use crate::limits::WALK_STEPS;

/// Distributes a stream over pieces.
pub(super) struct Scatterer {
    splitter: Splitter<Endless>,
    chunk: u32,
    /// The request may touch bytes twice, so writes stay in stream order; otherwise the disk's
    /// order is better.
    ordered: bool,
}

impl Scatterer {
    /// At the beginning of a stream.
    pub(super) fn new(job: &Job, chunk: u32, ordered: bool) -> Result<Scatterer, Failure> {
        Ok(Scatterer {
            splitter: Splitter::whole(job.pieces()?),
            chunk,
            ordered,
        })
    }

    /// The writes for the next bytes of the stream: one for each cell, or in stream order.
    pub(super) async fn scatter(
        &mut self,
        job: &Job,
        data: &Bytes,
        callers: &Callers,
    ) -> Result<Vec<Scattered>, Failure> {
        let mut runs: Vec<(CellIndex, Run)> = Vec::new();
        let (mut at, mut steps) = (0, WALK_STEPS);
        while at < data.len() {
            if self.splitter.look(&mut steps).is_none() {
                self.is_done(callers).await?;
                steps = WALK_STEPS;
            }
            let Some(strided) = self.splitter.next((data.len() - at) as u64) else {
                return Err(failure::invalid(format!(
                    "the payload is {} bytes longer than the request's pieces",
                    data.len() - at
                )));
            };
            let run = Run {
                offset: strided.offset,
                at,
                length: strided.length,
                count: strided.count,
                stride: strided.stride,
            };
            at += strided.bytes() as usize;
            let last = runs.last_mut().filter(|(cell, _)| *cell == strided.cell);
            if !last.is_some_and(|(_, last)| last.join(&run)) {
                runs.push((strided.cell, run));
            }
        }
        let place = |r: &(CellIndex, Run)| (r.0, r.1.offset);
        if !self.ordered && !runs.is_sorted_by_key(place) {
            runs.sort_unstable_by_key(place);
        }
        let cells = runs.chunk_by(|a, b| a.0 == b.0);
        Ok(cells
            .map(|runs| Scattered {
                key: job.key(runs[0].0),
                chunk: self.chunk,
                runs: runs.iter().map(|(_, run)| *run).collect(),
                data: data.clone(),
            })
            .collect())
    }

    /// Whether all pieces are filled.
    pub(super) async fn is_done(&mut self, callers: &Callers) -> Result<bool, Failure> {
        let more = walk::until(callers, |steps| self.splitter.look(steps)).await;
        Ok(!more.map_err(walk::abandoned)?)
    }
}
