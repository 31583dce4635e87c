//! What a payload costs a processor: its checksum, and the candidates for its tag and its
//! encryption, in segments of 64 KiB of one buffer of 256 KiB, as frames have them. The best of
//! several rounds, because other programs only take time away.
//!
//! `cargo run --release -p weft-net --example tags`

use std::hint::black_box;
use std::time::{Duration, Instant};

use aegis::aegis128x4::Aegis128X4;

const FRAME: usize = 256 << 10;
const SEGMENT: usize = 64 << 10;
const FRAMES: usize = (256 << 20) / FRAME;
const ROUNDS: usize = 7;

fn measure(name: &str, mut work: impl FnMut(&mut [u8])) {
    let mut frame = vec![7; FRAME];
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..FRAMES {
            black_box(&mut frame)
                .chunks_mut(SEGMENT)
                .for_each(&mut work);
        }
        best = best.min(start.elapsed());
    }
    println!("{name:28} {:6.1} ms/GiB", best.as_secs_f64() * 4e3);
}

fn main() {
    let cipher = || Aegis128X4::<16>::new(&[3; 16], &[0; 16]);
    measure("CRC-32C", |bytes| {
        black_box(weft_sum::of(bytes));
    });
    measure("BLAKE3 keyed", |bytes| {
        black_box(blake3::keyed_hash(&[3; 32], bytes));
    });
    measure("AEGIS-128X4, tag", |bytes| {
        black_box(cipher().encrypt_in_place(&mut [], bytes));
    });
    measure("AEGIS-128X4, encryption", |bytes| {
        black_box(cipher().encrypt_in_place(bytes, &[]));
    });
}
