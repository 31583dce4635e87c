//! What the clients of one round report, and the rows that rounds make.

use crate::latency::Latencies;
use crate::point::Point;
use crate::row::{Interface, Measured, Op, Rates, Row};
use crate::sweep::Sweep;
use crate::task::Report;

/// One round of one point.
pub(super) struct Round {
    seconds: f64,
    bytes: u64,
    latencies: Latencies,
    messages: Option<u64>,
    cpu: f64,
}

impl Round {
    pub(super) fn of(reports: &[Report]) -> Round {
        let first = reports.iter().min_by_key(|r| r.began);
        let last = reports.iter().max_by_key(|r| r.ended);
        let (seconds, cpu) = match (first, last) {
            (Some(first), Some(last)) => (
                (last.ended - first.began) as f64 / 1e9,
                last.cpu[1].share_since(first.cpu[0]),
            ),
            _ => (0.0, 0.0),
        };
        let mut latencies = Latencies::default();
        for report in reports {
            latencies.merge(&report.latencies);
        }
        Round {
            seconds,
            bytes: reports.iter().map(|r| r.moved).sum(),
            latencies,
            messages: reports.iter().map(|r| r.messages).sum(),
            cpu,
        }
    }

    fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds.max(1e-9)
    }

    fn ops_per_s(&self) -> f64 {
        self.latencies.calls() as f64 / self.seconds.max(1e-9)
    }

    fn rates(&self) -> Rates {
        Rates {
            ops: self.latencies.calls(),
            ops_per_s: self.ops_per_s(),
            mean_us: self.latencies.mean_us(),
            median_us: self.latencies.percentile_us(50),
            p99_us: self.latencies.percentile_us(99),
        }
    }
}

/// The median of the rounds.
pub(super) fn measured(
    sweep: &Sweep,
    point: &Point,
    op: Op,
    mut rounds: Vec<Round>,
) -> Option<Measured> {
    rounds.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let timed = point.case.times_calls();
    let rate = |round: &Round| {
        if timed {
            round.ops_per_s()
        } else {
            round.mib_per_s()
        }
    };
    let range = (rate(rounds.last()?), rate(rounds.first()?));
    let median = &rounds[rounds.len() / 2];
    let row = Row {
        case: point.case.name().to_owned(),
        pattern: point.pattern.clone(),
        op,
        interface: point.interface,
        record: point.record,
        servers: if point.local {
            0
        } else {
            sweep.known(point.servers)
        },
        clients: point.parts.len() as u32,
        bytes: median.bytes,
        seconds: median.seconds,
        mib_per_s: median.mib_per_s(),
        messages: median
            .messages
            .filter(|_| point.interface != Interface::Posix),
        rates: timed.then(|| median.rates()),
        replicas: None,
        label: None,
    };
    Some(Measured {
        row,
        range,
        cpu: median.cpu,
    })
}
