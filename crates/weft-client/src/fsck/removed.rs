//! Files that their servers have deleted and that the namespace still has, because it was restored
//! from before their removal.
//!
//! Servers delete only what the namespace has removed for good, and never forget it (`weft_store`'s
//! `deleted_of`), so there are no false alarms. Some servers may still hold bytes: the namespace
//! may also have forgotten a delete that had not reached all servers.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::Layout;
use weft_proto::fsck::{Fault, Finding};

use super::compare::{Known, of};

impl Known {
    /// The servers of a layout that have deleted the file.
    pub(super) fn deleted_on(&self, layout: &Layout) -> Vec<u32> {
        let servers = layout.servers().iter().map(|server| server.0);
        servers.filter(|s| self.deleted.contains(s)).collect()
    }

    /// The finding for a file that exists although these servers of it have deleted it.
    pub(super) fn removed(
        &self,
        layout: &Layout,
        gone: &[u32],
        down: &BTreeSet<u32>,
    ) -> Option<Finding> {
        let file = self.state.file;
        if self.state.inline {
            // Its servers did not have it then, or it is another file now: its bytes are good.
            return Some(of(Fault::IdRemoved, file));
        }
        if Known::has_server_down(layout, down) {
            return None;
        }
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for (server, cell) in self.filled_cells() {
            *held.entry(*server).or_default() += cell.length;
        }
        for (server, _) in &self.kept {
            held.entry(*server).or_default();
        }
        if !held.is_empty() {
            let held = held.iter().map(|(server, bytes)| match bytes {
                0 => format!("server {server} holds checkpoints"),
                _ => format!("server {server} holds {bytes} bytes"),
            });
            let gone = gone.iter().map(|s| format!("server {s} has nothing"));
            let text: Vec<String> = gone.chain(held).collect();
            return Some(Finding {
                text: text.join(", "),
                ..of(Fault::PartRemoved, file)
            });
        }
        let everywhere = layout
            .servers_in_use()
            .iter()
            .all(|server| gone.contains(&server.0));
        // Where they have not deleted it a client may be writing.
        (everywhere || !self.state.open).then(|| of(Fault::Removed, file))
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::fsck::{CellState, CheckpointedState, ListedCheckpoint};

    use super::super::compare::Servers;
    use super::super::compare::tests::{FILE, cell, faults, whole};
    use super::*;

    /// A file that all servers have deleted.
    fn removed() -> Known {
        let mut known = whole();
        known.cells.clear();
        known.deleted = (0..3).collect();
        known
    }

    #[test]
    fn a_name_of_a_file_that_all_servers_deleted_is_reported() {
        let mut known = removed();
        let told = [(Fault::Removed, None)];
        assert_eq!(faults(&known), told);
        // A process that has the file open cannot write to it; its checkpoints are gone too.
        known.state.open = true;
        known.state.checkpoints = vec![ListedCheckpoint {
            number: 7,
            there: true,
        }];
        assert_eq!(faults(&known), told);
        // The delete is still pending.
        known.state.owed = true;
        assert_eq!(faults(&known), []);
        // Servers outside the layout of a file do not matter.
        let mut known = whole();
        known.deleted = [3].into();
        assert_eq!(faults(&known), []);
    }

    #[test]
    fn leftovers_of_a_removed_file_on_one_server_are_reported_and_kept() {
        let mut known = removed();
        known.deleted.remove(&1);
        known.cells.push((1, cell(1)));
        let findings = known.compare(&Servers::default());
        assert_eq!(faults(&known), [(Fault::PartRemoved, None)]);
        let words = "server 0 has nothing, server 2 has nothing, server 1 holds 30 bytes";
        assert_eq!(findings[0].text, words);
        // A checkpoint counts like a cell.
        let (file, number, made) = (FILE, 7, 1);
        known.cells.clear();
        known.kept = vec![(1, CheckpointedState { file, number, made })];
        assert_eq!(faults(&known), [(Fault::PartRemoved, None)]);
        // A misplaced cell is reported first.
        let mut known = removed();
        known.cells.push((3, cell(1)));
        assert_eq!(faults(&known), [(Fault::Misplaced, Some(3))]);
    }

    #[test]
    fn a_removal_is_reported_only_if_all_servers_are_up_and_the_file_is_closed() {
        let mut known = removed();
        known.deleted.remove(&1);
        let length = 0;
        known.cells.push((1, CellState { length, ..cell(1) }));
        assert_eq!(faults(&known), [(Fault::Removed, None)]);
        known.state.open = true;
        assert_eq!(faults(&known), []);
        known.state.open = false;
        let down = Servers {
            down: [1].into(),
            ..Servers::default()
        };
        assert_eq!(known.compare(&down), []);
    }

    #[test]
    fn inline_bytes_of_a_deleted_id_are_intact() {
        let mut known = removed();
        known.state.inline = true;
        assert_eq!(faults(&known), [(Fault::IdRemoved, None)]);
        known.state.size = 0;
        assert_eq!(faults(&known), [(Fault::IdRemoved, None)]);
        // A failed attempt to move the bytes to cells changes nothing.
        known.state.spilling = true;
        assert_eq!(faults(&known), [(Fault::IdRemoved, None)]);
        let mut known = whole();
        (known.state.inline, known.state.spilling) = (true, true);
        assert_eq!(faults(&known), []);
    }
}
