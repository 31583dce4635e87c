//! Collectives: the requests of a group's members become one job.
//!
//! The call of the first member keeps the gathering: it waits until all members have come or the
//! time is over, then does the job for all and answers all. The calls of the others only join.
//! Every member sends its request to every server of the file, so a server knows when all have
//! come, whether or not they have pieces on it.
//!
//! Invariants:
//! 1. A call is in one place: in a gathering, or in the job. The owner of that place answers it.
//! 2. What all collectives together hold is bounded: gatherings and members by number, rounds by
//!    `memory.rs`, waiting calls by the windows of their connections.
//! 3. A repeated call of a member (same nonce) never runs beside the first: it waits for the job of
//!    the first and gets its outcome.
//!
//! `group` holds the calls of the members, `memory` bounds their rounds, `streams` are where the
//! bytes come from and go to; `gather`, `joined`, `read` and `write` do the work.
//!
//! See `docs/design/0008-collectives.md`.

mod gather;
mod group;
mod joined;
mod memory;
mod read;
mod streams;
mod write;

use std::sync::Arc;
use std::time::Duration;

use weft_layout::{Rounds, Search};

use super::job::Job;
use crate::limits::STALL_TIMEOUT_MIN;
use group::{GatheringTable, MemberCall};
use memory::{RoundMemory, StallTimeout};

pub(super) use gather::check as check_membership;
pub(super) use group::names;
pub(super) use memory::ClientRoundMemory;

/// The collectives of one server.
#[derive(Default)]
pub(super) struct Collectives {
    table: GatheringTable,
    memory: Arc<RoundMemory>,
}

impl Collectives {
    /// How long a job waits for a member that stalls: as long as the group waits for one to come.
    fn stall_timeout(&self, calls: &[MemberCall]) -> StallTimeout {
        let waits = calls.iter().map(|call| call.membership.wait);
        let longest = Duration::from_millis(waits.max().unwrap_or_default().into());
        let longest = longest.max(STALL_TIMEOUT_MIN);
        StallTimeout::new(&self.memory, payer(calls), longest)
    }

    /// For a job without a group: only other jobs limit how long it may stall.
    fn stall_timeout_if_contended(&self, client: &Arc<ClientRoundMemory>) -> StallTimeout {
        StallTimeout::new(&self.memory, client, Duration::MAX)
    }
}

/// The client whose budget a group's job uses: the first member's.
fn payer(calls: &[MemberCall]) -> &Arc<ClientRoundMemory> {
    &calls.first().expect("a job has calls").client
}

/// The rounds of a job's members.
fn rounds<I: Search + Clone>(job: &Job, members: Vec<I>) -> Rounds<I> {
    Rounds::new(job.map.grid(), job.slot, members)
}
