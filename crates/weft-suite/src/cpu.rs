//! How busy the machine was: where its processors are the limit, bandwidth says little about
//! servers.

use serde::{Deserialize, Serialize};

/// Time that all processors together have spent, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CpuTime {
    busy: u64,
    all: u64,
}

impl CpuTime {
    /// Up to now; zeros where the kernel does not say.
    pub(crate) fn now() -> CpuTime {
        std::fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| CpuTime::parse(&text))
            .unwrap_or_default()
    }

    /// `cpu user nice system idle iowait irq softirq steal …`
    fn parse(text: &str) -> Option<CpuTime> {
        let line = text.lines().find(|l| l.starts_with("cpu "))?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(|t| t.parse().ok())
            .collect::<Option<_>>()?;
        let all = ticks.iter().sum();
        let idle: u64 = ticks.get(3..5)?.iter().sum();
        Some(CpuTime {
            busy: all - idle,
            all,
        })
    }

    /// The share of the processors' time since then that they were busy.
    pub(crate) fn share_since(self, then: CpuTime) -> f64 {
        let all = self.all.saturating_sub(then.all);
        let busy = self.busy.saturating_sub(then.busy);
        if all == 0 {
            return 0.0;
        }
        busy as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let then = CpuTime::parse("cpu  10 0 10 80 0 0 0 0 0 0\n").unwrap();
        let now = CpuTime::parse("cpu  20 0 20 100 20 0 0 0 0 0\n").unwrap();
        assert!((now.share_since(then) - 20.0 / 60.0).abs() < 1e-9);
        assert!(CpuTime::parse("intr 5").is_none());
    }
}
