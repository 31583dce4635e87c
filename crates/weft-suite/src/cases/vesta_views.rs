//! Vesta §5.5: one client with three striping units; four clients with subfiles by cell and across
//! the cells. And a matrix stored by rows, read and written by columns.

use super::records::affordable;
use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::{Strided, Traditional};
use crate::sweep::Sweep;
use crate::workload::{FileShape, Level, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &[
    "unit-of-1-bsu",
    "unit-of-4-bsus",
    "unit-of-a-cell",
    "subfiles-by-cell",
    "subfiles-across",
    "by-rows",
    "by-columns",
];

/// Bytes of the file.
const BYTES: u64 = 64 << 20;
/// Bytes of an element of the matrix.
const ELEMENT: u64 = 8;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        for record in sweep.records(&[
            256,
            1 << 10,
            4 << 10,
            16 << 10,
            64 << 10,
            256 << 10,
            1 << 20,
        ]) {
            for pattern in PATTERNS[..5].iter().filter(|p| sweep.pattern(p)) {
                for interface in sweep.interfaces(&[Traditional]) {
                    points.push(views(sweep, pattern, interface, (servers, record)));
                }
            }
        }
        for pattern in PATTERNS[5..].iter().filter(|p| sweep.pattern(p)) {
            for interface in sweep.interfaces(&[Strided]) {
                points.push(matrix(sweep, pattern, interface, servers));
            }
        }
    }
    points
}

/// The BSU is a part of the access, one for each cell, as in the paper.
fn views(
    sweep: &Sweep,
    pattern: &str,
    interface: Interface,
    (servers, record): (u32, u64),
) -> Point {
    let cells = u64::from(servers);
    let bsu = (record / cells).max(1);
    let record = bsu * cells;
    let clients = if pattern.starts_with("subfiles") {
        cells
    } else {
        1
    };
    let share = sweep.scaled(BYTES) / clients / record;
    let times = affordable(sweep, interface, share);
    let part = |client: u64| {
        let (vbs, vn, hn) = match pattern {
            "unit-of-1-bsu" => (1, 1, 1),
            "unit-of-4-bsus" => (cells, 1, 1),
            // All accesses of a cell's share, before the next cell begins.
            "unit-of-a-cell" => (times.div_ceil(cells) * cells, 1, 1),
            "subfiles-by-cell" => (1, 1, cells),
            _ => (1, clients, 1),
        };
        let view = ViewSpec::Subfile {
            vbs,
            vn,
            hbs: 1,
            hn,
            index: client,
        };
        Workload::records(view, 0, record, record, times)
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
        parts: (0..clients).map(part).collect(),
        ..Point::of(Case::VestaViews)
    }
}

/// One client, the whole matrix by one call: in the order of the file, or column after column.
fn matrix(sweep: &Sweep, pattern: &str, interface: Interface, servers: u32) -> Point {
    let most = match interface {
        Interface::Posix => 256,
        _ => u64::MAX,
    };
    let side = (sweep.scaled(BYTES) / ELEMENT).isqrt().clamp(16, most);
    let row = side * ELEMENT;
    let (inner, outer) = if pattern == "by-rows" {
        (ELEMENT, row)
    } else {
        (row, ELEMENT)
    };
    let level = |stride| Level {
        stride,
        times: side,
    };
    let part = Workload {
        view: ViewSpec::Canonical,
        at: 0,
        record: ELEMENT,
        levels: vec![level(inner), level(outer)],
        inner: 2,
        picked: None,
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record: ELEMENT,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: 64 << 10,
            ..FileShape::default()
        },
        parts: vec![part],
        ..Point::of(Case::VestaViews)
    }
}
