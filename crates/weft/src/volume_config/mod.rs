//! A volume on this machine: its configuration (`weft.toml`), its key, and the folders it names.
//! Documented in `docs/operating.md`.
//!
//! `config` is what the administrator wrote, `node` the folder of one node; the files here deal
//! with the volume's folder as a whole. Invariant: a node works in its folder only while it holds
//! the [`Lock`] and the [`Marker`] names it. Nothing here connects to a volume.

mod config;
mod local_volume;
mod node;
mod orphans;
mod private;
mod start_lock;

pub(crate) use config::code_after::CodeAfter;
pub(crate) use config::edit::{add_section, remove_section};
pub(crate) use config::file::{
    ADDRESS, Config, FILE, MetaSection, NodeName, ServerName, ServerSection, VolumeSection, WIRE,
};
pub(crate) use config::identity::{hex, volume_id};
pub(crate) use config::ports::{FreeAddresses, free_addresses};
pub(crate) use config::rebuild_after::RebuildAfter;
pub(crate) use config::settings::changed;
pub(crate) use config::size::Size;
pub(crate) use config::wire::WireSetting;
pub(crate) use local_volume::{LocalNode, LocalVolume, note_started, note_stopped};
pub(crate) use node::clean_shutdown;
pub(crate) use node::disks::{check_new_disk, disk_state, label_disks};
pub(crate) use node::ending::wait_for_end;
pub(crate) use node::lock::{Lock, holds_lock, lock_in, lock_of};
pub(crate) use node::marker::{JOINING, Marker};
pub(crate) use node::role::io_role;
pub(crate) use orphans::orphans;
pub(crate) use private::close_to_others;
pub(crate) use start_lock::{StartLock, is_start_lock};
