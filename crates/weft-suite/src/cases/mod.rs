//! The experiments: each makes points, arithmetic only. docs/benchmarks.md says what the papers
//! found.

mod array;
mod galley;
mod pvfs;
mod sfs;
mod tile;
mod vesta_scale;
mod vesta_views;

use std::collections::BTreeSet;

use crate::part::{FileShape, Level, Part, ViewSpec};
use crate::sweep::Sweep;
use crate::{Interface, Op, SuiteError, sort};

/// An experiment of one of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Galley: broadcast, partitioned, interleaved; one call per record against strided calls.
    Galley,
    /// PVFS: against the local disk; many servers; stripe sizes; matching and mismatched
    /// partitions.
    Pvfs,
    /// Vesta §5.5: orthogonal views.
    VestaViews,
    /// Vesta §5.4: scaling.
    VestaScale,
    /// sfs: transfer sizes on growing numbers of servers.
    Sfs,
    /// CAPFS: tiled visualisation.
    Tile,
    /// A three-dimensional array: collectives against an exchange written by hand.
    Array,
    /// Vesta §5.6: FastMeshSort.
    Sort,
}

/// One measurement: who moves what, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The experiment.
    pub case: Case,
    /// Which bytes who moves.
    pub pattern: String,
    /// By which calls.
    pub interface: Interface,
    /// Bytes of a record, or what the experiment varies in its place.
    pub record: u64,
    /// I/O servers.
    pub servers: u32,
    /// Layout of the file.
    pub shape: FileShape,
    /// Calls that each client keeps in flight.
    pub depth: usize,
    /// What each client moves; as many as there are clients.
    pub parts: Vec<Part>,
    /// Where clients only read: what they write before, unmeasured.
    pub fill: Option<Vec<Part>>,
    /// On the local file system beside the volume instead of in it.
    pub local: bool,
    /// The clients exchange the bytes among themselves, so that each moves a contiguous share of
    /// the file.
    pub exchange: bool,
}

impl Case {
    /// All of them.
    pub const ALL: [Case; 8] = [
        Case::Galley,
        Case::Pvfs,
        Case::VestaViews,
        Case::VestaScale,
        Case::Sfs,
        Case::Tile,
        Case::Array,
        Case::Sort,
    ];

    /// As in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Case::Galley => "galley",
            Case::Pvfs => "pvfs",
            Case::VestaViews => "vesta-views",
            Case::VestaScale => "vesta-scale",
            Case::Sfs => "sfs",
            Case::Tile => "tile",
            Case::Array => "array",
            Case::Sort => "sort",
        }
    }

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
            // Its row is a write's.
            Case::Sort if !sweep.wants(Op::Write) => Vec::new(),
            Case::Sort => sort::points(sweep),
        };
        let (wanted, others): (Vec<Point>, Vec<Point>) =
            points.into_iter().partition(|point| sweep.allows(point));
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

/// Calls of a client, at most, where every record is a call of its own: the rest of its share is
/// left out.
const CALLS: u64 = 4096;

/// How many of `records` a client moves by `interface`: all, or as many as there are calls, scaled.
fn affordable(sweep: &Sweep, interface: Interface, records: u64) -> u64 {
    let most = match interface {
        Interface::Strided | Interface::Collective => u64::MAX,
        Interface::Traditional | Interface::Posix => sweep.scaled(CALLS).max(16),
    };
    records.clamp(1, most)
}

/// The same bytes in one call where the interface can, else a call per record.
fn by(interface: Interface, part: Part) -> Part {
    match interface {
        Interface::Strided | Interface::Collective => part.whole(),
        Interface::Traditional | Interface::Posix => part,
    }
}

/// `bytes` of a file in canonical order, in shares that `clients` write before they read.
fn fill(bytes: u64, clients: u32) -> Vec<Part> {
    let share = bytes.div_ceil(u64::from(clients));
    (0..u64::from(clients))
        .map(|client| {
            let at = (client * share).min(bytes);
            let length = share.min(bytes - at);
            Part {
                view: ViewSpec::Canonical,
                at,
                record: length,
                levels: vec![Level {
                    stride: length,
                    times: 1,
                }],
                inner: 1,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Place;

    #[test]
    fn every_case_makes_points_for_every_place() {
        for case in Case::ALL {
            for place in [Place::Own, Place::Standing(3), Place::Path] {
                let sweep = Sweep {
                    scale: 0.001,
                    place,
                    ..Sweep::default()
                };
                let points = case.points(&sweep).unwrap();
                for pattern in case.patterns() {
                    let there = points.iter().any(|p| p.pattern == *pattern);
                    let local = match *pattern {
                        "local-disk" => place != Place::Own,
                        "exchange" => place == Place::Path,
                        _ => false,
                    };
                    assert!(there || local, "{} {pattern} {place:?}", case.name());
                }
                for point in points {
                    assert!(!point.parts.is_empty());
                    assert!(point.parts.iter().all(|p| p.bytes() > 0), "{point:?}");
                    let path = place == Place::Path || point.local;
                    assert_eq!(path, point.interface == Interface::Posix);
                }
            }
        }
    }

    #[test]
    fn what_a_case_does_not_vary_narrows_it_too_and_what_is_left_out_is_named() {
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
        assert!(Case::Sort.points(&reads).is_err(), "it only writes");
    }

    #[test]
    fn unknown_patterns_are_named_with_those_there_are() {
        let sweep = Sweep {
            patterns: vec!["diagonal".into()],
            ..Sweep::default()
        };
        let error = Case::Galley.points(&sweep).unwrap_err().to_string();
        assert!(error.contains("diagonal") && error.contains("interleaved"));
    }
}
