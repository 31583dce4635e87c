//! Choosing the layout of a new file: the options of its creator, else of its directory, else the
//! volume's default (one cell per server, all candidate servers, a base that spreads files evenly,
//! or by the space that is available if servers differ in it).
//! Addressed files all begin on the first candidate: so equal bytes at equal offsets of two files
//! are on one server, which stores them once.

use std::collections::BTreeMap;

use weft_layout::{BSU_DEFAULT, CHUNK_DEFAULT, Layout, LayoutSpec, ServerId, Storage};
use weft_parity::Shape;
use weft_proto::meta::{self, LayoutOptions};
use weft_proto::{parity_from_wire, storage_from_wire};

use crate::error::{MetaError, text};
use crate::records::record::{DefaultLayoutRecord, LayoutRecord};

/// The servers to choose from.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Every server of the volume, ascending.
    all: Vec<u32>,
    /// The servers for new files, ascending, not empty.
    candidates: Vec<u32>,
    /// The servers with replicas, and how many they have.
    replicas: BTreeMap<u32, usize>,
    /// Bytes that are available, by server, of those that have reported.
    available: BTreeMap<u32, u64>,
}

impl Pool {
    /// `all` are the servers of the volume, `candidates` those for new files: both ascending, the
    /// second not empty.
    pub(crate) fn new(
        all: Vec<u32>,
        candidates: Vec<u32>,
        replicas: BTreeMap<u32, usize>,
        available: BTreeMap<u32, u64>,
    ) -> Pool {
        Pool {
            all,
            candidates,
            replicas,
            available,
        }
    }

    /// The servers of file `id`, of these, in the order in which it takes them. If the available
    /// space differs, each is first, and is among the first few, as often as its space is a share
    /// of all; one that has almost none left gets nothing.
    fn spread_over(&self, mut servers: Vec<u32>, id: u64) -> Vec<u32> {
        let known = servers.iter().filter_map(|s| self.available.get(s));
        let most = known.max().copied().unwrap_or(0);
        let space = |server: &u32| self.available.get(server).copied().unwrap_or(most);
        let least = servers.iter().map(space).min().unwrap_or(0);
        if most - least <= most / UNEVEN_SHARE {
            let at = spread(id) % servers.len() as u64;
            servers.rotate_left(at as usize);
            return servers;
        }
        servers.retain(|server| space(server) > most / FULL_SHARE);
        // A race: the time of each is distributed exponentially, by its space.
        let time = |server: &u32| {
            let drawn = spread(id ^ spread(u64::from(*server) + 1));
            let drawn = (drawn as f64 + 1.0) / (u64::MAX as f64 + 2.0);
            -drawn.ln() / space(server) as f64
        };
        servers.sort_by(|a, b| time(a).total_cmp(&time(b)));
        servers
    }

    fn replicas_of(&self, server: u32) -> usize {
        self.replicas.get(&server).copied().unwrap_or(1)
    }

    /// The servers that a file may have, of these.
    fn fitting(&self, servers: &[u32], least: usize, path: &[u8]) -> Result<Vec<u32>, MetaError> {
        let refuse = |reason| MetaError::Invalid {
            path: text(path),
            reason,
        };
        let has = |server: &&u32| self.replicas_of(**server) >= least;
        let fitting: Vec<u32> = servers.iter().filter(has).copied().collect();
        if fitting.is_empty() {
            return Err(refuse(
                "no server has so many replicas: `weft status` lists them",
            ));
        }
        Ok(fitting)
    }
}

