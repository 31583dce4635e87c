//! Collectives: what the members of a group read or write at the same time becomes one job on each
//! server.
//!
//! ```no_run
//! # async fn example(view: weft_client::OpenView, mut memory: Vec<u8>) -> Result<(), weft_client::Error> {
//! use weft_client::{Group, Transfer};
//! use weft_layout::{Pattern, ViewOffset};
//!
//! // This is member 2 of 8, in whatever process; the others do the same with bytes of their own.
//! let group = Group::new("step-17", 8, 2);
//! let columns = Transfer::of(Pattern::bytes(64).every(512).times(1000)).at(ViewOffset(2 * 64));
//! view.collective(&group).write(&columns, vec![2; 64 * 1000].into()).await?;
//! view.collective(&group).read(&columns, &mut memory).await?;
//! # Ok(()) }
//! ```
//!
//! Invariants:
//! 1. A member sends one request to each server of the file, of constant size, also to those that
//!    hold none of its bytes: so a server knows when all have come.
//! 2. A request that is sent again after a lost connection carries the same nonce: it is not taken
//!    for another one.
//! 3. A call takes the collective's number before anything of it is checked: a member that is
//!    refused by itself stays in step with the others, which wait for it in vain.
//!
//! See `docs/design/0008-collectives.md`.

mod attach;
mod joined;
mod read;
mod stream;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use weft_layout::{Pattern, ViewOffset};
use weft_proto::collective::Membership;
use weft_proto::limits;

use crate::{Error, OpenView, Transfer};

pub use joined::{JoinedRead, JoinedWrite, read_joined, write_joined};

pub use crate::limits::GROUP_WAIT;

/// What becomes of a collective whose members do not all come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It fails for all.
    #[default]
    Fail,
    /// It is done without them.
    GoOn,
}

/// What becomes of bytes that several members write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlaps {
    /// Such a collective is refused.
    #[default]
    Refuse,
    /// Those of the member with the highest number stay.
    MemberOrder,
}

/// A member's place in a group. All members say the same of the group and call its collectives in
/// the same order.
#[derive(Debug)]
pub struct Group {
    id: String,
    members: u32,
    member: u32,
    sequence: AtomicU64,
    wait: Duration,
    missing: Missing,
    overlaps: Overlaps,
}

/// What a collective brought this member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Bytes moved for this member.
    pub bytes: u64,
    /// Members without which it was done, by any of the servers; ascending. Always empty with
    /// [`Missing::Fail`].
    pub missing: Vec<u32>,
}

impl Group {
    /// Member `member` (from 0) of the group `id` of so many members. Local: no message.
    ///
    /// What is not legal (no members, more than 1,024, an id of more than 64 bytes) is refused by
    /// the first collective.
    pub fn new(id: impl Into<String>, members: u32, member: u32) -> Group {
        Group {
            id: id.into(),
            members,
            member,
            sequence: AtomicU64::new(0),
            wait: GROUP_WAIT,
            missing: Missing::Fail,
            overlaps: Overlaps::Refuse,
        }
    }

    /// The next collective has this number; each has one more than that before. Processes that each
    /// do one collective of a series say so which.
    #[must_use]
    pub fn sequence(self, sequence: u64) -> Group {
        self.sequence.store(sequence, Ordering::Release);
        self
    }

    /// How long a server waits after the first member's arrival; 30 s if it is not said, at most an
    /// hour.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Group {
        Group { wait, ..self }
    }

    /// What becomes of a collective whose members do not all come.
    #[must_use]
    pub fn missing(self, missing: Missing) -> Group {
        Group { missing, ..self }
    }

    /// What becomes of bytes that several members write.
    #[must_use]
    pub fn overlaps(self, overlaps: Overlaps) -> Group {
        Group { overlaps, ..self }
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Which of them this is.
    pub fn member(&self) -> u32 {
        self.member
    }

    /// Counts a collective that this member cannot call: it stays in step with the others. They
    /// wait for it in vain, until it calls the next one or their time is over.
    pub fn skip(&self) {
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// This member in its next collective alone: the one after that has the next number here.
    pub(crate) fn taken(&self) -> Group {
        Group {
            id: self.id.clone(),
            sequence: AtomicU64::new(self.sequence.fetch_add(1, Ordering::AcqRel)),
            ..*self
        }
    }

    /// A place in the next collective.
    pub(crate) fn join(&self, nonce: u64) -> Membership {
        Membership {
            group: self.id.clone(),
            sequence: self.sequence.fetch_add(1, Ordering::AcqRel),
            members: self.members,
            member: self.member,
            nonce,
            wait: u32::try_from(self.wait.as_millis())
                .unwrap_or(u32::MAX)
                .min(limits::WAIT_MAX),
            go_on: self.missing == Missing::GoOn,
            again: false,
        }
    }
}

/// A view, for the collectives of a group: see [`OpenView::collective`].
#[derive(Clone, Copy)]
pub struct Collective<'a> {
    pub(crate) view: &'a OpenView,
    pub(crate) group: &'a Group,
}

