//! Replicas that stay away, and who takes their place: a spare, or the nodes of another machine.
//!
//! Both look at the server map and ask for the place (0047); the metadata service arbitrates.

mod absences;
mod hosts;
mod node;
mod spare;

pub(super) use absences::is_absent;
pub(super) use node::replace_lost;
pub(super) use spare::wait_for_absence;
