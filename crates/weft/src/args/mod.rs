//! Options that several commands share: the global options, layouts, views, requests, groups, modes
//! and owners.
//!
//! Each file holds one family of options: its parser, what it refuses, and the library value that
//! it stands for. Options of a single command stay with that command. Nothing here connects to a
//! volume or knows a command.

mod global;
pub(crate) mod group;
mod layout;
pub(crate) mod mode;
pub(crate) mod owner;
pub(crate) mod pattern;
pub(crate) mod request;
mod view;

pub(crate) use global::Global;
pub(crate) use group::{GroupArgs, WhenShared};
pub(crate) use layout::LayoutArgs;
pub(crate) use request::RequestArgs;
pub(crate) use view::ViewArgs;
