//! A volume on this machine: its configuration (`weft.toml`), its key, and the folders it names.
//! Documented in `docs/operating.md`.
//!
//! Invariant: a node's folder is used only while its [`Lock`] is held and its [`Marker`] says that
//! it is this node's. Nothing here connects to a volume.

pub(crate) mod clean_shutdown;
mod config;
mod disks;
mod ending;
mod formatted;
mod here;
mod identity;
mod lock;
mod marker;
mod ports;
mod private;
mod role;
mod settings;
mod size;
mod starter;
mod strays;
mod wire;

pub(crate) use config::{
    ADDRESS, Config, FILE, MetaSection, NodeName, ServerSection, VolumeSection, WIRE,
};
pub(crate) use disks::{check_new_disk, disk_state, label_disks};
pub(crate) use ending::wait_for_end;
pub(crate) use here::{Here, NodeHere, note_started, note_stopped};
pub(crate) use identity::{hex, volume_id};
pub(crate) use lock::{Lock, holds_lock, lock_in, lock_of};
pub(crate) use marker::Marker;
pub(crate) use ports::{FreeAddresses, free_addresses};
pub(crate) use private::close_to_others;
pub(crate) use role::io_role;
pub(crate) use settings::changed;
pub(crate) use size::Size;
pub(crate) use starter::{Starter, is_starter};
pub(crate) use strays::strays;
pub(crate) use wire::WireSetting;
