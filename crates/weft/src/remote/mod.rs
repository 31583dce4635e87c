//! A volume as a command sees it: connecting to it, paths in it, walks through its trees, and the
//! check of a view before its file is made.
//!
//! Invariant: a command connects through [`connect`], which reports to the service when the command
//! ends. Data moves elsewhere (`streams`, `copy`, `transfer`).

pub(crate) mod connect;
pub(crate) mod forks;
pub(crate) mod new_view;
mod path;
pub(crate) mod servers;
mod walk;

pub(crate) use path::{
    RemotePath, destinations, is_directory, kind, kind_name, look, look_link, parser, reach,
};
pub(crate) use walk::{Location, Visit, Walk};
