//! CAPFS §4.2: frames of a display of 3 × 3 tiles that overlap; each client reads and writes its
//! tile of every frame, a call per row, a call per frame, or a collective call per frame.

use weft_client::Policy;

use crate::point::{Case, Point};
use crate::row::Interface;
use crate::row::Interface::{Collective, Strided, Traditional};
use crate::sweep::Sweep;
use crate::workload::{FileShape, Level, ViewSpec, Workload};

/// A plain file, and addressed ones with a policy.
pub(super) const PATTERNS: &[&str] = &["tiles", "seq-1", "seq-2", "for-1", "for-2", "rel-1"];

/// Tiles across and down.
const SIDE: u64 = 3;
/// Bytes of a pixel.
const PIXEL: u64 = 3;
const WIDTH: u64 = 1024;
const HEIGHT: u64 = 768;
/// Pixels that neighbours side by side, and one above the other, both show.
const OVERLAP_ACROSS: u64 = 270;
const OVERLAP_DOWN: u64 = 128;
const FRAMES: u64 = 5;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for servers in sweep.servers(&[4]) {
        for interface in sweep.interfaces(&[Traditional, Strided, Collective]) {
            for pattern in PATTERNS.iter().filter(|p| sweep.pattern(p)) {
                points.push(point(sweep, pattern, interface, servers));
            }
        }
    }
    points
}

/// A smaller scale means less high tiles, then fewer frames.
fn point(sweep: &Sweep, pattern: &str, interface: Interface, servers: u32) -> Point {
    let policy = pattern.parse::<Policy>().ok();
    let shrunk = |pixels: u64| sweep.scaled(pixels).clamp(2, pixels);
    let height = shrunk(HEIGHT);
    let overlap = shrunk(OVERLAP_DOWN).min(height / 2);
    let frames = sweep.scaled(FRAMES);
    let across = SIDE * WIDTH - (SIDE - 1) * OVERLAP_ACROSS;
    let down = SIDE * height - (SIDE - 1) * overlap;
    let row = across * PIXEL;
    let tile = |client: u64| {
        let (x, y) = (client % SIDE, client / SIDE);
        let left = x * (WIDTH - OVERLAP_ACROSS) * PIXEL;
        Workload {
            view: ViewSpec::Canonical,
            at: y * (height - overlap) * row + left,
            record: WIDTH * PIXEL,
            levels: vec![
                Level {
                    stride: row,
                    times: height,
                },
                Level {
                    stride: row * down,
                    times: frames,
                },
            ],
            inner: match interface {
                Interface::Traditional | Interface::Posix => 0,
                Interface::Strided | Interface::Collective => 1,
            },
            picked: None,
        }
    };
    Point {
        pattern: pattern.to_owned(),
        interface,
        record: WIDTH * PIXEL,
        servers,
        shape: FileShape {
            cells: servers,
            bsu: 64 << 10,
            addressed: policy.is_some(),
            ..FileShape::default()
        },
        parts: (0..SIDE * SIDE).map(tile).collect(),
        policy,
        ..Point::of(Case::Tile)
    }
}
