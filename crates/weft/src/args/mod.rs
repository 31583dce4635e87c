//! What several commands take on the command line: the options of every command, layouts, views,
//! requests, groups, modes and owners.
//!
//! Each file holds one family of options: how it is parsed, what is refused, and the value of the
//! library that it stands for. Options of a single command stay with that command. Nothing here
//! connects to a volume or knows a command.

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
