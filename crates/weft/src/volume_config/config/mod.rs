//! The configuration of a volume: what `weft.toml` says, and the types of its values.
//!
//! [`Config::read`](file::Config::read) refuses a configuration that no volume can have. Nothing
//! here reads the folders of nodes.

pub(super) mod code_after;
pub(super) mod edit;
pub(super) mod file;
pub(super) mod identity;
pub(super) mod ports;
pub(super) mod rebuild_after;
pub(super) mod settings;
pub(super) mod size;
pub(super) mod wire;
