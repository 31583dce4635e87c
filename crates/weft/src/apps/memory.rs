//! The default memory of workers.

use crate::limits::{WORKER_MEMORY_MAX, WORKER_MEMORY_MIN};
use crate::process::memory;

/// The memory of each of so many workers, in bytes: a quarter of the available memory, shared.
pub(crate) fn default_for(workers: u32) -> u64 {
    let available = available().unwrap_or(0).min(memory::limit());
    (available / 4 / u64::from(workers.max(1))).clamp(WORKER_MEMORY_MIN, WORKER_MEMORY_MAX)
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
    fn the_default_memory_is_bounded() {
        for workers in [0, 1, 4, 1000] {
            assert!((WORKER_MEMORY_MIN..=WORKER_MEMORY_MAX).contains(&default_for(workers)));
        }
    }
}
