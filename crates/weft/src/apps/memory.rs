//! How much memory workers may use.

use crate::process::memory;

/// The least that workers get by default.
const LEAST: u64 = 64 << 20;
/// The most that a worker gets by default.
const MOST: u64 = 1 << 30;

/// What each of this many workers may use: a quarter of the memory that is available, shared.
pub(crate) fn default_for(workers: u32) -> u64 {
    let available = available().unwrap_or(0).min(memory::limit());
    (available / 4 / u64::from(workers.max(1))).clamp(LEAST, MOST)
}

fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_bounded() {
        for workers in [0, 1, 4, 1000] {
            assert!((LEAST..=MOST).contains(&default_for(workers)));
        }
    }
}
