//! A three-dimensional array over 2 × 2 × 2 processes: a collective call of each, against what
//! programs do without collectives, which is to exchange the bytes among themselves and to move
//! contiguous shares (`exchange.rs`).

use super::records::by;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::{Collective, Strided, Traditional};
use crate::sweep::{Sweep, TargetKind};
use crate::workload::{FileShape, Level, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &["blocks", "exchange"];

/// Bytes of the array.
const BYTES: u64 = 64 << 20;
const ELEMENT: u64 = 8;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        if sweep.pattern("blocks") {
            for interface in sweep.interfaces(&[Strided, Collective]) {
                points.push(point(sweep, "blocks", interface, servers));
            }
        }
        if sweep.pattern("exchange") && sweep.place != TargetKind::Path {
            for interface in sweep.interfaces(&[Traditional]) {
                points.push(point(sweep, "exchange", interface, servers));
            }
        }
    }
    points
}

fn point(sweep: &Sweep, pattern: &str, interface: Interface, servers: u32) -> Point {
    let elements = (sweep.scaled(BYTES) / ELEMENT) as f64;
    #[allow(clippy::cast_sign_loss, reason = "a root of what is not negative")]
    let half = ((elements.cbrt() / 2.0) as u64).max(2);
    let side = 2 * half;
    let (row, plane) = (side * ELEMENT, side * side * ELEMENT);
    let block = |client: u64| {
        let (x, y, z) = (client / 4, client / 2 % 2, client % 2);
        let part = Workload {
            view: ViewSpec::Canonical,
            at: half * (x * plane + y * row + z * ELEMENT),
            record: half * ELEMENT,
            levels: vec![
                Level {
                    stride: row,
                    times: half,
                },
                Level {
                    stride: plane,
                    times: half,
                },
            ],
            inner: 0,
            picked: None,
        };
        by(interface, part)
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record: half * ELEMENT,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: 64 << 10,
            ..FileShape::default()
        },
        parts: (0..8).map(block).collect(),
        exchange: pattern == "exchange",
        ..Point::of(Case::Array)
    }
}
