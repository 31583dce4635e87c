//! CRC-32C (iSCSI): of bytes, and of what was put together from bytes whose sums are known. And
//! BLAKE3, which names chunks by their contents.
//!
//! The sum of `A‖B` follows from those of `A` and `B` and the length of `B`: it is `sum(A)` times
//! `x` to the power of the bits of `B`, plus `sum(B)`, all modulo the polynomial. So bytes that
//! were summed in blocks are never summed again because they travel in frames:
//! `docs/design/0014-checksums.md`.
//!
//! The combination of the library below squares matrices, some microseconds for each call; what is
//! here costs four lookups for a block of [`BLOCK`] bytes and some 50 ns for each bit that is set
//! in another length.

mod name;

use std::sync::Arc;

pub use name::{ChunkName, without_zeros};

/// The length for which [`joined`] is cheapest: a store's block.
pub const BLOCK: usize = 4096;

/// The polynomial, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// `x` to the power of 2ⁿ.
const POWERS: [u32; 64] = powers();
/// What a sum becomes when [`BLOCK`] bytes follow, for each value of each of its bytes.
static PAST_BLOCK: [[u32; 256]; 4] = past(BLOCK as u64);

/// The sum of bytes.
pub fn of(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= WITHOUT_WIDE && !std::arch::is_x86_feature_detected!("avx512vl") {
        return crc32c::crc32c(bytes);
    }
    crc_fast::crc32_iscsi(bytes)
}

/// On processors without AVX-512 the other library is faster from this length on: a fifth at 4 KiB
/// and above on AMD's of 2021, where each byte that is written in small pieces is summed several
/// times. With AVX-512 this one is, several times.
#[cfg(target_arch = "x86_64")]
const WITHOUT_WIDE: usize = 1024;

/// The sum of bytes and `length` more, from the sums of both.
pub fn joined(first: u32, second: u32, length: usize) -> u32 {
    second
        ^ if length == BLOCK {
            let [a, b, c, d] = first.to_le_bytes();
            let past = |n: usize, byte: u8| PAST_BLOCK[n][usize::from(byte)];
            past(0, a) ^ past(1, b) ^ past(2, c) ^ past(3, d)
        } else {
            times(first, power(length as u64))
        }
}

/// The sum of bytes and, if computed in the same pass, the sums of their blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    all: u32,
    /// Of each [`BLOCK`] bytes from the first one on; what is left at the end is in none.
    blocks: Arc<[u32]>,
}

impl Sums {
    /// Sums bytes block by block.
    pub fn of(bytes: &[u8]) -> Sums {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let blocks: Arc<[u32]> = blocks.iter().map(|block| of(block)).collect();
        let all = blocks
            .iter()
            .fold(0, |sum, block| joined(sum, *block, BLOCK));
        let all = joined(all, of(rest), rest.len());
        Sums { all, blocks }
    }

    /// The sum of all bytes.
    pub fn all(&self) -> u32 {
        self.all
    }

    /// The sum of the [`BLOCK`] bytes from `at` on, if it is known.
    pub fn block(&self, at: usize) -> Option<u32> {
        let whole = at.is_multiple_of(BLOCK);
        self.blocks.get(at / BLOCK).copied().filter(|_| whole)
    }
}

/// Of all bytes only.
impl From<u32> for Sums {
    fn from(all: u32) -> Sums {
        Sums {
            all,
            ..Sums::default()
        }
    }
}

/// The product of two polynomials.
const fn times(a: u32, mut b: u32) -> u32 {
    let (mut bit, mut product) = (1_u32 << 31, 0);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        bit >>= 1;
        b = (b >> 1) ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    product
}

const fn powers() -> [u32; 64] {
    let mut powers = [1 << 30; 64];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = times(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
}

/// `x` to the power of the bits of so many bytes.
const fn power(mut bytes: u64) -> u32 {
    let (mut product, mut n) = (1 << 31, 3);
    while bytes != 0 {
        if bytes & 1 == 1 {
            product = times(product, POWERS[n]);
        }
        bytes >>= 1;
        n += 1;
    }
    product
}

const fn past(bytes: u64) -> [[u32; 256]; 4] {
    let power = power(bytes);
    let mut table = [[0; 256]; 4];
    let mut n = 0;
    while n < 4 {
        let mut value = 0;
        while value < 256 {
            table[n][value] = times((value as u32) << (8 * n), power);
            value += 1;
        }
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sum_is_crc_32c() {
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of(b""), 0);
    }

    #[test]
    fn lengths_that_memory_does_not_hold_are_powers_all_the_same() {
        // The polynomial is x + 1 times a primitive one of degree 31: x to the power of 2^31 - 1 is
        // 1.
        assert_eq!(power(u64::from(u32::MAX >> 1)), 1 << 31);
    }

    proptest! {
        #[test]
        fn sums_of_blocks_are_those_of_their_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..3 * BLOCK), at in 0..4 * BLOCK
        ) {
            let sums = Sums::of(&bytes);
            prop_assert_eq!(sums.all(), of(&bytes));
            for at in (0..4 * BLOCK).step_by(BLOCK).chain([at]) {
                let block = bytes.get(at..at + BLOCK).filter(|_| at.is_multiple_of(BLOCK));
                prop_assert_eq!(sums.block(at), block.map(of));
            }
            prop_assert_eq!(Sums::from(sums.all()).block(0), None);
        }

        #[test]
        fn the_sum_of_the_whole_follows_from_those_of_the_parts(
            first in proptest::collection::vec(any::<u8>(), 0..300), byte: u8, whole: bool, length in 0..9000_usize
        ) {
            let second = vec![byte; if whole { BLOCK } else { length }];
            let all = [&first[..], &second].concat();
            prop_assert_eq!(joined(of(&first), of(&second), second.len()), of(&all));
        }
    }
}
