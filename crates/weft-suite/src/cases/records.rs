//! How many records a client moves, and by how many calls.

use crate::row::Interface;
use crate::sweep::Sweep;
use crate::workload::{Level, ViewSpec, Workload};

/// Calls of a client, at most, where every record is a call of its own: the rest of its share is
/// left out.
const CALLS: u64 = 4096;

/// How many of `records` a client moves by `interface`: all, or as many as there are calls, scaled.
pub(super) fn affordable(sweep: &Sweep, interface: Interface, records: u64) -> u64 {
    let most = match interface {
        Interface::Strided | Interface::Collective => u64::MAX,
        Interface::Traditional | Interface::Posix => sweep.scaled(CALLS).max(16),
    };
    records.clamp(1, most)
}

/// The same bytes in one call where the interface can, else a call per record.
pub(super) fn by(interface: Interface, part: Workload) -> Workload {
    match interface {
        Interface::Strided | Interface::Collective => part.whole(),
        Interface::Traditional | Interface::Posix => part,
    }
}

/// `bytes` of a file in canonical order, in shares that `clients` write before they read.
pub(super) fn fill(bytes: u64, clients: u32) -> Vec<Workload> {
    let share = bytes.div_ceil(u64::from(clients));
    (0..u64::from(clients))
        .map(|client| {
            let at = (client * share).min(bytes);
            let length = share.min(bytes - at);
            Workload {
                view: ViewSpec::Canonical,
                at,
                record: length,
                levels: vec![Level {
                    stride: length,
                    times: 1,
                }],
                inner: 1,
                picked: None,
            }
        })
        .collect()
}
