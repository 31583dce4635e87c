//! What a payload costs a processor: its checksum, and the candidates for its tag and its encryption, in segments of 64 KiB
//! of one buffer of 256 KiB, as frames have them. The best of several rounds, because other programs only take time away.
//!
//! `cargo run --release -p weft-net --example tags`

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

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
    let nonce = || Nonce::assume_unique_for_key([0; 12]);
    let key = |algorithm| LessSafeKey::new(UnboundKey::new(algorithm, &[3; 32]).expect("a key"));
    let (gcm, chacha) = (key(&AES_256_GCM), key(&CHACHA20_POLY1305));
    measure("CRC-32C", |bytes| {
        black_box(weft_sum::of(bytes));
    });
    measure("BLAKE3 keyed", |bytes| {
        black_box(blake3::keyed_hash(&[3; 32], bytes));
    });
    for (name, key) in [("AES-256-GCM", &gcm), ("ChaCha20-Poly1305", &chacha)] {
        measure(&format!("{name}, tag"), |bytes| {
            let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(bytes), &mut []);
            black_box(tag.expect("a tag"));
        });
        measure(&format!("{name}, encryption"), |bytes| {
            let tag = key.seal_in_place_separate_tag(nonce(), Aad::empty(), bytes);
            black_box(tag.expect("a tag"));
        });
    }
}
