//! CAPFS §4.1: a file of each kind is written by clients with disjoint shares. An addressed one
//! gets new contents, contents of which a tenth is new, and contents that servers know.

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["plain", "new", "changed-10", "same"];

/// Bytes of the file.
const BYTES: u64 = 256 << 20;
const BSU: u64 = 256 << 10;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        for clients in sweep.clients(&[4]) {
            for record in sweep.records(&[4 << 20]) {
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
            addressed: pattern != "plain",
            same: match pattern {
                "changed-10" => 90,
                "same" => 100,
                _ => 0,
            },
        },
        parts: (0..u64::from(clients)).map(part).collect(),
        ..Point::of(Case::Addressed)
    }
}
