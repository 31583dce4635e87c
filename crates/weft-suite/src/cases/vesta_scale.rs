//! Vesta §5.4: one client that keeps every server busy; whole systems with three servers to a
//! client; and, for links of limited bandwidth, one client to a server.

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["one-client", "whole-system", "in-proportion"];

/// Bytes per server.
const BYTES: u64 = 32 << 20;
/// Calls in flight of each client, in proportion.
const DEPTH: usize = 4;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for interface in sweep.interfaces(&[Traditional]) {
        if sweep.pattern("one-client") {
            for servers in sweep.servers(&[1, 2, 4, 8]) {
                for record in sweep.records(&[4 << 10, 64 << 10, 1 << 20]) {
                    // A buffer for each server, and as many calls under way.
                    let at = (servers, 1, record);
                    points.push(point(sweep, "one-client", interface, at, record));
                }
            }
        }
        if sweep.pattern("whole-system") {
            for servers in sweep.servers(&[3, 6, 12]) {
                for record in sweep.records(&[64 << 10]) {
                    let at = (servers, servers.div_ceil(3), record);
                    points.push(point(sweep, "whole-system", interface, at, record));
                }
            }
        }
        if sweep.pattern("in-proportion") {
            for servers in sweep.servers(&[1, 2, 4, 8, 16]) {
                for record in sweep.records(&[1 << 20]) {
                    let at = (servers, servers, record);
                    points.push(point(sweep, "in-proportion", interface, at, 64 << 10));
                }
            }
        }
    }
    points
}

/// Each client a share of the file of its own, several calls in flight.
fn point(
    sweep: &Sweep,
    pattern: &str,
    interface: Interface,
    (servers, clients, record): (u32, u32, u64),
    bsu: u64,
) -> Point {
    let clients = match sweep.clients[..] {
        [asked] => asked,
        _ => clients,
    };
    let share = sweep.scaled(BYTES) * u64::from(servers) / u64::from(clients) / record;
    let times = affordable(sweep, interface, share);
    let part = |client: u64| {
        let at = client * times * record;
        Workload::records(ViewSpec::Canonical, at, record, record, times)
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record,
        servers,
        shape: FileShape {
            cells: servers,
            bsu,
            ..FileShape::default()
        },
        depth: DEPTH.max(servers as usize / clients as usize),
        parts: (0..u64::from(clients)).map(part).collect(),
        ..Point::of(Case::VestaScale)
    }
}
