//! Vesta §4.3: what order costs. Clients with disjoint shares of one file write and read them,
//! reckless and cautious.

use weft_client::Policy;

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["reckless", "cautious"];

/// Bytes of the file.
const BYTES: u64 = 256 << 20;
const BSU: u64 = 64 << 10;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        for clients in sweep.clients(&[4]) {
            for record in sweep.records(&[4 << 10, 1 << 20]) {
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
    let share = sweep.scaled(BYTES) / u64::from(clients) / record;
    let times = affordable(sweep, interface, share.max(1));
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
            bsu: BSU,
            ..FileShape::default()
        },
        parts: (0..u64::from(clients)).map(part).collect(),
        policy: (pattern == "cautious").then_some(Policy::POSIX),
        ..Point::of(Case::Order)
    }
}
