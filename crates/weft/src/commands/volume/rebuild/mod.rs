//! Servers that need a new replica, and what gives it to them: a spare, or the nodes of another
//! machine.
//!
//! Both look at the server map and ask for the place (0047); the metadata service arbitrates.

mod hosts;
mod node;
mod spare;
mod vacancies;

pub(super) use hosts::has_host;
pub(super) use node::replace_lost;
pub(super) use spare::wait_for_vacancy;
pub(super) use vacancies::Vacancy;