/// Chooses the layout of file `id`.
pub(crate) fn choose(
    pool: &Pool,
    id: u64,
    layout_options: Option<&LayoutOptions>,
    inherited: Option<&DefaultLayoutRecord>,
    path: &[u8],
) -> Result<LayoutRecord, MetaError> {
    let none = DefaultLayoutRecord::default();
    let inherited = inherited.unwrap_or(&none);
    let own = layout_options
        .map(DefaultLayoutRecord::from)
        .unwrap_or_default();
    let named = [&own.servers, &inherited.servers];
    let named = named.into_iter().find(|servers| !servers.is_empty());
    // The directory's base does not apply to servers that the creator named.
    let inherited_base = inherited.base.filter(|_| own.servers.is_empty());
    let base = own.base.or(inherited_base);
    let storage = storage_from_wire(own.storage.or(inherited.storage).unwrap_or(0));
    let storage = storage.map_err(|_| MetaError::Invalid {
        path: text(path),
        reason: "chunks can be kept plain (0) or addressed (1)",
    })?;
    let parity = own.parity.or(inherited.parity).unwrap_or(0);
    let shape = shape(parity, path)?;
    if shape.is_some() && storage == Storage::Addressed {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: ADDRESSED_PARITY,
        });
    }
    // What is not coded yet has as many copies as the loss of m servers leaves one of.
    let copies = shape.map_or(1, |shape| shape.parity() + 1);
    let least = own.replicas.or(inherited.replicas).unwrap_or(1).max(copies) as usize;
    let from = named.unwrap_or(&pool.candidates);
    let mut servers = pool.fitting(from, least, path)?;
    if named.is_some_and(|named| named.len() != servers.len()) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "not all of the named servers have so many replicas",
        });
    }
    for server in named.into_iter().flatten() {
        if pool.all.binary_search(server).is_err() {
            return Err(MetaError::UnknownServer { server: *server });
        }
    }
    if let Some(base) = base {
        if named.is_none() && !servers.contains(&base) && pool.all.binary_search(&base).is_ok() {
            // The caller named a base that is not up at the moment.
            servers = pool.fitting(&pool.all, least, path)?;
        }
        let at = servers.iter().position(|server| *server == base);
        let at = at.ok_or_else(|| MetaError::BaseNotAmong {
            path: text(path),
            base,
        })?;
        servers.rotate_left(at);
    } else if named.is_none() && storage == Storage::Plain {
        servers = pool.spread_over(servers, id);
    }
    let pieces = shape.map_or(1, |shape| shape.pieces() as usize);
    if servers.len() < pieces {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: FEW_SERVERS,
        });
    }
    let cells = own
        .cells
        .or(inherited.cells)
        .unwrap_or(servers.len() as u32);
    if named.is_none() {
        // Requests to servers without a cell would be useless.
        servers.truncate((cells as usize).max(pieces));
    }
    let spec = LayoutSpec {
        cells,
        bsu: own.bsu.or(inherited.bsu).unwrap_or(BSU_DEFAULT),
        chunk: own.chunk.or(inherited.chunk).unwrap_or(CHUNK_DEFAULT),
        servers: servers.into_iter().map(ServerId).collect(),
        storage,
    };
    match Layout::new(spec) {
        Ok(layout) => Ok(LayoutRecord {
            parity,
            ..LayoutRecord::from(&meta::Layout::from(&layout))
        }),
        Err(source) => Err(MetaError::Layout {
            path: text(path),
            source,
        }),
    }
}

fn shape(parity: u32, path: &[u8]) -> Result<Option<Shape>, MetaError> {
    parity_from_wire(parity).map_err(|_| MetaError::Invalid {
        path: text(path),
        reason: "parity is K+M, with K from 1 to 64 and M from 1 to 4",
    })
}

/// Refuses parity that a file on these servers cannot have.
pub(crate) fn check_parity(
    pool: &Pool,
    layout: &LayoutRecord,
    parity: u32,
    path: &[u8],
) -> Result<(), MetaError> {
    let Some(shape) = shape(parity, path)? else {
        return Ok(());
    };
    let refuse = |reason| MetaError::Invalid {
        path: text(path),
        reason,
    };
    if layout.storage != 0 {
        return Err(refuse(ADDRESSED_PARITY));
    }
    if layout.servers.len() < shape.pieces() as usize {
        return Err(refuse(FEW_SERVERS));
    }
    let copies = shape.parity() as usize + 1;
    if layout
        .servers
        .iter()
        .any(|server| pool.replicas_of(*server) < copies)
    {
        return Err(refuse("not all of its servers have m + 1 replicas"));
    }
    Ok(())
}

