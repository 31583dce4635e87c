//! The claims on each file, in the order in which they came.
//!
//! Invariant: two granted claims on a file overlap only if both are shared, and no claim is granted
//! before an earlier one that conflicts with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::{Code, Failure};

use super::extents::Extents;
use crate::limits::CLAIMS_MAX;

/// Whether operations with the claim may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) enum Mode {
    /// Those of readers.
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Waiting,
    Granted(Instant),
    /// It was granted for so long that others no longer wait for it.
    Revoked,
}

/// A claim in the order of its file.
struct Entry {
    ticket: u64,
    operation: u64,
    mode: Mode,
    extents: Extents,
    status: watch::Sender<Status>,
}

impl Entry {
    fn conflicts(&self, mode: Mode, extents: &Extents) -> bool {
        let exclusive = self.mode == Mode::Exclusive || mode == Mode::Exclusive;
        exclusive && self.extents.overlaps(extents)
    }

    fn is_waiting(&self) -> bool {
        *self.status.borrow() == Status::Waiting
    }
}

#[derive(Default)]
struct Table {
    last_ticket: u64,
    by_file: HashMap<FileId, Vec<Entry>>,
}

/// The claims on all files of one server.
#[derive(Clone, Default)]
pub(in crate::io) struct Schedules(Arc<Mutex<Table>>);

/// A place in the order of a file. Dropped, it lets later operations go on.
pub(in crate::io) struct Claim {
    schedules: Schedules,
    file: FileId,
    ticket: u64,
    status: watch::Receiver<Status>,
}

impl Schedules {
    /// A claim that is granted at once, or `None`.
    pub(super) fn try_claim(
        &self,
        file: FileId,
        operation: u64,
        mode: Mode,
        extents: &Extents,
    ) -> Option<Claim> {
        let mut table = self.0.lock();
        let claims = table.by_file.get(&file);
        if claims.is_some_and(|claims| claims.iter().any(|c| c.conflicts(mode, extents))) {
            return None;
        }
        self.add(&mut table, file, operation, mode, extents).ok()
    }

    /// A claim that waits for the earlier ones that conflict with it.
    ///
    /// # Errors
    /// [`Code::Busy`] if too many wait.
    pub(super) fn claim(
        &self,
        file: FileId,
        operation: u64,
        mode: Mode,
        extents: &Extents,
    ) -> Result<Claim, Failure> {
        self.add(&mut self.0.lock(), file, operation, mode, extents)
    }

    /// Whether an operation that changes the file has a claim, or waits for one.
    pub(in crate::io) fn is_changing(&self, file: FileId) -> bool {
        let table = self.0.lock();
        let claims = table.by_file.get(&file);
        claims.is_some_and(|claims| claims.iter().any(|c| c.mode == Mode::Exclusive))
    }

    fn add(
        &self,
        table: &mut Table,
        file: FileId,
        operation: u64,
        mode: Mode,
        extents: &Extents,
    ) -> Result<Claim, Failure> {
        table.last_ticket += 1;
        let ticket = table.last_ticket;
        let claims = table.by_file.entry(file).or_default();
        if claims.len() >= CLAIMS_MAX {
            let what = format!("{CLAIMS_MAX} operations on the file wait for one another");
            return Err(Failure::new(Code::Busy, what));
        }
        let free = !claims.iter().any(|c| c.conflicts(mode, extents));
        let first = if free {
            Status::Granted(Instant::now())
        } else {
            Status::Waiting
        };
        let (sender, status) = watch::channel(first);
        claims.push(Entry {
            ticket,
            operation,
            mode,
            extents: extents.clone(),
            status: sender,
        });
        Ok(Claim {
            schedules: self.clone(),
            file,
            ticket,
            status,
        })
    }

    fn remove(&self, file: FileId, ticket: u64) {
        let mut table = self.0.lock();
        let Some(claims) = table.by_file.get_mut(&file) else {
            return;
        };
        let Some(at) = claims.iter().position(|claim| claim.ticket == ticket) else {
            return;
        };
        let ended = claims.remove(at);
        if claims.is_empty() {
            table.by_file.remove(&file);
            return;
        }
        for i in at..claims.len() {
            let (earlier, later) = claims.split_at(i);
            let claim = &later[0];
            if claim.is_waiting()
                && ended.conflicts(claim.mode, &claim.extents)
                && !(earlier.iter()).any(|e| e.conflicts(claim.mode, &claim.extents))
            {
                claim.status.send_replace(Status::Granted(Instant::now()));
            }
        }
    }

    /// How many claims there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().by_file.values().map(Vec::len).sum()
    }
}

impl Claim {
    /// Waits until it is granted.
    pub(super) async fn granted(&mut self) {
        // The sender is in the table as long as the claim exists.
        let _ = self.status.wait_for(|s| *s != Status::Waiting).await;
    }

