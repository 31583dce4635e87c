//! Who has which file open. In memory only: after a restart clients tell it again.
//!
//! Invariant: a count is never zero; what reached zero is removed.

use std::collections::{BTreeSet, HashMap};

use weft_layout::OFFSET_MAX;

/// Attachments of one client to one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    reading: u32,
    writing: u32,
}

#[derive(Debug, Default)]
struct OpenFile {
    holders: HashMap<u64, Counts>,
    writers: u32,
    /// The size was exact when the first of the present writers came.
    exact_before: bool,
    /// One of them wrote, or may have.
    wrote: bool,
    /// The size may be another than before for a reason that the present writer does not know: there was a second
    /// writer, or a truncate.
    shared: bool,
    /// One past the last byte that was dealt out to appends since the last truncate.
    dealt: u64,
    /// This client alone has written since the end of the file was learnt.
    sole: Option<u64>,
    /// Counts comings of writers, and truncates.
    turn: u64,
}

/// What is known when an attachment ends.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, told once"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Nobody has the file open for writing any more.
    pub(crate) no_writer: bool,
    /// Nobody has the file open.
    pub(crate) unused: bool,
    /// The writers changed nothing, and the size was exact before them.
    pub(crate) unchanged: bool,
    /// There was one writer, and the size was exact before it: where it ended tells the size.
    pub(crate) alone: bool,
    /// Changes when another writer comes, and with a truncate.
    pub(crate) turn: u64,
}

/// What the attachments of a file say about an append by one of its writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appender {
    /// What was dealt out, and what this client wrote, is all that can lie beyond the size from before.
    pub(crate) end_known: bool,
    /// The stored size is that from before.
    pub(crate) size_counts: bool,
    /// Changes when another client comes to write, and with a truncate.
    pub(crate) turn: u64,
}

/// All attachments.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: HashMap<u64, OpenFile>,
    clients: HashMap<u64, BTreeSet<u64>>,
    turn: u64,
}

