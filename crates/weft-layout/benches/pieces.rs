//! How fast one core enumerates the pieces of one server.
//!
//! A piece of 64 bytes at 100 million pieces a second is 6.4 GB/s: more than a server's network or
//! its disks move, so enumerating is then never what a request waits for.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft_layout::{
    Grid, Map, Order, Partition, Pattern, Request, ServerSlot, Subfile, View, ViewOffset,
};

const PIECES: u64 = 1 << 20;

fn pieces(c: &mut Criterion) {
    let small = Grid::new(4, 64, 4).unwrap();
    let many_cells = Grid::new(4096, 64, 4).unwrap();
    let large_bsu = Grid::new(4, 256 << 10, 4).unwrap();
    let subfile = |vbs, vn, hbs, hn, order| {
        View::Subfile(Subfile {
            vbs,
            vn,
            hbs,
            hn,
            index: 0,
            order,
        })
    };
    let each_4th = View::Partition(Partition {
        offset: 0,
        group: 64,
        stride: 256,
    });
    // Each request has about 2²⁰ pieces of 64 bytes on the slot asked for.
    let cases = [
        ("canonical, own 1 cell of 4", small, View::canonical(), 4),
        (
            "canonical, own 1024 cells of 4096",
            many_cells,
            View::canonical(),
            4,
        ),
        (
            "rows of a subfile",
            many_cells,
            subfile(8, 2, 3, 2, Order::Row),
            4,
        ),
        (
            "column-major",
            many_cells,
            subfile(1, 2, 3, 2, Order::Column),
            4,
        ),
        ("partition, 64 of 256 bytes", large_bsu, each_4th, 4),
    ];
    let mut group = c.benchmark_group("pieces");
    for (name, grid, view, share) in cases {
        let map = Map::new(grid, view).unwrap();
        let request = Request::Contiguous {
            offset: ViewOffset(0),
            length: PIECES * 64 * share,
        };
        let pieces = || map.pieces(black_box(&request), ServerSlot(0)).unwrap();
        group.throughput(Throughput::Elements(pieces().count() as u64));
        group.bench_function(BenchmarkId::new("loop", name), |b| {
            b.iter(|| {
                let mut sum = 0;
                for piece in pieces() {
                    sum ^= piece.offset.0 ^ piece.memory ^ piece.length;
                }
                sum
            });
        });
        group.bench_function(BenchmarkId::new("for_each", name), |b| {
            b.iter(|| {
                let mut sum = 0;
                pieces().for_each(|piece| sum ^= piece.offset.0 ^ piece.memory ^ piece.length);
                sum
            });
        });
    }
    group.finish();
}

/// Pieces of patterns: the aim is 100 million of 64 bytes a second for a strided one, however many
/// cells the file has.
fn patterns(c: &mut Criterion) {
    let record = || Pattern::bytes(64);
    let grids = [
        ("BSU 256 KiB, 4 cells", Grid::new(4, 256 << 10, 4).unwrap()),
        ("BSU 64, 4 cells", Grid::new(4, 64, 4).unwrap()),
        ("BSU 64, 4096 cells", Grid::new(4096, 64, 4).unwrap()),
        ("BSU 64, 65536 cells", Grid::new(65_536, 64, 4).unwrap()),
        ("BSU 96, 65536 cells", Grid::new(65_536, 96, 4).unwrap()),
    ];
    let strided = |stride: i64| record().every(stride).times(PIECES * 4);
    let nested = record()
        .every(256)
        .times(64)
        .every(1 << 20)
        .times(PIECES / 16);
    let list = (0..PIECES.cast_signed()).map(|i| (i * 200 + i % 7 * 8, 64));
    let requests = [
        ("strided, every 256", strided(256)),
        ("strided, every 192", strided(192)),
        ("strided, every 320", strided(320)),
        ("nested", nested),
        ("list", Pattern::list(list)),
    ];
    let mut group = c.benchmark_group("patterns");
    for (layout, grid) in grids {
        let map = Map::new(grid, View::canonical()).unwrap();
        for (name, pattern) in &requests {
            let request = Request::sorted(ViewOffset(0), pattern, true).unwrap();
            let pieces = || map.pieces(black_box(&request), ServerSlot(0)).unwrap();
            group.throughput(Throughput::Elements(pieces().count() as u64));
            group.bench_function(BenchmarkId::new(*name, layout), |b| {
                b.iter(|| {
                    let mut sum = 0;
                    for piece in pieces() {
                        sum ^= piece.offset.0 ^ piece.memory ^ piece.length;
                    }
                    sum
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = pieces, patterns
}
criterion_main!(benches);
