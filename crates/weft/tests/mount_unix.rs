//! Promises of a Unix file system beyond names and data: permissions, set-id bits,
//! access times, holes, sockets, private maps, read-only mounts; and how mounts start, change and
//! end, by mount(8) and in the foreground.

#[path = "mount_unix/access_times.rs"]
mod access_times;
#[path = "mount_unix/holes.rs"]
mod holes;
#[path = "mount_unix/maps.rs"]
mod maps;
mod mount_support;
#[path = "mount_unix/permissions.rs"]
mod permissions;
#[path = "mount_unix/read_only.rs"]
mod read_only;
#[path = "mount_unix/remounts.rs"]
mod remounts;
#[path = "mount_unix/set_id.rs"]
mod set_id;
#[path = "mount_unix/sockets.rs"]
mod sockets;
#[path = "mount_unix/starts.rs"]
mod starts;
