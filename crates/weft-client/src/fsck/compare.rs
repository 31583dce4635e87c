//! What namespace and servers say of one file, compared.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::{CellIndex, ChunkCode, Layout, ServerSlot, Storage, of_chunk_code};
use weft_proto::fsck::{CellState, CheckpointedState, Fault, FileState, Finding};
use weft_proto::io::ForkPlace;
use weft_proto::meta;

use super::layout::fitting;
use crate::limits::NAMED_CELLS_MAX;

/// What is known of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) state: FileState,
    /// By server.
    pub(super) cells: Vec<(u32, CellState)>,
    pub(super) kept: Vec<(u32, CheckpointedState)>,
    /// Servers that have deleted it.
    pub(super) deleted: BTreeSet<u32>,
    /// Servers that do not know whether they had cells of it that they do not have.
    pub(super) doubted: BTreeSet<u32>,
    /// A server does not know how long its cells of it were.
    pub(super) ends_doubted: bool,
}

/// What is known of the servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    /// Those that cannot be asked.
    pub(super) down: BTreeSet<u32>,
    /// The first file that is not older than the server's store.
    pub(super) since: BTreeMap<u32, u64>,
}

fn place(cell: &CellState) -> ForkPlace {
    ForkPlace {
        cell: cell.cell,
        fork: cell.fork.clone(),
    }
}

pub(super) fn of(fault: Fault, file: u64) -> Finding {
    Finding {
        fault: fault as i32,
        file,
        ..Finding::default()
    }
}

fn of_cell(fault: Fault, server: u32, cell: &CellState, text: String) -> Finding {
    Finding {
        server: Some(server),
        place: Some(place(cell)),
        text,
        ..of(fault, cell.file)
    }
}

/// Whether the layout puts this cell on this server.
fn is_in_place(layout: &Layout, server: u32, cell: u32) -> bool {
    cell < layout.cells() && layout.server_of(CellIndex(cell)).0 == server
}

