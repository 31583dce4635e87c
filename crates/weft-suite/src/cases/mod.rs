//! The experiments, one file for each: a case turns a [`Sweep`] into [`Point`]s, by arithmetic
//! only. `docs/benchmarks.md` says what the papers found.
//!
//! Owns no state. Invariants: the same sweep gives the same points; where each record is a call, a
//! client makes a bounded number of calls (`records.rs`; `array` on a path excepted). Nothing here
//! starts a volume or a process, or measures: `leader/` and `worker/` do.

mod addressed;
mod array;
mod beside;
mod files;
mod galley;
mod order;
mod policies;
mod pvfs;
mod records;
mod sfs;
mod small;
mod sort;
mod tile;
mod vesta_scale;
mod vesta_views;

use std::collections::BTreeSet;

use crate::error::SuiteError;
use crate::point::{Case, Point};
use crate::sweep::Sweep;

impl Case {
    /// The patterns it has.
    pub fn patterns(self) -> &'static [&'static str] {
        match self {
            Case::Galley => galley::PATTERNS,
            Case::Pvfs => pvfs::PATTERNS,
            Case::VestaViews => vesta_views::PATTERNS,
            Case::VestaScale => vesta_scale::PATTERNS,
            Case::Sfs => sfs::PATTERNS,
            Case::Tile => tile::PATTERNS,
            Case::Array => array::PATTERNS,
            Case::Sort => sort::PATTERNS,
            Case::Order => order::PATTERNS,
            Case::Addressed => addressed::PATTERNS,
            Case::Policies => policies::PATTERNS,
            Case::Small => small::PATTERNS,
            Case::Files => files::PATTERNS,
        }
    }

    /// The points that a sweep chooses.
    ///
    /// # Errors
    /// [`SuiteError::Asked`] when none is left, or the sweep cannot be.
    pub fn points(self, sweep: &Sweep) -> Result<Vec<Point>, SuiteError> {
        sweep.check(self.patterns())?;
        let points = match self {
            Case::Galley => galley::points(sweep),
            Case::Pvfs => pvfs::points(sweep),
            Case::VestaViews => vesta_views::points(sweep),
            Case::VestaScale => vesta_scale::points(sweep),
            Case::Sfs => sfs::points(sweep),
            Case::Tile => tile::points(sweep),
            Case::Array => array::points(sweep),
            Case::Sort => sort::points(sweep),
            Case::Order => order::points(sweep),
            Case::Addressed => addressed::points(sweep),
            Case::Policies => policies::points(sweep),
            Case::Small => small::points(sweep),
            Case::Files => files::points(sweep),
        };
        let (wanted, others): (Vec<Point>, Vec<Point>) = points
            .into_iter()
            .filter(|point| point.steps.iter().any(|op| sweep.wants(*op)))
            .partition(|point| sweep.allows(point));
        if wanted.is_empty() {
            let there = others.iter().map(|p| (p.parts.len(), p.record));
            let there: BTreeSet<_> = there.collect();
            let there = there.iter().take(8).map(|(clients, record)| {
                format!("; there is record {record} by {clients} clients")
            });
            return Err(SuiteError::Asked(format!(
                "nothing of {} is left to measure; leave out some of the options{}",
                self.name(),
                there.collect::<String>()
            )));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Interface, Op};
    use crate::sweep::TargetKind;

    #[test]
    fn every_case_makes_points_for_every_place() {
        for case in Case::ALL {
            for place in [TargetKind::Own, TargetKind::Standing(3), TargetKind::Path] {
                let sweep = Sweep {
                    scale: 0.001,
                    place,
                    ..Sweep::default()
                };
                let points = case.points(&sweep).unwrap();
                for pattern in case.patterns() {
                    let there = points.iter().any(|p| p.pattern == *pattern);
                    let local = match *pattern {
                        "local-disk" => place != TargetKind::Own,
                        "exchange" => place == TargetKind::Path,
                        _ => false,
                    };
                    assert!(there || local, "{} {pattern} {place:?}", case.name());
                }
                for point in points {
                    assert!(!point.parts.is_empty());
                    assert!(point.parts.iter().all(|p| p.bytes() > 0), "{point:?}");
                    let path = place == TargetKind::Path || point.local;
                    assert_eq!(path, point.interface == Interface::Posix);
                }
            }
        }
    }

    #[test]
    fn a_filter_that_no_point_matches_is_refused_with_the_reason() {
        let narrow = |case: Case, clients: &[u32], records: &[u64]| {
            let sweep = Sweep {
                clients: clients.to_vec(),
                records: records.to_vec(),
                ..Sweep::default()
            };
            case.points(&sweep)
        };
        let nine = narrow(Case::Tile, &[9], &[]).unwrap();
        assert!(nine.iter().all(|p| p.parts.len() == 9));
        let error = narrow(Case::Tile, &[4], &[]).unwrap_err().to_string();
        assert!(error.contains("by 9 clients"), "{error}");
        assert!(narrow(Case::Array, &[8], &[64]).is_err());
        for point in narrow(Case::Pvfs, &[4], &[]).unwrap() {
            assert_eq!(point.parts.len(), 4, "{}", point.pattern);
        }
        let reads = Sweep {
            ops: vec![Op::Read],
            ..Sweep::default()
        };
        assert!(Case::Sort.points(&reads).is_err(), "the case has no reads");
        let stats = Sweep {
            ops: vec![Op::Stat],
            ..Sweep::default()
        };
        assert!(Case::Galley.points(&stats).is_err(), "no files are made");
        assert!(Case::Files.points(&stats).is_ok());
    }

    #[test]
    fn an_unknown_pattern_is_refused_with_the_known_ones() {
        let sweep = Sweep {
            patterns: vec!["diagonal".into()],
            ..Sweep::default()
        };
        let error = Case::Galley.points(&sweep).unwrap_err().to_string();
        assert!(error.contains("diagonal") && error.contains("interleaved"));
    }
}
