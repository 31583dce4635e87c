//! How fast one core computes parity, and a lost piece.
//!
//! Two disks and a link of 10 Gbit/s move less than 4 GiB/s together: above that, arithmetic is
//! never what coding waits for.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft_parity::{Code, PART_BYTES, Shape};

fn rows(c: &mut Criterion) {
    for text in ["4+1", "8+2", "10+4"] {
        let shape: Shape = text.parse().unwrap();
        let code = Code::new(shape);
        let data: Vec<Vec<u8>> = (0..shape.data())
            .map(|n| vec![n as u8 + 1; PART_BYTES as usize])
            .collect();
        let mut group = c.benchmark_group("row");
        group.throughput(Throughput::Bytes(u64::from(shape.data()) * PART_BYTES));
        group.bench_function(BenchmarkId::new("parity", text), |b| {
            b.iter(|| code.parity(black_box(&data)).unwrap());
        });
        let coded = code.parity(&data).unwrap();
        let mut pieces: Vec<Vec<u8>> = data.into_iter().chain(coded).collect();
        let there: Vec<bool> = (0..pieces.len()).map(|piece| piece != 0).collect();
        group.bench_function(BenchmarkId::new("lost piece", text), |b| {
            b.iter(|| code.complete(black_box(&mut pieces), &there).unwrap());
        });
        group.finish();
    }
}

criterion_group!(benches, rows);
criterion_main!(benches);