impl Known {
    /// The file's layout, where it has one.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.state
            .layout
            .as_ref()
            .and_then(|layout| Layout::try_from(layout).ok())
    }

    /// What does not agree; servers that are down are left out.
    pub(super) fn compare(&self, servers: &Servers) -> Vec<Finding> {
        let down = &servers.down;
        let mut findings = self.in_doubt();
        if self.state.owed {
            return findings;
        }
        if !self.state.there && self.state.held {
            // Deleted: only what checkpoints of trees need of it is there.
            if let Some(layout) = self.layout() {
                findings.extend(self.emptied(&layout, servers));
                self.checkpoints(&layout, down, &mut findings);
            }
            return findings;
        }
        if !self.state.there {
            return self.lost();
        }
        let Some(layout) = self.layout() else {
            return findings;
        };
        if self.state.spilling {
            // What its cells hold will be all of it, or be emptied.
        } else if self.state.inline {
            findings.extend(self.filled_cells().map(|(server, cell)| {
                let text = format!(
                    "{} bytes, though the file's lie with its metadata",
                    cell.length
                );
                of_cell(Fault::InlineCells, *server, cell, text)
            }));
        } else {
            self.placed(&layout, &mut findings);
        }
        let gone = self.deleted_on(&layout);
        if !gone.is_empty() {
            // What lies in the wrong place is somewhere else first, or the layout another one.
            if findings.is_empty() {
                findings.extend(self.removed(&layout, &gone, down));
            }
            return findings;
        }
        if self.state.spilling {
            return findings;
        }
        let emptied = self.emptied(&layout, servers);
        if emptied.is_empty() && !self.state.inline && !self.ends_doubted {
            self.size(&layout, down, &mut findings);
        }
        findings.extend(emptied);
        self.checkpoints(&layout, down, &mut findings);
        findings
    }

    /// Cells that should have bytes, and that their servers do not have and may have had.
    fn in_doubt(&self) -> Vec<Finding> {
        let state = &self.state;
        let (Some(layout), true, false) = (self.layout(), state.there, state.inline) else {
            return Vec::new();
        };
        let grid = layout.grid();
        let slots = layout.servers().iter().enumerate();
        let slots = slots.filter(|(_, server)| self.doubted.contains(&server.0));
        let cells = slots.flat_map(|(slot, server)| {
            let cells = grid.cells_on(ServerSlot(slot as u32));
            cells.map(move |cell| (server.0, cell))
        });
        let there = |on: u32, cell: CellIndex| {
            let mut held = self.cells.iter();
            held.any(|(server, held)| *server == on && held.cell == cell.0 && held.fork == "data")
        };
        // Forks beside `data` are not known by name: where some of their bytes are nowhere, any
        // cell may have had them.
        let forks_absent = self.other_forks(&layout) < state.fork_bytes;
        let absent = cells.filter(|(server, cell)| forks_absent || !there(*server, *cell));
        let findings = absent.filter_map(|(server, cell)| {
            let bytes = grid.cell_length(state.size, cell);
            // Of an exact size is known that the cell had none.
            (bytes > 0 || !state.size_exact || forks_absent).then(|| Finding {
                server: Some(server),
                place: Some(ForkPlace {
                    cell: cell.0,
                    fork: "data".to_owned(),
                }),
                found: bytes,
                ..of(Fault::Unproven, state.file)
            })
        });
        findings.take(NAMED_CELLS_MAX).collect()
    }

    /// Cells of a file that is not there: one finding for all.
    fn lost(&self) -> Vec<Finding> {
        if self.cells.is_empty() && self.kept.is_empty() {
            return Vec::new();
        }
        let mut finding = of(Fault::LostCells, self.state.file);
        finding.text = self.known();
        finding.found = self.cells.len() as u64;
        if let Some((server, cell)) = self.cells.first() {
            finding.server = Some(*server);
            finding.place = Some(place(cell));
        }
        if self.state.other {
            finding
                .text
                .insert_str(0, "the inode of this id is no file; ");
        }
        vec![finding]
    }

    /// What servers know of the file, in words.
    pub(super) fn known(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!("file {}", self.state.file);
        for (server, cell) in self.cells.iter().take(100) {
            let _ = write!(
                text,
                "; cell {} fork {} on server {server}: {} bytes, chunk {}, modified {}",
                cell.cell, cell.fork, cell.length, cell.chunk, cell.modified
            );
        }
        if self.cells.len() > 100 {
            let _ = write!(text, "; and {} forks more", self.cells.len() - 100);
        }
        for (server, kept) in self.kept.iter().take(100) {
            let _ = write!(
                text,
                "; checkpoint {} on server {server}, made {}",
                kept.number, kept.made
            );
        }
        text
    }

    /// The layout that the file should have by its cells, if most of those that hold bytes are
    /// against the one that it has: with servers that put each where it is, and of their chunk size
    /// where all have the same.
    pub(super) fn fitting_layout(&self, servers: &[u32]) -> Option<meta::Layout> {
        let old = self.state.layout.as_ref()?;
        let layout = self.layout().filter(|_| !self.state.inline)?;
        // What is empty may be left from another layout, that the file had before it was emptied.
        let held: Vec<_> = self.filled_cells().cloned().collect();
        let count = |wanted: &dyn Fn(u32, u32) -> bool, cells: &[(u32, CellState)]| {
            let places = cells.iter().map(|(server, cell)| (*server, cell.cell));
            let places: BTreeSet<_> = places.filter(|(on, cell)| wanted(*on, *cell)).collect();
            places.len()
        };
        let most = |wanted: &dyn Fn(u32, u32) -> bool, cells: &[(u32, CellState)]| {
            count(wanted, cells) * 2 > count(&|_, _| true, cells)
        };
        let mut new = old.clone();
        let chunks: BTreeSet<u32> = held.iter().map(|(_, cell)| cell.chunk).collect();
        if let [chunk] = chunks.iter().filter(|c| **c != 0).collect::<Vec<_>>()[..] {
            new.chunk = *chunk;
        }
        let beyond = |_, cell: u32| cell >= layout.cells();
        let more = most(&beyond, &held);
        let cells: Vec<_> = held
            .into_iter()
            .filter(|(on, cell)| more || !beyond(*on, cell.cell))
            .collect();
        let misplaced = |on, cell| !is_in_place(&layout, on, cell);
        if most(&misplaced, &cells) {
            let fits = fitting(&cells, servers)?;
            new.cells = if more {
                old.cells.max(fits.cells)
            } else {
                old.cells
            };
            new.servers = fits.servers;
        }
        (new != *old).then_some(new)
    }

    fn placed(&self, layout: &Layout, findings: &mut Vec<Finding>) {
        // An empty cell does no harm anywhere.
        for (server, cell) in self.filled_cells() {
            if cell.cell >= layout.cells() {
                let text = format!("the file has {} cells", layout.cells());
                findings.push(of_cell(Fault::Misplaced, *server, cell, text));
                continue;
            }
            let right = layout.server_of(CellIndex(cell.cell));
            if right.0 != *server {
                let text = format!("the cell lives on server {right}");
                findings.push(of_cell(Fault::Misplaced, *server, cell, text));
            } else if cell.chunk != 0 && cell.chunk != layout.chunk_code() {
                let text = format!(
                    "{} instead of {}",
                    chunk_text(cell.chunk),
                    chunk_text(layout.chunk_code())
                );
                findings.push(of_cell(Fault::ChunkSize, *server, cell, text));
            }
        }
    }

    /// Servers that are younger than the file and have nothing of it.
    fn emptied(&self, layout: &Layout, servers: &Servers) -> Vec<Finding> {
        let grid = layout.grid();
        let slots = layout.servers_in_use().iter().enumerate();
        let gone = slots.filter(|(_, server)| {
            let older = servers
                .since
                .get(&server.0)
                .is_some_and(|s| self.state.file < *s);
            older
                && !servers.down.contains(&server.0)
                && !self.cells.iter().any(|(s, _)| *s == server.0)
        });
        gone.map(|(slot, server)| {
            // The bytes of an inline file lie with its metadata; that it has cells is still to
            // come.
            let size = if self.state.inline {
                0
            } else {
                self.state.size
            };
            let cells = grid.cells_on(ServerSlot(slot as u32));
            let bytes = cells.map(|cell| grid.cell_length(size, cell));
            Finding {
                server: Some(server.0),
                expected: bytes.sum(),
                ..of(Fault::Emptied, self.state.file)
            }
        })
        .collect()
    }

    /// Cells that lie on the server where the layout puts them.
    fn cells_in_place(&self, layout: &Layout) -> impl Iterator<Item = &CellState> {
        let cells = self.cells.iter();
        let in_place = cells.filter(move |(server, cell)| is_in_place(layout, *server, cell.cell));
        in_place.map(|(_, cell)| cell)
    }

    /// Cells that hold bytes.
    pub(super) fn filled_cells(&self) -> impl Iterator<Item = &(u32, CellState)> {
        self.cells.iter().filter(|(_, cell)| cell.length > 0)
    }

    /// Whether a server of the layout cannot be asked.
    pub(super) fn has_server_down(layout: &Layout, down: &BTreeSet<u32>) -> bool {
        layout
            .servers()
            .iter()
            .any(|server| down.contains(&server.0))
    }

    /// The size in canonical order that the cells give the file.
    pub(super) fn cells_size(&self, layout: &Layout) -> u64 {
        let grid = layout.grid();
        let in_place = self.cells_in_place(layout);
        let data = in_place.filter(|cell| cell.fork == "data");
        data.map(|cell| grid.file_size(CellIndex(cell.cell), cell.length))
            .max()
            .unwrap_or(0)
    }

    /// Bytes of the forks beside `data`.
    fn other_forks(&self, layout: &Layout) -> u64 {
        let in_place = self.cells_in_place(layout);
        let others = in_place.filter(|cell| cell.fork != "data");
        others.fold(0, |sum: u64, cell| sum.saturating_add(cell.length))
    }

    fn size(&self, layout: &Layout, down: &BTreeSet<u32>, findings: &mut Vec<Finding>) {
        let state = &self.state;
        if !state.size_exact || state.open || Self::has_server_down(layout, down) {
            return;
        }
        let others = self.other_forks(layout);
        if others != state.fork_bytes {
            findings.push(Finding {
                expected: others,
                found: state.fork_bytes,
                ..of(Fault::ForkBytes, state.file)
            });
        }
        let size = self.cells_size(layout);
        if size == state.size {
            return;
        }
        let mut finding = Finding {
            expected: size,
            found: state.size,
            ..of(
                if size < state.size {
                    Fault::Short
                } else {
                    Fault::Long
                },
                state.file,
            )
        };
        if size < state.size {
            let cell = ((state.size - 1) / layout.bsu() % u64::from(layout.cells())) as u32;
            finding.server = Some(layout.server_of(CellIndex(cell)).0);
            let fork = "data".to_owned();
            finding.place = Some(ForkPlace { cell, fork });
        }
        findings.push(finding);
    }

    fn checkpoints(&self, layout: &Layout, down: &BTreeSet<u32>, findings: &mut Vec<Finding>) {
        let kept: BTreeSet<(u32, u64)> = self.kept.iter().map(|(s, k)| (*s, k.number)).collect();
        for checkpoint in self.state.checkpoints.iter().filter(|c| c.there) {
            for server in layout
                .servers_in_use()
                .iter()
                .filter(|s| !down.contains(&s.0))
            {
                if !kept.contains(&(server.0, checkpoint.number)) {
                    findings.push(Finding {
                        server: Some(server.0),
                        expected: checkpoint.number,
                        ..of(Fault::CheckpointMissing, self.state.file)
                    });
                }
            }
        }
        let listed: BTreeSet<u64> = self.state.checkpoints.iter().map(|c| c.number).collect();
        let unknown: BTreeSet<u64> = kept
            .iter()
            .map(|(_, number)| *number)
            .filter(|n| !listed.contains(n))
            .collect();
        findings.extend(unknown.into_iter().map(|number| Finding {
            expected: number,
            ..of(Fault::CheckpointUnknown, self.state.file)
        }));
    }
}

