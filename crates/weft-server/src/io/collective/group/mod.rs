//! The members of a group: their calls, and the table of the gatherings that they wait in.

mod member;
mod table;

pub(in crate::io) use member::names;
pub(super) use member::{MemberCall, MemberWrite};
pub(super) use table::{Absence, Arrival, Gathered, GatheringKey, GatheringTable, Outcome, Take};
