//! Collectives: the requests of a group's members become one job.
//!
//! The first member's call keeps the gathering: it waits until all have come or the time is over,
//! then does the job for all and answers all. The calls of the others only bring their part. Every
//! member sends its request to every server of the file, so a server knows that all have come,
//! whether or not they have pieces on it.
//!
//! Invariants:
//! 1. A part is in one place: in a gathering, or in the job. Whoever takes it out answers it.
//! 2. What is held for all collectives together is bounded: gatherings by number, members by
//!    number, rounds by what `room.rs` has; what waits in parts is bounded by the windows of their
//!    connections.
//! 3. A member's request that comes again (same nonce) is never done twice beside another: it waits
//!    for the job that has its part and is told what came of it.
//!
//! See `docs/design/0008-collectives.md`.

mod assembly;
mod gather;
mod inlet;
mod joined;
mod outlet;
mod read;
mod room;
mod table;
mod write;

use std::sync::Arc;
use std::time::Duration;

use weft_layout::{Rounds, Search};
use weft_net::{Payload, Reply};
use weft_proto::Failure;
use weft_proto::collective::Membership;

use super::Job;
use room::{Patience, Room};
use table::Table;

pub(super) use room::Share;

/// The collectives of one server.
#[derive(Default)]
pub(super) struct Collectives {
    table: Table,
    room: Arc<Room>,
}

/// The shortest time that a member may stand still in the middle of a job.
const PATIENCE_MIN: Duration = Duration::from_secs(5);

impl Collectives {
    /// How long a job waits for a member that has come and stands still: as long as the group waits
    /// for one to come.
    fn patience(&self, parts: &[Part]) -> Patience {
        let waits = parts.iter().map(|part| part.membership.wait);
        let longest = Duration::from_millis(waits.max().unwrap_or_default().into());
        self.patience_of(share(parts), longest.max(PATIENCE_MIN))
    }

    fn patience_of(&self, share: &Arc<Share>, most: Duration) -> Patience {
        Patience::new(&self.room, share, most)
    }
}

/// Whose share of the room a group's job takes.
fn share(parts: &[Part]) -> &Arc<Share> {
    &parts.first().expect("a job has parts").share
}

/// What one member brings.
struct Part {
    membership: Membership,
    job: Job,
    share: Arc<Share>,
    reply: Reply,
    write: Option<WritePart>,
}

/// What a writing member brings besides.
struct WritePart {
    payload: Payload,
    bytes: u64,
    chunk: u32,
    sync: bool,
    /// Its own request touches bytes twice.
    ordered: bool,
    member_order: bool,
}

/// The rounds of a job's members.
fn rounds<I: Search + Clone>(job: &Job, members: Vec<I>) -> Rounds<I> {
    Rounds::new(job.map.grid(), job.slot, members)
}

/// Why a group's collective fails, as its members are told.
fn names(members: &[u32]) -> String {
    let shown: Vec<String> = members.iter().take(16).map(u32::to_string).collect();
    let more = members.len().saturating_sub(shown.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let plural = if members.len() == 1 {
        "member"
    } else {
        "members"
    };
    format!("{plural} {}{more}", shown.join(", "))
}

/// The first of some results that failed.
fn first_failure(failures: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    failures.into_iter().collect()
}
