//! List requests: many runs of a view, each with a separate buffer, in one call.

use std::ops::Range;

use bytes::Bytes;
use weft_layout::{Pattern, Request, RequestNodeKind, ViewOffset};
use weft_proto::limits;

use super::span::{Durability, Source, Target};
use crate::{Error, OpenView};

/// Runs of one message, equal ones at equal distances counted once: with the longest encodings of
/// all their numbers they fit a body.
pub(crate) const RUNS_MAX: usize = 16 << 10;
const _: () = assert!(RUNS_MAX <= limits::LIST_MAX && RUNS_MAX * 50 < limits::BODY_MAX as usize);

impl OpenView {
    /// Reads many runs, each into its buffer: one request to each server that holds any of them
    /// (for more than some ten thousand runs without any order, one for each so many). Ghosts and
    /// holes as for [`OpenView::read_at`].
    ///
    /// Returns the number of bytes moved.
    /// # Cancellation
    /// Dropped, the servers stop; the memory may be partly filled.
    pub async fn read_list(&self, list: &mut [(ViewOffset, &mut [u8])]) -> Result<u64, Error> {
        let mut moved = 0;
        let places: Vec<_> = list.iter().map(|(at, run)| (*at, run.len())).collect();
        for (range, request) in self.messages(&places, false)? {
            let target = Target::parts(list[range].iter_mut().map(|(_, run)| &mut **run));
            moved += self.read_request(&request, target).await?.bytes;
        }
        Ok(moved)
    }

    /// Writes many runs: one request to each server that holds any of them (for more than some ten
    /// thousand runs without any order, one for each so many). The runs may be in any order; they
    /// must not overlap.
    ///
    /// Returns the number of bytes moved.
    /// # Durability
    /// On return the bytes survive the death of any server's process;
    /// [`File::sync`](crate::File::sync) makes them survive power loss.
    /// # Errors
    /// [`Error::Pattern`] when runs overlap; nothing was written then. [`Error::MayHaveHappened`]
    /// as for [`OpenView::write_at`].
    /// # Cancellation
    /// Dropped, any part of the bytes may have been written.
    pub async fn write_list(&self, list: &[(ViewOffset, Bytes)]) -> Result<u64, Error> {
        self.write_runs(list, Durability::Process, false).await
    }

    /// As [`OpenView::write_list`], and on return the bytes survive power loss; still one request
    /// to each server.
    pub async fn write_list_synced(&self, list: &[(ViewOffset, Bytes)]) -> Result<u64, Error> {
        self.write_runs(list, Durability::Power, false).await
    }

    /// As [`OpenView::write_list`]; runs may overlap, and where they do, the later one stays.
    pub async fn write_list_last_wins(&self, list: &[(ViewOffset, Bytes)]) -> Result<u64, Error> {
        self.write_runs(list, Durability::Process, true).await
    }

    async fn write_runs(
        &self,
        list: &[(ViewOffset, Bytes)],
        durability: Durability,
        last_wins: bool,
    ) -> Result<u64, Error> {
        let places: Vec<_> = list.iter().map(|(at, run)| (*at, run.len())).collect();
        if !last_wins {
            self.list(&places, false)?.check_disjoint()?;
        }
        let mut moved = 0;
        for (range, request) in self.messages(&places, last_wins)? {
            let source = Source::parts(list[range].iter().map(|(_, run)| run.clone()));
            moved += self
                .write_request(&request, source, durability, last_wins)
                .await?;
        }
        Ok(moved)
    }

    /// The messages that these runs need, in their order: one, unless so many runs follow no rhythm
    /// that they do not fit it.
    pub(crate) fn messages(
        &self,
        places: &[(ViewOffset, usize)],
        in_order: bool,
    ) -> Result<Vec<(Range<usize>, Request)>, Error> {
        let mut messages = Vec::new();
        let mut left: Vec<Range<usize>> = std::iter::once(0..places.len()).collect();
        while let Some(range) = left.pop() {
            if range.is_empty() {
                continue;
            }
            let request = self.list(&places[range.clone()], in_order)?;
            if range.len() <= RUNS_MAX || self.runs_of(&request) <= RUNS_MAX {
                messages.push((range, request));
                continue;
            }
            let middle = range.start + range.len() / 2;
            left.extend([middle..range.end, range.start..middle]);
        }
        Ok(messages)
    }

    /// Runs of a request as it travels.
    fn runs_of(&self, request: &Request) -> usize {
        let (_, nodes) = request.to_nodes(!self.map.rearranges());
        let runs = nodes.iter().map(|node| match &node.kind {
            RequestNodeKind::Runs(runs) => runs.len(),
            RequestNodeKind::Repeat { .. } | RequestNodeKind::Sequence(_) => 0,
        });
        runs.sum()
    }

    pub(crate) fn list(
        &self,
        places: &[(ViewOffset, usize)],
        in_order: bool,
    ) -> Result<Request, Error> {
        let runs = places.iter().map(|(at, length)| {
            // Past the limit either way, and refused as such.
            let at = i64::try_from(at.0).unwrap_or(i64::MAX);
            (at, *length as u64)
        });
        let pattern = Pattern::list(runs);
        Ok(if in_order {
            Request::new(ViewOffset(0), &pattern)?
        } else {
            Request::sorted(ViewOffset(0), &pattern, !self.map.rearranges())?
        })
    }
}
