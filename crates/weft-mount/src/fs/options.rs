//! The options of a mounted file system.

use std::time::Duration;

/// How a volume is to behave under a path.
#[derive(Default, Clone, Debug)]
pub struct Options {
    /// The value of [`VOLUME_XATTR`](super::VOLUME_XATTR): the volume, under whichever name it is
    /// mounted.
    pub volume: String,
    /// The value of [`OPTIONS_XATTR`](super::OPTIONS_XATTR): the options that cannot change while
    /// the volume is mounted.
    pub fixed: String,
    /// Nothing is cached, here or in the kernel, and a write has reached the servers when it
    /// returns.
    pub strict: bool,
    /// How long the kernel may cache attributes; `None`: as long as they are true.
    pub attributes_valid: Option<Duration>,
    /// How long the kernel may cache names; `None`: as long as they are true.
    pub names_valid: Option<Duration>,
    /// Names survive power loss when an operation returns; else after a sync, or within a second.
    pub durable: bool,
}
