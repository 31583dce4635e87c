//! Patterns that are measured on the local disk, too, so that one run compares both.

use crate::row::Interface;
use crate::sweep::Sweep;

/// Before the name of a pattern: the same on the local disk.
const LOCAL: &str = "local-";

/// Where and how a pattern is measured.
pub(super) struct Way {
    /// The pattern's name there.
    pub(super) pattern: String,
    pub(super) interface: Interface,
    pub(super) servers: u32,
    pub(super) local: bool,
}

/// The ways of a pattern that a sweep asks for: in the place that is measured, on so many servers,
/// and beside it on the local disk.
pub(super) fn ways(
    sweep: &Sweep,
    pattern: &str,
    sensible: &[Interface],
    servers: &[u32],
) -> Vec<Way> {
    let mut ways = Vec::new();
    if sweep.pattern(pattern) {
        for servers in sweep.servers(servers) {
            ways.extend(sweep.interfaces(sensible).into_iter().map(|interface| Way {
                pattern: pattern.to_owned(),
                interface,
                servers,
                local: false,
            }));
        }
    }
    let local = format!("{LOCAL}{pattern}");
    if sweep.pattern(&local) && sweep.interfaces.iter().all(|i| *i == Interface::Posix) {
        ways.push(Way {
            pattern: local,
            interface: Interface::Posix,
            servers: 1,
            local: true,
        });
    }
    ways
}
