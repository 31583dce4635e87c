//! CAPFS §4.1: aggregate bandwidth by consistency policy. Clients write and read records of one
//! file in turn, so that they share chunks; or read again and again what they have read.

use weft_client::Policy;

use super::records::{affordable, fill};
use crate::point::{Case, Point, READ, TRANSFERS};
use crate::row::Interface;
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, Level, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &[
    "plain",
    "posix",
    "seq-1",
    "seq-2",
    "for-1",
    "for-2",
    "rel-1",
    "again-seq-1",
    "again-seq-2",
    "again-for-1",
    "again-for-2",
    "again-rel-1",
];

/// Bytes of the file that is written and read.
const BYTES: u64 = 128 << 20;
/// Bytes that each client reads again and again, and how often.
const AGAIN_BYTES: u64 = 8 << 20;
const PASSES: u64 = 4;
const BSU: u64 = 256 << 10;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        for clients in sweep.clients(&[1, 4]) {
            for record in sweep.records(&[16 << 10, 1 << 20]) {
                for interface in sweep.interfaces(&[Traditional]) {
                    for pattern in PATTERNS.iter().filter(|p| sweep.pattern(p)) {
                        let at = (servers, clients, record);
                        points.push(point(sweep, pattern, interface, at));
                    }
                }
            }
        }
    }
    points
}

fn point(
    sweep: &Sweep,
    pattern: &str,
    interface: Interface,
    (servers, clients, record): (u32, u32, u64),
) -> Point {
    let again = pattern.strip_prefix("again-");
    let clients = u64::from(clients);
    let bytes = match again {
        Some(_) => AGAIN_BYTES,
        None => BYTES / clients,
    };
    let times = affordable(sweep, interface, (sweep.scaled(bytes) / record).max(1));
    let part = |client: u64| {
        let mut part = Workload::records(
            ViewSpec::Canonical,
            client * record,
            record,
            clients * record,
            times,
        );
        if again.is_some() {
            part.levels.push(Level {
                stride: 0,
                times: PASSES,
            });
        }
        part
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: BSU,
            addressed: pattern != "plain",
            same: 0,
        },
        steps: if again.is_some() { READ } else { TRANSFERS },
        fill: again.map(|_| fill(clients * times * record, clients as u32)),
        parts: (0..clients).map(part).collect(),
        policy: again.unwrap_or(pattern).parse::<Policy>().ok(),
        ..Point::of(Case::Policies)
    }
}