/// A chunk size in words.
fn chunk_text(code: ChunkCode) -> String {
    match of_chunk_code(code) {
        (size, Storage::Plain) => size.to_string(),
        (size, Storage::Addressed) => format!("{size}, addressed,"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use weft_proto::fsck::ListedCheckpoint;
    use weft_proto::meta::Layout as WireLayout;

    use super::*;

    pub(in crate::fsck) const FILE: u64 = 40;
    const CHUNK: u32 = 4096;

    /// A file of three cells on servers 0, 1, 2 with 30 bytes in each.
    pub(in crate::fsck) fn whole() -> Known {
        let layout = WireLayout {
            cells: 3,
            bsu: 10,
            chunk: CHUNK,
            servers: vec![0, 1, 2],
            storage: 0,
            parity: 0,
        };
        let state = FileState {
            file: FILE,
            there: true,
            layout: Some(layout),
            size: 90,
            size_exact: true,
            ..FileState::default()
        };
        Known {
            state,
            cells: (0..3).map(|n| (n, cell(n))).collect(),
            ..Known::default()
        }
    }

    pub(in crate::fsck) fn cell(cell: u32) -> CellState {
        CellState {
            file: FILE,
            cell,
            fork: "data".to_owned(),
            length: 30,
            modified: 1,
            chunk: CHUNK,
        }
    }

    /// Each fault with its server.
    pub(in crate::fsck) fn faults(known: &Known) -> Vec<(Fault, Option<u32>)> {
        let findings = known.compare(&Servers::default());
        let named = |f: &Finding| (Fault::try_from(f.fault).unwrap(), f.server);
        assert!(findings.iter().all(|f| f.file == FILE));
        findings.iter().map(named).collect()
    }

    #[test]
    fn an_intact_file_has_no_faults() {
        assert_eq!(faults(&whole()), []);
    }

    #[test]
    fn cells_on_a_wrong_server_or_beyond_the_layout_are_misplaced() {
        let mut known = whole();
        known.cells.push((2, cell(1)));
        known.cells.push((0, cell(3)));
        let misplaced = [2, 0].map(|server| (Fault::Misplaced, Some(server)));
        assert_eq!(faults(&known), misplaced);
        // A cell in the wrong place does not count towards the size.
        known.cells[3].1.length = 90;
        assert_eq!(faults(&known), misplaced);
    }

    #[test]
    fn cells_of_another_chunk_size_are_reported() {
        let mut known = whole();
        known.cells[1].1.chunk = 2 * CHUNK;
        assert_eq!(faults(&known), [(Fault::ChunkSize, Some(1))]);
    }

    #[test]
    fn a_layout_is_replaced_only_by_one_that_fits_most_cells() {
        let servers = [0, 1, 2, 3];
        assert_eq!(whole().fitting_layout(&servers), None);
        // One of three cells is elsewhere.
        let mut known = whole();
        known.cells[1].0 = 3;
        assert_eq!(known.fitting_layout(&servers), None);
        // All cells are elsewhere: only the servers of the layout change.
        let mut known = whole();
        known.state.layout.as_mut().unwrap().servers = vec![2, 0, 1];
        let layout = whole().state.layout;
        assert_eq!(known.fitting_layout(&servers), layout);
        // The layout has one cell, and the servers have three.
        known.state.layout.as_mut().unwrap().cells = 1;
        assert_eq!(known.fitting_layout(&servers), layout);
        // Cells in two places fit nowhere.
        known.cells.push((3, cell(0)));
        assert_eq!(known.fitting_layout(&servers), None);
        // The chunk size changes only if all cells agree.
        let mut known = whole();
        known.cells[0].1.chunk = 2 * CHUNK;
        assert_eq!(known.fitting_layout(&servers), None);
        known.cells.iter_mut().for_each(|c| c.1.chunk = 2 * CHUNK);
        known.cells[2].1.chunk = 0;
        let fits = known.fitting_layout(&servers).unwrap();
        assert_eq!((fits.chunk, fits.servers), (2 * CHUNK, vec![0, 1, 2]));
        known.state.inline = true;
        assert_eq!(known.fitting_layout(&servers), None);
    }

    #[test]
    fn empty_cells_and_extra_forks_of_a_cell_do_not_change_the_layout() {
        let servers = [0, 1, 2, 3];
        // An emptied file that then got another layout.
        let mut known = whole();
        known.state.layout.as_mut().unwrap().cells = 1;
        known.state.size = 30;
        for (_, cell) in &mut known.cells[1..] {
            cell.length = 0;
        }
        assert_eq!(known.fitting_layout(&servers), None);
        assert_eq!(faults(&known), []);
        // A stray cell with many forks.
        known.cells.truncate(1);
        for fork in ["data", "index", "names"] {
            let fork = fork.to_owned();
            known.cells.push((2, CellState { fork, ..cell(70) }));
        }
        assert_eq!(known.fitting_layout(&servers), None);
        assert_eq!(faults(&known).len(), 3);
    }

    #[test]
    fn bytes_in_cells_of_an_inline_file_are_reported() {
        let mut known = whole();
        known.state.inline = true;
        known.cells[0].1.length = 0;
        let expected = [1, 2].map(|server| (Fault::InlineCells, Some(server)));
        assert_eq!(faults(&known), expected);
    }

    #[test]
    fn a_wrong_size_is_reported_unless_the_file_is_open_for_writing() {
        let mut known = whole();
        known.state.size = 100;
        // The last byte of 100 lies in cell 0.
        assert_eq!(faults(&known), [(Fault::Short, Some(0))]);
        known.state.size = 80;
        assert_eq!(faults(&known), [(Fault::Long, None)]);
        known.state.fork_bytes = 10;
        assert_eq!(
            faults(&known),
            [(Fault::ForkBytes, None), (Fault::Long, None)]
        );
        known.state.open = true;
        assert_eq!(faults(&known), []);
        known.state.open = false;
        known.state.size_exact = false;
        assert_eq!(faults(&known), []);
        known.state.size_exact = true;
        let down = Servers {
            down: [1].into(),
            ..Servers::default()
        };
        assert_eq!(known.compare(&down), []);
    }

    #[test]
    fn missing_and_unlisted_checkpoints_are_reported() {
        let mut known = whole();
        let kept = |number| CheckpointedState {
            file: FILE,
            number,
            made: 1,
        };
        known.state.checkpoints = vec![ListedCheckpoint {
            number: 7,
            there: true,
        }];
        known.kept = vec![(0, kept(7)), (1, kept(7)), (1, kept(8))];
        let expected = [
            (Fault::CheckpointMissing, Some(2)),
            (Fault::CheckpointUnknown, None),
        ];
        assert_eq!(faults(&known), expected);
        // A checkpoint that is being removed may be on any server.
        known.state.checkpoints[0].there = false;
        assert_eq!(faults(&known), [(Fault::CheckpointUnknown, None)]);
    }

    #[test]
    fn a_deleted_file_that_tree_checkpoints_hold_is_still_checked() {
        let mut known = whole();
        let listed = |number, there| ListedCheckpoint { number, there };
        known.state.held = true;
        known.state.checkpoints = vec![listed(7, true), listed(9, false)];
        let kept = |server, number| {
            let made = 1;
            let file = FILE;
            (server, CheckpointedState { file, number, made })
        };
        known.kept = vec![kept(0, 7), kept(1, 7), kept(2, 7), kept(0, 9)];
        assert_eq!(faults(&known), []);
        // Server 1 was formatted after the file was created.
        known.cells.remove(1);
        known.kept.remove(1);
        let since = Servers {
            since: [(1, FILE + 1)].into(),
            ..Servers::default()
        };
        let told = |known: &Known| -> Vec<i32> {
            let findings = known.compare(&since);
            assert!(findings.iter().all(|f| f.server == Some(1)));
            findings.iter().map(|f| f.fault).collect()
        };
        let missing = Fault::CheckpointMissing as i32;
        assert_eq!(told(&known), [Fault::Emptied as i32, missing]);
        known.state.there = false;
        assert_eq!(told(&known), [Fault::Emptied as i32, missing]);
    }

    #[test]
    fn cells_missing_from_an_older_copy_are_in_doubt_instead_of_short() {
        let mut known = whole();
        known.cells.remove(1);
        known.state.size = 55;
        assert_eq!(faults(&known), [(Fault::Long, None)]);
        (known.doubted, known.ends_doubted) = ([1].into(), true);
        let findings = known.compare(&Servers::default());
        let told = |f: &Finding| (f.server, f.place.as_ref().unwrap().cell, f.found);
        assert_eq!(
            findings.iter().map(told).collect::<Vec<_>>(),
            [(Some(1), 1, 20)]
        );
        assert_eq!(faults(&known), [(Fault::Unproven, Some(1))]);
        // Pending intents do not change the finding.
        known.state.owed = true;
        assert_eq!(faults(&known), [(Fault::Unproven, Some(1))]);
        // By its size, the file had no bytes in that cell.
        (known.state.size, known.state.owed) = (10, false);
        assert_eq!(faults(&known), []);
        known.state.size_exact = false;
        assert_eq!(faults(&known), [(Fault::Unproven, Some(1))]);
        // Other forks than `data` had bytes that no server has.
        (
            known.state.size,
            known.state.size_exact,
            known.state.fork_bytes,
        ) = (10, true, 7);
        assert_eq!(faults(&known), [(Fault::Unproven, Some(1))]);
        known.state.fork_bytes = 0;
        (known.state.size, known.state.inline) = (55, true);
        known.cells.clear();
        assert_eq!(faults(&known), []);
    }

    #[test]
    fn a_file_with_pending_intents_is_not_reported() {
        let mut known = whole();
        known.cells.clear();
        known.state.owed = true;
        assert_eq!(faults(&known), []);
    }
}
