//! The life of small files: each client creates files in a directory of its own, asks for their
//! attributes, reads them and removes them, as mdtest does with `-u -w 4096 -e 4096`.

use super::beside::{Way, ways};
use crate::point::{Case, LIFE, Point, SyncRule};
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

/// A new file is closed, or synced and closed.
pub(super) const PATTERNS: &[&str] = &["closed", "synced", "local-closed", "local-synced"];

/// Files of each client.
const FILES: u64 = 1000;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for pattern in &PATTERNS[..2] {
        for clients in sweep.clients(&[1, 2]) {
            for size in sweep.records(&[4 << 10]) {
                let ways = ways(sweep, pattern, &[Traditional], &[1]);
                let ways = ways.into_iter();
                points.extend(ways.map(|way| point(sweep, pattern, way, (clients, size))));
            }
        }
    }
    points
}

/// Each record of a part is a file.
fn point(sweep: &Sweep, pattern: &str, way: Way, (clients, size): (u32, u64)) -> Point {
    let files = sweep.scaled(FILES);
    let part = |client: u64| {
        let at = client * files * size;
        Workload::records(ViewSpec::Canonical, at, size, size, files)
    };
    Point {
        pattern: way.pattern,
        interface: way.interface,
        record: size,
        servers: way.servers,
        shape: FileShape {
            cells: 1,
            bsu: size,
            ..FileShape::default()
        },
        parts: (0..u64::from(clients)).map(part).collect(),
        steps: LIFE,
        local: way.local,
        // As mdtest, which syncs new files with `-y` only.
        sync: if pattern == "synced" {
            SyncRule::Each
        } else {
            SyncRule::Never
        },
        ..Point::of(Case::Files)
    }
}