    /// Waits until it is taken away because others wait for it.
    pub(in crate::io) async fn revoked(&self) {
        let mut status = self.status.clone();
        let _ = status.wait_for(|s| *s == Status::Revoked).await;
    }

    /// Whether it has been taken away.
    pub(super) fn is_revoked(&self) -> bool {
        *self.status.borrow() == Status::Revoked
    }

    /// Takes the granted claims away that are in the way of this one and older than `age`. Returns
    /// their operations.
    pub(super) fn revoke_older(&self, age: Duration) -> Vec<u64> {
        let table = self.schedules.0.lock();
        let claims = table.by_file.get(&self.file).map_or(&[][..], Vec::as_slice);
        let own = claims.iter().position(|claim| claim.ticket == self.ticket);
        let (earlier, own) = claims.split_at(own.unwrap_or(0));
        let Some(own) = own.first() else {
            return Vec::new();
        };
        let old = |claim: &&Entry| {
            let status = *claim.status.borrow();
            let old = match status {
                Status::Granted(since) => since.elapsed() >= age,
                Status::Revoked => true,
                Status::Waiting => false,
            };
            old && claim.conflicts(own.mode, &own.extents)
        };
        let old = earlier.iter().filter(old);
        let revoke = |claim: &Entry| {
            claim.status.send_replace(Status::Revoked);
            claim.operation
        };
        old.map(revoke).collect()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.schedules.remove(self.file, self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::order::extents::ForkExtents;
    use futures_util::FutureExt;
    use weft_layout::{CellIndex, CellOffset, StridedPieces};
    use weft_store::ForkName;

    const FILE: FileId = FileId(7);

    fn bytes(offset: u64, length: u64) -> Extents {
        let mut extents = ForkExtents::new(ForkName::data());
        extents.add(&StridedPieces {
            cell: CellIndex(0),
            offset: CellOffset(offset),
            length,
            memory: 0,
            count: 1,
            stride: length,
            memory_stride: 0,
        });
        Extents::Some(extents)
    }

    fn is_granted(claim: &mut Claim) -> bool {
        claim.granted().now_or_never().is_some()
    }

    #[tokio::test]
    async fn claims_wait_for_earlier_ones_that_conflict_and_for_no_others() {
        let schedules = Schedules::default();
        let claim = |mode, at, length| schedules.claim(FILE, 1, mode, &bytes(at, length)).unwrap();
        let mut writer = claim(Mode::Exclusive, 0, 10);
        let mut reader = claim(Mode::Shared, 5, 10);
        let mut elsewhere = claim(Mode::Exclusive, 20, 10);
        let mut whole = schedules.claim(FILE, 2, Mode::Exclusive, &Extents::Whole);
        let whole = whole.as_mut().unwrap();
        let mut late = claim(Mode::Shared, 12, 1);
        assert!(is_granted(&mut writer) && is_granted(&mut elsewhere));
        assert!(!is_granted(&mut reader) && !is_granted(whole) && !is_granted(&mut late));
        // Conflicts only with the one that waits, and is refused for it.
        let other = schedules.try_claim(FILE, 3, Mode::Shared, &bytes(90, 1));
        assert!(other.is_none());
        drop(writer);
        assert!(is_granted(&mut reader) && !is_granted(whole));
        drop((reader, elsewhere));
        assert!(is_granted(whole) && !is_granted(&mut late));
        // One that gives up is no longer waited for.
        let given_up = claim(Mode::Exclusive, 12, 1);
        drop(given_up);
        let fourth = schedules.claim(FILE, 4, Mode::Exclusive, &Extents::Whole);
        drop(fourth);
        schedules.remove(FILE, whole.ticket);
        assert!(is_granted(&mut late));
        drop(late);
        assert_eq!(schedules.count(), 0);
    }

    #[tokio::test]
    async fn only_old_claims_that_conflict_are_taken_away() {
        let schedules = Schedules::default();
        let claim = |operation, at| {
            let bytes = bytes(at, 1);
            schedules.claim(FILE, operation, Mode::Exclusive, &bytes)
        };
        let (old, other) = (claim(1, 0).unwrap(), claim(2, 1).unwrap());
        let waiting = claim(3, 0).unwrap();
        assert!(waiting.revoke_older(Duration::from_secs(5)).is_empty());
        assert_eq!(waiting.revoke_older(Duration::ZERO), [1]);
        assert!(old.is_revoked() && !other.is_revoked() && !waiting.is_revoked());
        old.revoked().await;
    }

    #[tokio::test]
    async fn too_many_claims_are_refused() {
        let schedules = Schedules::default();
        let claim = || schedules.claim(FILE, 1, Mode::Shared, &Extents::Whole);
        let claims: Vec<Claim> = (0..CLAIMS_MAX).map(|_| claim().unwrap()).collect();
        assert_eq!(claim().err().unwrap().code(), Code::Busy);
        drop(claims);
        claim().unwrap();
    }
}