impl OpenFiles {
    /// Nothing is open yet. `first_id` is the first id that this run of the service gives out: clients may still hold turns of
    /// a run before it, which ended while they had files open and lost some ids.
    pub(crate) fn of_run(first_id: u64) -> OpenFiles {
        OpenFiles {
            turn: first_id << 32,
            ..OpenFiles::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn is_open(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn has_writer(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|open| open.writers > 0)
    }

    /// The files that somebody has open for writing.
    pub(crate) fn written(&self) -> Vec<u64> {
        let written = self.files.iter().filter(|(_, open)| open.writers > 0);
        written.map(|(file, _)| *file).collect()
    }

    /// Somebody other than this client has the file open for writing.
    pub(crate) fn has_other_writer(&self, client: u64, file: u64) -> bool {
        let Some(open) = self.files.get(&file) else {
            return false;
        };
        let own = open.holders.get(&client).map_or(0, |counts| counts.writing);
        open.writers > own
    }

    /// More than one client has the file open for writing.
    pub(crate) fn has_several_writers(&self, file: u64) -> bool {
        let open = self.files.get(&file);
        let holders = open.into_iter().flat_map(|open| open.holders.values());
        holders.filter(|counts| counts.writing > 0).count() > 1
    }

    pub(crate) fn attach_reader(&mut self, client: u64, file: u64) {
        let open = self.files.entry(file).or_default();
        open.holders.entry(client).or_default().reading += 1;
        self.clients.entry(client).or_default().insert(file);
    }

    /// `exact`: whether the size was exact until now; counts only for the first writer.
    pub(crate) fn attach_writer(&mut self, client: u64, file: u64, exact: bool) {
        let turn = self.next_turn();
        let open = self.files.entry(file).or_default();
        if open.writers == 0 {
            open.exact_before = exact;
            open.wrote = false;
            open.shared = false;
            open.dealt = 0;
            open.sole = exact.then_some(client);
        } else {
            open.shared = true;
        }
        open.turn = turn;
        if open.sole != Some(client) {
            open.sole = None;
        }
        open.writers += 1;
        open.holders.entry(client).or_default().writing += 1;
        self.clients.entry(client).or_default().insert(file);
    }

    /// The file's size is about to change while it is open.
    pub(crate) fn truncated(&mut self, file: u64) {
        self.extended(file);
        if let Some(open) = self.files.get_mut(&file) {
            open.dealt = 0;
        }
    }

    /// The file is about to be longer than its writers know.
    pub(crate) fn extended(&mut self, file: u64) {
        let turn = self.next_turn();
        if let Some(open) = self.files.get_mut(&file) {
            open.shared = true;
            open.sole = None;
            open.turn = turn;
        }
    }

    /// The bytes of an inline file are about to end there; `foreign`: by somebody else than its writer.
    pub(crate) fn cut_inline(&mut self, file: u64, size: u64, foreign: bool) {
        if let Some(open) = self.files.get_mut(&file) {
            open.dealt = open.dealt.min(size);
            open.shared |= foreign;
        }
    }

    /// No two turns are the same, also not of a file that was closed in between, or of a run that broke off.
    fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// What is known for an append by this client; nothing where it is no writer.
    pub(crate) fn appender(&self, client: u64, file: u64) -> Option<Appender> {
        let open = self.files.get(&file)?;
        let counts = open.holders.get(&client)?;
        (counts.writing > 0).then_some(Appender {
            end_known: open.sole == Some(client),
            size_counts: open.exact_before && !open.shared,
            turn: open.turn,
        })
    }

    /// Deals out `length` bytes at or beyond `end`, which is that of the file as far as it was learnt now; nothing
    /// where a file cannot be so long.
    pub(crate) fn deal(&mut self, client: u64, file: u64, end: u64, length: u64) -> Option<u64> {
        let open = self.files.get_mut(&file)?;
        let offset = open.dealt.max(end);
        open.dealt = end_of(offset, length)?;
        let alone = open
            .holders
            .iter()
            .all(|(holder, counts)| *holder == client || counts.writing == 0);
        open.sole = alone.then_some(client);
        Some(offset)
    }

    pub(crate) fn wrote(&mut self, file: u64) {
        if let Some(open) = self.files.get_mut(&file) {
            open.wrote = true;
        }
    }

    /// What [`OpenFiles::detach`] would answer; `None` if there is no such attachment.
    pub(crate) fn if_detached(&self, client: u64, file: u64, write: bool) -> Option<Ended> {
        let open = self.files.get(&file)?;
        let counts = open.holders.get(&client)?;
        let there = if write {
            counts.writing
        } else {
            counts.reading
        };
        if there == 0 {
            return None;
        }
        let lone = open.holders.len() == 1 && counts.reading + counts.writing == 1;
        Some(Ended {
            no_writer: open.writers == u32::from(write),
            unused: lone,
            unchanged: open.exact_before && !open.wrote,
            alone: open.exact_before && !open.shared,
            turn: open.turn,
        })
    }

    pub(crate) fn detach(&mut self, client: u64, file: u64, write: bool) {
        if self.if_detached(client, file, write).is_none() {
            return;
        }
        let Some(open) = self.files.get_mut(&file) else {
            return;
        };
        let Some(counts) = open.holders.get_mut(&client) else {
            return;
        };
        if write {
            counts.writing -= 1;
            open.writers -= 1;
        } else {
            counts.reading -= 1;
        }
        if *counts == Counts::default() {
            self.drop_holder(client, file);
        }
    }

    fn drop_holder(&mut self, client: u64, file: u64) {
        if let Some(open) = self.files.get_mut(&file) {
            open.holders.remove(&client);
            if open.holders.is_empty() {
                self.files.remove(&file);
            }
        }
        if let Some(files) = self.clients.get_mut(&client) {
            files.remove(&file);
            if files.is_empty() {
                self.clients.remove(&client);
            }
        }
    }

    /// The files of a client, ascending.
    pub(crate) fn of_client(&self, client: u64) -> Vec<u64> {
        let files = self.clients.get(&client);
        files.map_or_else(Vec::new, |files| files.iter().copied().collect())
    }

    /// Nobody but this client has the file open.
    pub(crate) fn only_by(&self, client: u64, file: u64) -> bool {
        let open = self.files.get(&file);
        open.is_some_and(|open| open.holders.len() == 1 && open.holders.contains_key(&client))
    }

    /// This client has the file open.
    pub(crate) fn is_holder(&self, client: u64, file: u64) -> bool {
        let open = self.files.get(&file);
        open.is_some_and(|open| open.holders.contains_key(&client))
    }

    /// This client has the file open for writing.
    pub(crate) fn is_writer(&self, client: u64, file: u64) -> bool {
        let counts = self
            .files
            .get(&file)
            .and_then(|open| open.holders.get(&client));
        counts.is_some_and(|counts| counts.writing > 0)
    }

    /// What was dealt out to appends of the files of a client, which reassertion must not lose.
    pub(crate) fn dealt_of(&self, client: u64) -> Vec<(u64, u64)> {
        let files = self.of_client(client).into_iter();
        let dealt = |file| Some((file, self.files.get(&file)?.dealt));
        files.filter_map(dealt).filter(|d| d.1 > 0).collect()
    }

    /// Nothing below this is dealt out for the file while it is open.
    pub(crate) fn keep_dealt(&mut self, file: u64, dealt: u64) {
        if let Some(open) = self.files.get_mut(&file) {
            open.dealt = open.dealt.max(dealt);
        }
    }

    /// Forgets a client; what it was writing counts as written.
    pub(crate) fn forget_client(&mut self, client: u64) {
        for file in self.of_client(client) {
            if let Some(open) = self.files.get_mut(&file)
                && let Some(counts) = open.holders.get(&client)
                && counts.writing > 0
            {
                open.writers -= counts.writing;
                open.wrote = true;
            }
            self.drop_holder(client, file);
        }
    }
}

/// The end of an append, if it is one that a file can have.
fn end_of(offset: u64, length: u64) -> Option<u64> {
    offset.checked_add(length).filter(|end| *end <= OFFSET_MAX)
}