impl OpenView {
    /// This view for collectives of a group. Members may have different views of the file. Local:
    /// no message.
    pub fn collective<'a>(&'a self, group: &'a Group) -> Collective<'a> {
        Collective { view: self, group }
    }
}

impl Collective<'_> {
    /// Reads the bytes of this member's transfer while the others read theirs: as
    /// [`OpenView::read_with`], but each server waits until all members have come and goes over its
    /// cells once for all; what several members want is read once.
    ///
    /// # Errors
    /// Those of [`OpenView::read_with`], for the others a member that does not come;
    /// [`Error::Refused`] with `MembersMissing`, which names them, when members did not come to a
    /// group that does not go on without.
    /// # Cancellation
    /// Dropped, this member's part is free: another request may take its place until the job
    /// begins.
    pub async fn read(&self, transfer: &Transfer, buffer: &mut [u8]) -> Result<Collected, Error> {
        // Refused or not, this was the collective of that number.
        let membership = self.join();
        self.view.file.commit().await?;
        let (request, target) = transfer.reading(self.view, buffer)?;
        self.read_request(&request, target, membership).await
    }

    /// As [`Collective::read`], of the view's bytes `offset..`.
    pub async fn read_at(&self, offset: ViewOffset, buffer: &mut [u8]) -> Result<Collected, Error> {
        let all = Transfer::of(Pattern::bytes(buffer.len() as u64)).at(offset);
        self.read(&all, buffer).await
    }

    /// Writes the bytes of this member's transfer while the others write theirs: as
    /// [`OpenView::write_with`], but each server waits until all members have come and writes what
    /// they bring together: blocks that they fill between them are written whole, without being
    /// read first.
    ///
    /// # Durability
    /// On return the bytes *of all members* survive the death of any server's process, and power
    /// loss if any member's transfer is [`Transfer::synced`].
    /// # Errors
    /// Those of [`OpenView::write_with`]; `Invalid` when members write the same bytes and
    /// the group is not [`Overlaps::MemberOrder`] (a server on which they do has then written
    /// nothing); `MembersMissing`, which names them, when members did not come or were lost
    /// in the middle and the group does not go on without. In the middle means that any part of
    /// what all wrote may be written.
    /// # Cancellation
    /// Dropped before the job begins, this member's part is free; later it counts as lost.
    pub async fn write(&self, transfer: &Transfer, data: Bytes) -> Result<Collected, Error> {
        let membership = self.join();
        self.view.file.commit().await?;
        let writing = transfer.writing(self.view, data)?;
        self.write_request(writing, membership).await
    }

    /// As [`Collective::write`], to the view's bytes `offset..`.
    pub async fn write_at(&self, offset: ViewOffset, data: Bytes) -> Result<Collected, Error> {
        let all = Transfer::of(Pattern::bytes(data.len() as u64)).at(offset);
        self.write(&all, data).await
    }

    fn join(&self) -> Membership {
        let env = &self.view.file.0.volume.shared.env;
        self.group.join(env.random_u64())
    }

    fn what(&self, doing: &str) -> String {
        let Group {
            id,
            member,
            members,
            ..
        } = self.group;
        format!(
            "{} as member {member} of {members} of group `{id}`",
            self.view.what(doing)
        )
    }
}

/// Adds the members that were missing on one server to those of others.
fn add_missing(all: &mut Vec<u32>, more: &[u32]) {
    all.extend(more);
    all.sort_unstable();
    all.dedup();
}
