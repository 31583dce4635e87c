//! PVFS §3: one server against the local disk; one client on many servers; stripe sizes; several
//! clients with partitions that match the striping or do not.

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::{Collective, Posix, Strided, Traditional};
use crate::sweep::{Sweep, TargetKind};
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &[
    "local-disk",
    "one-server",
    "servers",
    "stripe-4K",
    "stripe-16K",
    "stripe-64K",
    "stripe-256K",
    "matched",
    "mismatched",
];

const BYTES: u64 = 64 << 20;
const STRIPES: [(&str, u64); 4] = [
    ("stripe-4K", 4 << 10),
    ("stripe-16K", 16 << 10),
    ("stripe-64K", 64 << 10),
    ("stripe-256K", 256 << 10),
];
const REQUESTS: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// The request of the partitions' experiment.
const REQUEST: u64 = 2 << 20;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    if sweep.pattern("local-disk") && sweep.place == TargetKind::Own && sweep.interfaces.is_empty()
    {
        for record in sweep.records(&REQUESTS) {
            let at = Single {
                pattern: "local-disk",
                servers: 1,
                stripe: 64 << 10,
            };
            points.push(Point {
                local: true,
                ..single(sweep, at, record, Posix)
            });
        }
    }
    let mut singles = Vec::new();
    if sweep.pattern("one-server") {
        singles.push(Single {
            pattern: "one-server",
            servers: 1,
            stripe: 64 << 10,
        });
    }
    if sweep.pattern("servers") {
        singles.extend(
            sweep
                .servers(&[1, 2, 4, 8])
                .into_iter()
                .map(|servers| Single {
                    pattern: "servers",
                    servers,
                    stripe: 16 << 10,
                }),
        );
    }
    for (pattern, stripe) in STRIPES.into_iter().filter(|(p, _)| sweep.pattern(p)) {
        singles.extend(sweep.servers(&[4]).into_iter().map(|servers| Single {
            pattern,
            servers,
            stripe,
        }));
    }
    for of in singles {
        for record in sweep.records(&REQUESTS) {
            for interface in sweep.interfaces(&[Traditional]) {
                points.push(single(sweep, of, record, interface));
            }
        }
    }
    for pattern in ["matched", "mismatched"]
        .into_iter()
        .filter(|p| sweep.pattern(p))
    {
        for servers in sweep.servers(&[4]) {
            for clients in sweep.clients(&[4]) {
                for group in sweep.records(&[4 << 10, 16 << 10, 64 << 10, 256 << 10]) {
                    for interface in sweep.interfaces(&[Strided, Collective]) {
                        let at = (servers, clients, group);
                        points.push(partitioned(sweep, pattern, interface, at));
                    }
                }
            }
        }
    }
    points
}

/// An experiment of one client.
#[derive(Clone, Copy)]
struct Single {
    pattern: &'static str,
    servers: u32,
    stripe: u64,
}

fn single(sweep: &Sweep, of: Single, record: u64, interface: Interface) -> Point {
    let times = affordable(sweep, interface, sweep.scaled(BYTES) / record);
    Point {
        pattern: of.pattern.to_owned(),
        interface,
        record,
        servers: of.servers,
        shape: FileShape {
            cells: of.servers,
            bsu: of.stripe,
            ..FileShape::default()
        },
        parts: vec![Workload::records(
            ViewSpec::Canonical,
            0,
            record,
            record,
            times,
        )],
        ..Point::of(Case::Pvfs)
    }
}

/// Each client has every `clients`-th group; requests of 2 MiB. Matching, a stripe is a group, so
/// that a client whose number is that of a server has all its data there; mismatched, each group
/// lies on all servers.
fn partitioned(
    sweep: &Sweep,
    pattern: &str,
    interface: Interface,
    (servers, clients, group): (u32, u32, u64),
) -> Point {
    let request = REQUEST.min(sweep.scaled(REQUEST)).max(group);
    let share = sweep.scaled(BYTES) / u64::from(clients);
    let times = (share / request).max(1);
    let stripe = if pattern == "matched" {
        group
    } else {
        (group / u64::from(servers)).max(1)
    };
    let part = |client: u64| {
        let view = ViewSpec::Partition {
            offset: client * group,
            group,
            stride: group * u64::from(clients),
        };
        Workload::records(view, 0, request, request, times)
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record: group,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: stripe,
            ..FileShape::default()
        },
        parts: (0..u64::from(clients)).map(part).collect(),
        ..Point::of(Case::Pvfs)
    }
}
