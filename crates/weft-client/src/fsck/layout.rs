//! A layout for cells of which nothing else is known.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::{BSU_DEFAULT, CHUNK_DEFAULT, LayoutSpec, ServerId, of_chunk_code};
use weft_proto::fsck::CellState;
use weft_proto::meta;

/// The layout with the fewest servers that has each of these cells where it is; the BSU, of which
/// the cells tell nothing, is the one that files have by default. `None` where a cell is on two
/// servers, or no layout puts them where they are.
pub(super) fn fitting(cells: &[(u32, CellState)], servers: &[u32]) -> Option<meta::Layout> {
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    for (server, cell) in cells {
        if *places.entry(cell.cell).or_insert(*server) != *server {
            return None;
        }
    }
    let count = places.keys().next_back().map_or(1, |last| last + 1);
    let most = (count as usize).min(servers.len());
    let servers = (1..=most).find_map(|n| slots(&places, n, servers))?;
    let code = cells
        .iter()
        .map(|(_, cell)| cell.chunk)
        .find(|chunk| *chunk != 0);
    let (chunk, storage) = of_chunk_code(code.unwrap_or(CHUNK_DEFAULT));
    let spec = LayoutSpec {
        cells: count,
        bsu: BSU_DEFAULT,
        chunk,
        servers: servers.into_iter().map(ServerId).collect(),
        storage,
    };
    weft_layout::Layout::new(spec)
        .ok()
        .map(|layout| meta::Layout::from(&layout))
}

/// The list of `n` servers that puts each cell where it is; slots without a cell get servers that
/// are left.
fn slots(places: &BTreeMap<u32, u32>, n: usize, servers: &[u32]) -> Option<Vec<u32>> {
    let mut slots: Vec<Option<u32>> = vec![None; n];
    for (cell, server) in places {
        let slot = &mut slots[*cell as usize % n];
        if *slot.get_or_insert(*server) != *server {
            return None;
        }
    }
    let used: BTreeSet<u32> = slots.iter().flatten().copied().collect();
    if used.len() != slots.iter().flatten().count() {
        return None;
    }
    let mut left = servers
        .iter()
        .copied()
        .filter(|server| !used.contains(server));
    slots
        .into_iter()
        .map(|slot| slot.or_else(|| left.next()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(server: u32, cell: u32) -> (u32, CellState) {
        let state = CellState {
            cell,
            chunk: 8192,
            ..CellState::default()
        };
        (server, state)
    }

    #[test]
    fn a_layout_is_derived_from_the_places_of_the_cells() {
        let layout = fitting(&[cell(1, 0), cell(3, 2)], &[1, 2, 3]).unwrap();
        assert_eq!((layout.cells, layout.chunk), (3, 8192));
        assert_eq!(layout.servers, [1, 2, 3]);
        let layout = fitting(&[cell(7, 0), cell(7, 1), cell(7, 5)], &[1, 7]).unwrap();
        assert_eq!((layout.cells, layout.servers), (6, vec![7]));
        let layout = fitting(&[cell(2, 0), cell(1, 1), cell(2, 4)], &[1, 2]).unwrap();
        assert_eq!(layout.servers, [2, 1]);
        assert!(fitting(&[cell(1, 0), cell(2, 0)], &[1, 2]).is_none());
        assert!(
            fitting(&[], &[1]).is_some(),
            "a file without cells, which may have checkpoints, has a layout"
        );
    }
}
