//! The members of a group: their calls, and the table of the gatherings that they wait in.

mod member;
mod table;

pub(super) use member::{MemberCall, MemberWrite, names};
pub(super) use table::{Arrival, Gathered, GatheringKey, GatheringTable, Outcome, Take};
