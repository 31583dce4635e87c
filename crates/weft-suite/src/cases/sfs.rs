//! sfs §7: bandwidth over the size of a transfer, for growing numbers of servers, odd ones and odd
//! blocks among them; and with an amount of data per server that stays the same.

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["transfers", "odd-blocks", "per-server"];

/// Bytes moved per server.
const BYTES: u64 = 16 << 20;
/// What each transfer brings to each server, where that stays the same.
const PER_SERVER: u64 = 2 << 20;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[1, 2, 3, 5, 8]) {
        for clients in sweep.clients(&[4]) {
            for interface in sweep.interfaces(&[Traditional]) {
                for (pattern, bsu) in [("transfers", 64 << 10), ("odd-blocks", 50_001)] {
                    if !sweep.pattern(pattern) {
                        continue;
                    }
                    for record in sweep.records(&[64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20])
                    {
                        let at = (servers, clients, record);
                        points.push(point(sweep, pattern, interface, at, bsu));
                    }
                }
                if sweep.pattern("per-server") {
                    let transfer = u64::from(servers) * sweep.scaled(PER_SERVER);
                    let at = (servers, clients, transfer);
                    points.push(point(sweep, "per-server", interface, at, 64 << 10));
                }
            }
        }
    }
    points
}

/// A transfer is one parallel call: each client moves its part of it.
fn point(
    sweep: &Sweep,
    pattern: &str,
    interface: Interface,
    (servers, clients, transfer): (u32, u32, u64),
    bsu: u64,
) -> Point {
    let several = u64::from(clients);
    let own = (transfer / several).max(1);
    let transfer = own * several;
    let total = sweep.scaled(BYTES) * u64::from(servers);
    let times = affordable(sweep, interface, total / transfer);
    let part =
        |client: u64| Workload::records(ViewSpec::Canonical, client * own, own, transfer, times);
    Point {
        pattern: pattern.to_owned(),
        interface,
        record: transfer,
        servers,
        shape: FileShape {
            cells: servers,
            bsu,
            ..FileShape::default()
        },
        parts: (0..several).map(part).collect(),
        ..Point::of(Case::Sfs)
    }
}
