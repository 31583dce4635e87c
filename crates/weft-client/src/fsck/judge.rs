//! What namespace and servers say of one file, compared.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::{CellIndex, Layout, ServerSlot};
use weft_proto::fsck::{CellState, Fault, FileState, Finding, KeptState};
use weft_proto::io::ForkPlace;

/// What is known of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) state: FileState,
    /// By server.
    pub(super) cells: Vec<(u32, CellState)>,
    pub(super) kept: Vec<(u32, KeptState)>,
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

fn of(fault: Fault, file: u64) -> Finding {
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

impl Known {
    /// The file's layout, where it has one.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.state
            .layout
            .as_ref()
            .and_then(|layout| Layout::try_from(layout).ok())
    }

    /// What does not agree; nothing is said of what servers hold that are down.
    pub(super) fn judge(&self, servers: &Servers) -> Vec<Finding> {
        let down = &servers.down;
        if self.state.owed {
            return Vec::new();
        }
        if !self.state.there {
            return self.lost();
        }
        let Some(layout) = self.layout() else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        if self.state.inline {
            let filled = self.cells.iter().filter(|(_, cell)| cell.length > 0);
            findings.extend(filled.map(|(server, cell)| {
                let text = format!(
                    "{} bytes, though the file's lie with its metadata",
                    cell.length
                );
                of_cell(Fault::InlineCells, *server, cell, text)
            }));
        } else {
            self.placed(&layout, &mut findings);
        }
        let emptied = self.emptied(&layout, servers);
        if emptied.is_empty() && !self.state.inline {
            self.size(&layout, down, &mut findings);
        }
        findings.extend(emptied);
        self.checkpoints(&layout, down, &mut findings);
        findings
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

    fn placed(&self, layout: &Layout, findings: &mut Vec<Finding>) {
        for (server, cell) in &self.cells {
            if cell.cell >= layout.cells() {
                let text = format!("the file has {} cells", layout.cells());
                findings.push(of_cell(Fault::Misplaced, *server, cell, text));
                continue;
            }
            let right = layout.server_of(CellIndex(cell.cell));
            if right.0 != *server {
                let text = format!("the cell lives on server {right}");
                findings.push(of_cell(Fault::Misplaced, *server, cell, text));
            } else if cell.chunk != 0 && cell.chunk != layout.chunk() {
                let text = format!("{} instead of {}", cell.chunk, layout.chunk());
                findings.push(of_cell(Fault::ChunkSize, *server, cell, text));
            }
        }
    }

    /// Servers that are younger than the file and have nothing of it.
    fn emptied(&self, layout: &Layout, servers: &Servers) -> Vec<Finding> {
        let grid = layout.grid();
        let used = layout.servers().len().min(layout.cells() as usize);
        let slots = layout.servers()[..used].iter().enumerate();
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
            // The bytes of an inline file lie with its metadata; that it has cells is still to come.
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

    /// The size in canonical order that the cells give the file.
    pub(super) fn cells_size(&self, layout: &Layout) -> u64 {
        let grid = layout.grid();
        let data = self.cells.iter().filter(|(server, cell)| {
            cell.fork == "data"
                && cell.cell < layout.cells()
                && layout.server_of(CellIndex(cell.cell)).0 == *server
        });
        data.map(|(_, cell)| grid.file_size(CellIndex(cell.cell), cell.length))
            .max()
            .unwrap_or(0)
    }

    fn size(&self, layout: &Layout, down: &BTreeSet<u32>, findings: &mut Vec<Finding>) {
        let state = &self.state;
        let unknown = layout
            .servers()
            .iter()
            .any(|server| down.contains(&server.0));
        if !state.size_exact || state.open || unknown {
            return;
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
        let used = layout.servers().len().min(layout.cells() as usize);
        let kept: BTreeSet<(u32, u64)> = self.kept.iter().map(|(s, k)| (*s, k.number)).collect();
        for checkpoint in self.state.checkpoints.iter().filter(|c| c.there) {
            for server in layout.servers()[..used]
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
