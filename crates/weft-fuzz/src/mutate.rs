//! Bytes that are nearly valid.

/// A small generator, so that a seed means the same everywhere (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }
}

/// Some of `seed` changed; `other` gives bytes to put in. One in two gets checksums that are right,
/// so that what is behind them is reached.
pub fn mutated(seed: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.below(3) {
        change(&mut bytes, other, dice);
    }
    match dice.below(6) {
        0 | 1 => reseal(&mut bytes),
        2 => reseal_log(&mut bytes),
        3 => reseal_frame(&mut bytes),
        _ => {}
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    if bytes.is_empty() {
        return bytes.extend_from_slice(other);
    }
    let at = dice.below(bytes.len());
    let length = 1 + dice.below((bytes.len() - at).min(16));
    match dice.below(8) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
        2 => bytes[at..at + length].fill(0xff),
        3 => bytes[at..at + length].fill(0),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..at + length)),
        6 => {
            let again = bytes[at..at + length].to_vec();
            bytes.splice(at..at, again);
        }
        _ if !other.is_empty() => {
            let from = dice.below(other.len());
            let taken = other[from..].iter().take(16).copied();
            let taken: Vec<u8> = taken.collect();
            let end = (at + taken.len()).min(bytes.len());
            bytes.splice(at..end, taken);
        }
        _ => bytes.swap(at, 0),
    }
}

/// Bytes and their checksum, as values of the index end.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend([0; 4]);
    reseal(&mut bytes);
    bytes
}

fn reseal(bytes: &mut [u8]) {
    if let Some((front, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = weft_sum::of(front).to_le_bytes();
    }
}

/// A frame of the log: length of the body at 4, its checksum at 16, the header's at 28; padded to 8
/// bytes, the last of them `e5`.
fn reseal_log(bytes: &mut Vec<u8>) {
    if bytes.len() < 32 {
        return;
    }
    bytes[..4].copy_from_slice(b"WfL\x02");
    let body = bytes.len() - 32;
    bytes[4..8].copy_from_slice(&(body as u32).to_le_bytes());
    let crc = weft_sum::of(&bytes[32..]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    let crc = weft_sum::of(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    bytes.resize(32 + (body + 1).next_multiple_of(8), 0);
    bytes.pop();
    bytes.push(0xe5);
}

/// A frame of the wire: lengths at 16 and 20, the payload's checksum at 24, that of header and body
/// at 28.
fn reseal_frame(bytes: &mut [u8]) {
    if bytes.len() < 32 {
        return;
    }
    let rest = bytes.len() - 32;
    let body = rest / 2;
    bytes[..4].copy_from_slice(b"WEFT");
    bytes[16..20].copy_from_slice(&(body as u32).to_le_bytes());
    bytes[20..24].copy_from_slice(&((rest - body) as u32).to_le_bytes());
    let crc = weft_sum::of(&bytes[32 + body..]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    let covered = [&bytes[..28], &bytes[32..32 + body]].concat();
    bytes[28..32].copy_from_slice(&weft_sum::of(&covered).to_le_bytes());
}
