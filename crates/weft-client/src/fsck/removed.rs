//! Files that were removed, by the word of their servers, and are there: the namespace is older
//! than their removal.
//!
//! Servers delete only what the namespace has given up for good before, and never forget it
//! (`weft_store`'s `deleted_of`), so there is no false alarm in it. What they still hold is another
//! matter: a delete that had not reached all of them may be forgotten with the rest, and then a
//! server has bytes that can be read.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::Layout;
use weft_proto::fsck::{Fault, Finding};

use super::judge::{Known, of};

impl Known {
    /// The servers of a layout that have deleted the file.
    pub(super) fn deleted_on(&self, layout: &Layout) -> Vec<u32> {
        let servers = layout.servers().iter().map(|server| server.0);
        servers.filter(|s| self.deleted.contains(s)).collect()
    }

    /// What is to be said of a file that is there though these of its servers have deleted it.
    pub(super) fn removed(
        &self,
        layout: &Layout,
        gone: &[u32],
        down: &BTreeSet<u32>,
    ) -> Option<Finding> {
        let file = self.state.file;
        if self.state.inline {
            // It was none of their matter then, or is another file now: its bytes are good.
            return Some(of(Fault::IdRemoved, file));
        }
        let servers = layout.servers();
        if servers.iter().any(|server| down.contains(&server.0)) {
            return None;
        }
        let filled = self.cells.iter().filter(|(_, cell)| cell.length > 0);
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for (server, cell) in filled {
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
        // Where they have not deleted it somebody may be writing.
        (everywhere || !self.state.open).then(|| of(Fault::Removed, file))
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::fsck::{CellState, KeptState, ListedCheckpoint};

    use super::super::judge::Servers;
    use super::super::judge::tests::{FILE, cell, judged, whole};
    use super::*;

    /// What is left of a file that was removed.
    fn removed() -> Known {
        let mut known = whole();
        known.cells.clear();
        known.deleted = (0..3).collect();
        known
    }

    #[test]
    fn a_name_of_what_all_servers_have_deleted_is_told() {
        let mut known = removed();
        let told = [(Fault::Removed, None)];
        assert_eq!(judged(&known), told);
        // Whoever has it open cannot write to it; checkpoints went with it.
        known.state.open = true;
        known.state.checkpoints = vec![ListedCheckpoint {
            number: 7,
            there: true,
        }];
        assert_eq!(judged(&known), told);
        // Where the delete is still under way.
        known.state.owed = true;
        assert_eq!(judged(&known), []);
        // Servers that its layout does not have are none of its matter.
        let mut known = whole();
        known.deleted = [3].into();
        assert_eq!(judged(&known), []);
    }

    #[test]
    fn what_one_server_still_holds_of_a_removed_file_is_told_and_kept() {
        let mut known = removed();
        known.deleted.remove(&1);
        known.cells.push((1, cell(1)));
        let findings = known.judge(&Servers::default());
        assert_eq!(judged(&known), [(Fault::PartRemoved, None)]);
        let words = "server 0 has nothing, server 2 has nothing, server 1 holds 30 bytes";
        assert_eq!(findings[0].text, words);
        // A checkpoint is as good.
        let (file, number, made) = (FILE, 7, 1);
        known.cells.clear();
        known.kept = vec![(1, KeptState { file, number, made })];
        assert_eq!(judged(&known), [(Fault::PartRemoved, None)]);
        // A cell in the wrong place comes first.
        let mut known = removed();
        known.cells.push((3, cell(1)));
        assert_eq!(judged(&known), [(Fault::Misplaced, Some(3))]);
    }

    #[test]
    fn a_server_that_has_not_deleted_a_file_is_asked_and_nobody_may_be_writing_there() {
        let mut known = removed();
        known.deleted.remove(&1);
        let length = 0;
        known.cells.push((1, CellState { length, ..cell(1) }));
        assert_eq!(judged(&known), [(Fault::Removed, None)]);
        known.state.open = true;
        assert_eq!(judged(&known), []);
        known.state.open = false;
        let down = Servers {
            down: [1].into(),
            ..Servers::default()
        };
        assert_eq!(known.judge(&down), []);
    }

    #[test]
    fn bytes_that_lie_with_the_metadata_of_a_deleted_id_are_good() {
        let mut known = removed();
        known.state.inline = true;
        assert_eq!(judged(&known), [(Fault::IdRemoved, None)]);
        known.state.size = 0;
        assert_eq!(judged(&known), [(Fault::IdRemoved, None)]);
        // Nor are they less where somebody has tried to move them.
        known.state.spilling = true;
        assert_eq!(judged(&known), [(Fault::IdRemoved, None)]);
        let mut known = whole();
        (known.state.inline, known.state.spilling) = (true, true);
        assert_eq!(judged(&known), []);
    }
}