const ADDRESSED_PARITY: &str = "addressed files have no parity";
const FEW_SERVERS: &str =
    "parity k+m needs k + m servers with m + 1 replicas each: `weft status` lists them";

/// Servers are alike if their available space differs by less than one such share.
const UNEVEN_SHARE: u64 = 4;
/// A server with less than such a share of what the emptiest has gets no new files.
const FULL_SHARE: u64 = 32;

/// Spreads consecutive ids evenly (the finalizer of splitmix64).
fn spread(id: u64) -> u64 {
    let mut x = id.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addressed_files_begin_on_one_server_and_plain_ones_on_all() {
        let firsts = |storage: u32| {
            let options = LayoutOptions {
                storage: Some(storage),
                ..LayoutOptions::default()
            };
            let first = |id| {
                choose(&pool(), id, Some(&options), None, b"/f")
                    .unwrap()
                    .servers[0]
            };
            (0..50)
                .map(first)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(firsts(0).into_iter().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(firsts(1).into_iter().collect::<Vec<_>>(), [1]);
    }

    fn pool() -> Pool {
        Pool {
            all: vec![1, 2, 3, 4],
            candidates: vec![1, 2, 4],
            replicas: BTreeMap::new(),
            available: BTreeMap::new(),
        }
    }

    #[test]
    fn files_go_to_servers_by_the_space_that_they_have() {
        let pool = Pool {
            available: [(1, 100 << 30), (2, 1 << 30), (4, 300 << 30)].into(),
            ..pool()
        };
        let count = |cells: u32| {
            let options = LayoutOptions {
                cells: Some(cells),
                ..LayoutOptions::default()
            };
            let mut count = BTreeMap::<u32, u32>::new();
            for id in 0..4000 {
                let layout = choose(&pool, id, Some(&options), None, b"f").unwrap();
                for server in layout.servers {
                    *count.entry(server).or_default() += 1;
                }
            }
            count
        };
        let one = count(1);
        assert!(!one.contains_key(&2), "it is almost full: {one:?}");
        assert!((900..1100).contains(&one[&1]), "{one:?}");
        assert!((2900..3100).contains(&one[&4]), "{one:?}");
        assert_eq!(count(2), [(1, 4000), (4, 4000)].into());
    }

    #[test]
    fn files_get_servers_with_as_many_replicas_as_were_asked_for() {
        let pool = Pool {
            replicas: [(2, 2), (4, 3)].into(),
            ..pool()
        };
        let on = |replicas, storage, servers: &[u32]| {
            let options = LayoutOptions {
                replicas,
                storage,
                servers: servers.to_vec(),
                ..LayoutOptions::default()
            };
            let chosen = choose(&pool, 7, Some(&options), None, b"f");
            chosen.map(|layout| {
                let mut servers = layout.servers;
                servers.sort_unstable();
                servers
            })
        };
        assert_eq!(on(None, None, &[]).unwrap(), [1, 2, 4]);
        assert_eq!(on(Some(2), None, &[]).unwrap(), [2, 4]);
        assert_eq!(on(Some(3), None, &[]).unwrap(), [4]);
        assert_eq!(on(Some(2), None, &[2]).unwrap(), [2]);
        assert_eq!(on(Some(2), Some(1), &[]).unwrap(), [2, 4], "addressed");
        for (replicas, storage, servers) in [
            (Some(4), None, &[][..]),
            (Some(3), None, &[2, 4]),
            (Some(2), Some(1), &[1, 2]),
        ] {
            let refused = on(replicas, storage, servers).unwrap_err();
            assert!(matches!(refused, MetaError::Invalid { .. }), "{refused}");
        }
        let directory = DefaultLayoutRecord {
            replicas: Some(3),
            ..DefaultLayoutRecord::default()
        };
        let inherited = choose(&pool, 7, None, Some(&directory), b"f").unwrap();
        assert_eq!(inherited.servers, [4]);
    }

    fn servers(
        layout_options: &LayoutOptions,
        inherited: Option<&DefaultLayoutRecord>,
    ) -> Result<Vec<u32>, MetaError> {
        choose(&pool(), 7, Some(layout_options), inherited, b"f").map(|layout| layout.servers)
    }

    #[test]
    fn bases_are_spread_evenly() {
        let mut bases = [0; 5];
        for id in 0..3000 {
            let layout = choose(&pool(), id, None, None, b"f").unwrap();
            assert_eq!(layout.cells, 3);
            bases[layout.servers[0] as usize] += 1;
        }
        assert_eq!((bases[0], bases[3]), (0, 0));
        assert!(
            [bases[1], bases[2], bases[4]]
                .iter()
                .all(|n| (900..1100).contains(n))
        );
    }

    #[test]
    fn the_options_of_the_creator_take_precedence_over_those_of_the_directory() {
        let directory = DefaultLayoutRecord {
            cells: Some(9),
            bsu: Some(17),
            servers: vec![3, 1],
            base: Some(1),
            ..DefaultLayoutRecord::default()
        };
        let layout_options = LayoutOptions {
            cells: Some(2),
            ..LayoutOptions::default()
        };
        let layout = choose(&pool(), 7, Some(&layout_options), Some(&directory), b"f").unwrap();
        assert_eq!(
            (layout.cells, layout.bsu, layout.servers),
            (2, 17, vec![1, 3])
        );
        let layout_options = LayoutOptions {
            servers: vec![4, 2],
            ..LayoutOptions::default()
        };
        assert_eq!(servers(&layout_options, Some(&directory)).unwrap(), [4, 2]);
    }

    #[test]
    fn a_base_comes_first_even_if_it_is_down() {
        let base = |base| LayoutOptions {
            base: Some(base),
            ..LayoutOptions::default()
        };
        assert_eq!(servers(&base(4), None).unwrap(), [4, 1, 2]);
        assert_eq!(servers(&base(3), None).unwrap(), [3, 4, 1, 2]);
        assert!(matches!(
            servers(&base(9), None),
            Err(MetaError::BaseNotAmong { base: 9, .. })
        ));
        let layout_options = LayoutOptions {
            servers: vec![1, 2],
            ..base(3)
        };
        assert!(matches!(
            servers(&layout_options, None),
            Err(MetaError::BaseNotAmong { base: 3, .. })
        ));
    }

    #[test]
    fn illegal_options_are_refused() {
        let refused = |layout_options: LayoutOptions| servers(&layout_options, None).unwrap_err();
        let layout_options = LayoutOptions::default;
        let zero = refused(LayoutOptions {
            cells: Some(0),
            ..layout_options()
        });
        assert!(matches!(zero, MetaError::Layout { .. }), "{zero}");
        let storage = refused(LayoutOptions {
            storage: Some(2),
            ..LayoutOptions::default()
        });
        assert!(matches!(storage, MetaError::Invalid { .. }), "{storage}");
        let chunk = refused(LayoutOptions {
            chunk: Some(1),
            ..layout_options()
        });
        assert!(matches!(chunk, MetaError::Layout { .. }), "{chunk}");
        let twice = refused(LayoutOptions {
            servers: vec![1, 1],
            ..layout_options()
        });
        assert!(matches!(twice, MetaError::Layout { .. }), "{twice}");
        let unknown = refused(LayoutOptions {
            servers: vec![1, 8],
            ..layout_options()
        });
        assert!(
            matches!(unknown, MetaError::UnknownServer { server: 8 }),
            "{unknown}"
        );
    }
}
