//! Small records of one file by plain calls: of several processes in turn, of one process in order
//! and at random, with a sync of each, and of bytes that no cache has.
//!
//! As fio's `--bs=4k` with `--ioengine=psync`, and as IOR's with `-t` and `-b` of one record.

use super::beside::{Way, ways};
use super::records::{affordable, fill};
use crate::point::{Case, Point, READ, SyncRule, TRANSFERS};
use crate::row::Interface::Traditional;
use crate::sweep::Sweep;
use crate::workload::{FileShape, ViewSpec, Workload};

pub(super) const PATTERNS: &[&str] = &[
    "interleaved",
    "sequential",
    "random",
    "random-synced",
    "random-cold",
    "local-interleaved",
    "local-sequential",
    "local-random",
    "local-random-synced",
    "local-random-cold",
];

/// Bytes of the file.
const BYTES: u64 = 64 << 20;
/// Bytes of a file that is laid out before, at most: a client writes its share by one call, which
/// has a bound, and from memory.
const LAID_OUT_MAX: u64 = 512 << 20;
const BSU: u64 = 64 << 10;

pub(super) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    for pattern in &PATTERNS[..5] {
        let (clients, records): (u32, &[u64]) = match *pattern {
            "interleaved" => (4, &[64, 1 << 10, 4 << 10, 64 << 10]),
            _ => (1, &[4 << 10]),
        };
        for clients in sweep.clients(&[clients]) {
            for record in sweep.records(records) {
                let ways = ways(sweep, pattern, &[Traditional], &[1]);
                let ways = ways.into_iter();
                points.extend(ways.map(|way| point(sweep, pattern, way, (clients, record))));
            }
        }
    }
    points
}

fn point(sweep: &Sweep, pattern: &str, way: Way, (clients, record): (u32, u64)) -> Point {
    let several = u64::from(clients);
    let random = pattern.starts_with("random");
    let most = if random { LAID_OUT_MAX } else { u64::MAX };
    let share = (sweep.scaled(BYTES).min(most) / record / several).max(1);
    let times = affordable(sweep, way.interface, share);
    let part = |client: u64| {
        if random {
            let at = client * share * record;
            return Workload::records(ViewSpec::Canonical, at, record, record, share).pick(times);
        }
        let at = client * record;
        Workload::records(ViewSpec::Canonical, at, record, several * record, times)
    };
    Point {
        pattern: way.pattern,
        interface: way.interface,
        record,
        servers: way.servers,
        shape: FileShape {
            cells: way.servers,
            bsu: BSU,
            ..FileShape::default()
        },
        parts: (0..several).map(part).collect(),
        steps: if pattern == "random-cold" {
            READ
        } else {
            TRANSFERS
        },
        // As fio, which lays its file out before it writes into it.
        fill: random.then(|| fill(several * share * record, clients)),
        local: way.local,
        sync: if pattern == "random-synced" {
            SyncRule::Each
        } else {
            SyncRule::AsAsked
        },
        cold: pattern == "random-cold",
        ..Point::of(Case::Small)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Op;
    use crate::sweep::TargetKind;

    fn points(sweep: &Sweep) -> Vec<Point> {
        Case::Small.points(sweep).unwrap()
    }

    #[test]
    fn interleaved_records_of_all_clients_cover_the_file_once() {
        let sweep = Sweep {
            patterns: vec!["interleaved".into()],
            scale: 0.01,
            ..Sweep::default()
        };
        for point in points(&sweep) {
            assert_eq!(point.parts.len(), 4);
            let mut starts: Vec<u64> = point.parts.iter().flat_map(Workload::starts).collect();
            starts.sort_unstable();
            let in_order = (0..).map(|n| n * point.record).take(starts.len());
            assert_eq!(starts, in_order.collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_pattern_stands_beside_the_same_on_the_local_disk() {
        for place in [TargetKind::Own, TargetKind::Standing(2), TargetKind::Path] {
            let all = points(&Sweep {
                place,
                ..Sweep::default()
            });
            for pair in all.chunks(2) {
                assert_eq!(format!("local-{}", pair[0].pattern), pair[1].pattern);
                assert!(pair[1].is_beside(&pair[0]) && !pair[0].is_beside(&pair[1]));
                assert_eq!(pair[0].parts, pair[1].parts);
            }
        }
        let by_weft = points(&Sweep {
            interfaces: vec![Traditional],
            ..Sweep::default()
        });
        assert!(by_weft.iter().all(|p| !p.local));
    }

    #[test]
    fn random_calls_stay_in_the_client_s_share_of_the_file() {
        let all = points(&Sweep {
            patterns: vec!["random".into(), "random-cold".into()],
            clients: vec![3],
            ..Sweep::default()
        });
        for point in &all {
            let filled: u64 = point.fill.iter().flatten().map(Workload::bytes).sum();
            let share = filled / 3;
            for (client, part) in (0..).zip(&point.parts) {
                assert_eq!(part.calls(), 4096);
                let within = client * share..(client + 1) * share;
                assert!(part.starts().all(|at| within.contains(&at)));
            }
        }
        assert_eq!(all[1].steps, [Op::Read]);
    }
}
