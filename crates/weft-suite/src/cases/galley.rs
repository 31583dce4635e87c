//! Galley §5: broadcast, partitioned and interleaved records of 64 B to 64 KiB, one call per record
//! against one strided call of each client.

use super::records::{affordable, by, fill};
use crate::point::{Case, Point, READ, TRANSFERS};
use crate::row::Interface;
use crate::row::Interface::{Collective, Strided, Traditional};
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["broadcast", "partitioned", "interleaved"];

/// Bytes of the file.
const BYTES: u64 = 64 << 20;
const BSU: u64 = 64 << 10;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[1, 2, 4]) {
        for clients in sweep.clients(&[4]) {
            for record in sweep.records(&[64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10]) {
                for pattern in PATTERNS.iter().filter(|p| sweep.pattern(p)) {
                    for interface in sweep.interfaces(&[Traditional, Strided, Collective]) {
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
    let several = u64::from(clients);
    let all = (sweep.scaled(BYTES) / record).max(several);
    let share = all / several;
    let part = |client: u64| {
        let (at, stride, records) = match pattern {
            "broadcast" => (0, record, all),
            "partitioned" => (client * share * record, record, share),
            _ => (client * record, record * several, share),
        };
        let records = affordable(sweep, interface, records);
        let part = Workload::records(ViewSpec::Canonical, at, record, stride, records);
        by(interface, part)
    };
    let parts: Vec<Workload> = (0..several).map(part).collect();
    let broadcast = pattern == "broadcast";
    Point {
        pattern: pattern.to_owned(),
        interface,
        record,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: BSU,
            ..FileShape::default()
        },
        fill: broadcast.then(|| fill(parts[0].bytes(), clients)),
        parts,
        steps: if broadcast { READ } else { TRANSFERS },
        ..Point::of(Case::Galley)
    }
}
