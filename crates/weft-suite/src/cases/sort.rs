//! Vesta §5.6: FastMeshSort on growing numbers of servers.

use crate::point::{Case, Point, WRITE};
use crate::row::Interface;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["fast-mesh-sort"];

/// Bytes of the file.
const BYTES: u64 = 64 << 20;

/// The points: a part says how much, not how.
pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[1, 2, 4]) {
        for clients in sweep.clients(&[4]) {
            for record in sweep.records(&[64]) {
                for interface in sweep.interfaces(&[Interface::Strided]) {
                    let records = (sweep.scaled(BYTES) / record / u64::from(clients)).max(1);
                    let part = Workload::records(ViewSpec::Canonical, 0, record, record, records);
                    points.push(Point {
                        pattern: PATTERNS[0].to_owned(),
                        interface,
                        record,
                        servers,
                        shape: FileShape {
                            cells: servers.max(clients),
                            bsu: 64 << 10,
                            ..FileShape::default()
                        },
                        parts: vec![part; clients as usize],
                        // Its row is a write's.
                        steps: WRITE,
                        ..Point::of(Case::Sort)
                    });
                }
            }
        }
    }
    points
}
