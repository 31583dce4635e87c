//! How long single calls took.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets in each power of two. The width of a bucket is at most 1/64 of its values, so that a
/// percentile is within 2 %, as fio's are.
const FINENESS: u64 = 64;

/// Counts of calls by how long they took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latencies {
    /// By number of the bucket; only those that are not empty.
    buckets: BTreeMap<u64, u64>,
    calls: u64,
    sum: u64,
}

impl Latencies {
    /// A call has ended.
    pub(crate) fn add(&mut self, nanoseconds: u64) {
        *self.buckets.entry(bucket(nanoseconds)).or_default() += 1;
        self.calls += 1;
        self.sum += nanoseconds;
    }

    /// Those of another client, too.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        for (bucket, calls) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += calls;
        }
        self.calls += other.calls;
        self.sum += other.sum;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Of all calls, in microseconds; 0 if there are none.
    pub(crate) fn mean_us(&self) -> f64 {
        self.sum as f64 / 1000.0 / self.calls.max(1) as f64
    }

    /// Microseconds that `percent` of the calls did not exceed; 0 if there are none.
    pub(crate) fn percentile_us(&self, percent: u64) -> f64 {
        let wanted = (self.calls * percent).div_ceil(100);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, calls)| {
            seen += **calls;
            seen >= wanted
        });
        found.map_or(0.0, |(bucket, _)| middle(*bucket) / 1000.0)
    }
}

/// The bucket of a value: itself below [`FINENESS`], then [`FINENESS`] buckets for each power of
/// two.
fn bucket(value: u64) -> u64 {
    let shift = shift_of(value);
    shift * FINENESS + (value >> shift)
}

/// How many low bits a bucket does not tell apart.
fn shift_of(value: u64) -> u64 {
    u64::from((value / FINENESS).checked_ilog2().unwrap_or(0))
}

/// A value in the middle of a bucket.
fn middle(bucket: u64) -> f64 {
    let shift = (bucket / FINENESS).saturating_sub(1);
    let first = (bucket - shift * FINENESS) << shift;
    first as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_two_percent() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        for call in 1..=1000_u64 {
            let to = if call <= 500 { &mut low } else { &mut high };
            to.add(call * 1000);
        }
        low.merge(&high);
        assert_eq!(low.calls(), 1000);
        for (percent, expected) in [(1, 10.0), (50, 500.0), (99, 990.0), (100, 1000.0)] {
            let found = low.percentile_us(percent);
            assert!((found / expected - 1.0).abs() < 0.02, "{percent}: {found}");
        }
        assert!((low.mean_us() - 500.5).abs() < 1e-6);
    }

    #[test]
    fn every_value_is_near_the_middle_of_its_bucket() {
        let mut last = 0;
        for value in (0..5000).chain((13..63).flat_map(|log| [(1 << log) - 1, 1 << log])) {
            let bucket = bucket(value);
            assert!(bucket >= last, "{value}");
            last = bucket;
            let off = (middle(bucket) - value as f64).abs();
            assert!(off <= value as f64 / 64.0, "{value}: {}", middle(bucket));
        }
        assert!(Latencies::default().percentile_us(50) == 0.0);
    }
}
