//! Which client has which file open. In memory only: after a restart clients report it again.
//!
//! Invariant: no count is zero; an entry whose count reaches zero is removed.

use std::collections::{BTreeSet, HashMap};

use weft_layout::OFFSET_MAX;

use super::attachment::{Appender, Author, Ended, OpenMode, SizeBefore};

/// Attachments of one client to one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AttachmentCounts {
    reading: u32,
    writing: u32,
}

#[derive(Debug, Default)]
struct OpenFile {
    holders: HashMap<u64, AttachmentCounts>,
    writers: u32,
    /// The size was exact when the first of the present writers attached.
    exact_before: bool,
    /// A present writer wrote, or may have.
    wrote: bool,
    /// The size may have changed without the present writer: there was a second writer, or a
    /// truncate.
    shared: bool,
    /// One past the last byte reserved for appends since the last truncate.
    reserved: u64,
    /// The only client that can have written since the end of the file was last known.
    only_writer: Option<u64>,
    /// Changes when a writer attaches, and with a truncate.
    turn: u64,
}

/// All attachments.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: HashMap<u64, OpenFile>,
    clients: HashMap<u64, BTreeSet<u64>>,
    turn: u64,
}

impl OpenFiles {
    /// An empty table. `first_id` is the first id that this run of the service allocates: clients
    /// may still have turns of an earlier run, which crashed while they had files open.
    pub(crate) fn of_run(first_id: u64) -> OpenFiles {
        OpenFiles {
            turn: first_id << 32,
            ..OpenFiles::default()
        }
    }

    /// Whether no file is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a client has the file open.
    pub(crate) fn is_open(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    /// Whether a client has the file open for writing.
    pub(crate) fn has_writer(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|open| open.writers > 0)
    }

    /// The files that are open for writing.
    pub(crate) fn open_for_writing(&self) -> Vec<u64> {
        let written = self.files.iter().filter(|(_, open)| open.writers > 0);
        written.map(|(file, _)| *file).collect()
    }

    /// Whether another client than this has the file open for writing.
    pub(crate) fn has_other_writer(&self, client: u64, file: u64) -> bool {
        let Some(open) = self.files.get(&file) else {
            return false;
        };
        let own = open.holders.get(&client).map_or(0, |counts| counts.writing);
        open.writers > own
    }

    /// The other clients that have the file open for writing.
    pub(crate) fn other_writers(&self, client: u64, file: u64) -> Vec<u64> {
        let open = self.files.get(&file);
        let holders = open.into_iter().flat_map(|open| &open.holders);
        let others = holders.filter(|(holder, counts)| **holder != client && counts.writing > 0);
        others.map(|(holder, _)| *holder).collect()
    }

    /// Whether more than one client has the file open for writing.
    pub(crate) fn has_several_writers(&self, file: u64) -> bool {
        let open = self.files.get(&file);
        let holders = open.into_iter().flat_map(|open| open.holders.values());
        holders.filter(|counts| counts.writing > 0).count() > 1
    }

    /// A client attaches a file for reading.
    pub(crate) fn attach_reader(&mut self, client: u64, file: u64) {
        let open = self.files.entry(file).or_default();
        open.holders.entry(client).or_default().reading += 1;
        self.clients.entry(client).or_default().insert(file);
    }

    /// A client attaches a file for writing.
    pub(crate) fn attach_writer(&mut self, client: u64, file: u64, size: SizeBefore) {
        let exact = size == SizeBefore::Exact;
        let turn = self.next_turn();
        let open = self.files.entry(file).or_default();
        if open.writers == 0 {
            open.exact_before = exact;
            open.wrote = false;
            open.shared = false;
            open.reserved = 0;
            open.only_writer = exact.then_some(client);
        } else {
            open.shared = true;
        }
        open.turn = turn;
        if open.only_writer != Some(client) {
            open.only_writer = None;
        }
        open.writers += 1;
        open.holders.entry(client).or_default().writing += 1;
        self.clients.entry(client).or_default().insert(file);
    }

    /// The file's size is about to change while it is open.
    pub(crate) fn truncated(&mut self, file: u64) {
        self.extended(file);
        if let Some(open) = self.files.get_mut(&file) {
            open.reserved = 0;
        }
    }

    /// The file is about to become longer than its writers know.
    pub(crate) fn extended(&mut self, file: u64) {
        let turn = self.next_turn();
        if let Some(open) = self.files.get_mut(&file) {
            open.shared = true;
            open.only_writer = None;
            open.turn = turn;
        }
    }

    /// The bytes of an inline file are about to end at `size`.
    pub(crate) fn truncate_inline(&mut self, file: u64, size: u64, author: Author) {
        if let Some(open) = self.files.get_mut(&file) {
            open.reserved = open.reserved.min(size);
            open.shared |= author == Author::Other;
        }
    }

    /// No two turns are equal, even if the file was closed in between, or across a crash.
    fn next_turn(&mut self) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// What an append by this client may rely on; `None` where the client is no writer.
    pub(crate) fn appender(&self, client: u64, file: u64) -> Option<Appender> {
        let open = self.files.get(&file)?;
        let counts = open.holders.get(&client)?;
        (counts.writing > 0).then_some(Appender {
            end_known: open.only_writer == Some(client),
            size_counts: open.exact_before && !open.shared,
            turn: open.turn,
        })
    }

    /// Reserves `length` bytes at or beyond `end`, the known end of the file; `None` where a file
    /// cannot be so long.
    pub(crate) fn reserve(&mut self, client: u64, file: u64, end: u64, length: u64) -> Option<u64> {
        let open = self.files.get_mut(&file)?;
        let offset = open.reserved.max(end);
        open.reserved = end_of(offset, length)?;
        let alone = open
            .holders
            .iter()
            .all(|(holder, counts)| *holder == client || counts.writing == 0);
        open.only_writer = alone.then_some(client);
        Some(offset)
    }

    /// A writer of the file wrote, or may have.
    pub(crate) fn wrote(&mut self, file: u64) {
        if let Some(open) = self.files.get_mut(&file) {
            open.wrote = true;
        }
    }

    /// What would hold if this attachment ended now; `None` if there is no such attachment.
    pub(crate) fn if_detached(&self, client: u64, file: u64, mode: OpenMode) -> Option<Ended> {
        let open = self.files.get(&file)?;
        let counts = open.holders.get(&client)?;
        let there = match mode {
            OpenMode::Write => counts.writing,
            OpenMode::Read => counts.reading,
        };
        if there == 0 {
            return None;
        }
        let lone = open.holders.len() == 1 && counts.reading + counts.writing == 1;
        Some(Ended {
            last_writer: open.writers == u32::from(mode == OpenMode::Write),
            last: lone,
            unchanged: open.exact_before && !open.wrote,
            alone: open.exact_before && !open.shared,
            turn: open.turn,
        })
    }

    /// Ends an attachment, if it is there.
    pub(crate) fn detach(&mut self, client: u64, file: u64, mode: OpenMode) {
        if self.if_detached(client, file, mode).is_none() {
            return;
        }
        let Some(open) = self.files.get_mut(&file) else {
            return;
        };
        let Some(counts) = open.holders.get_mut(&client) else {
            return;
        };
        match mode {
            OpenMode::Write => {
                counts.writing -= 1;
                open.writers -= 1;
            }
            OpenMode::Read => counts.reading -= 1,
        }
        if *counts == AttachmentCounts::default() {
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
    pub(crate) fn files_of(&self, client: u64) -> Vec<u64> {
        let files = self.clients.get(&client);
        files.map_or_else(Vec::new, |files| files.iter().copied().collect())
    }

    /// Whether only this client has the file open.
    pub(crate) fn only_by(&self, client: u64, file: u64) -> bool {
        let open = self.files.get(&file);
        open.is_some_and(|open| open.holders.len() == 1 && open.holders.contains_key(&client))
    }

    /// The clients that have the file open, and whether each has it open for writing.
    pub(crate) fn holders(&self, file: u64) -> Vec<(u64, bool)> {
        let open = self.files.get(&file);
        let holders = open.into_iter().flat_map(|open| &open.holders);
        holders
            .map(|(client, counts)| (*client, counts.writing > 0))
            .collect()
    }

    /// Whether this client has the file open.
    pub(crate) fn is_holder(&self, client: u64, file: u64) -> bool {
        let open = self.files.get(&file);
        open.is_some_and(|open| open.holders.contains_key(&client))
    }

    /// Whether this client has the file open for writing.
    pub(crate) fn is_writer(&self, client: u64, file: u64) -> bool {
        let counts = self
            .files
            .get(&file)
            .and_then(|open| open.holders.get(&client));
        counts.is_some_and(|counts| counts.writing > 0)
    }

    /// The reservations for appends to the files of a client: a reassertion must not lose them.
    pub(crate) fn reserved_of(&self, client: u64) -> Vec<(u64, u64)> {
        let files = self.files_of(client).into_iter();
        let reserved = |file| Some((file, self.files.get(&file)?.reserved));
        files.filter_map(reserved).filter(|d| d.1 > 0).collect()
    }

    /// Nothing below this is reserved again for the file while it is open.
    pub(crate) fn keep_reserved(&mut self, file: u64, reserved: u64) {
        if let Some(open) = self.files.get_mut(&file) {
            open.reserved = open.reserved.max(reserved);
        }
    }

    /// Removes a client; files that it had open for writing count as written.
    pub(crate) fn forget_client(&mut self, client: u64) {
        for file in self.files_of(client) {
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

/// The end of an append, unless that exceeds the largest offset.
fn end_of(offset: u64, length: u64) -> Option<u64> {
    offset.checked_add(length).filter(|end| *end <= OFFSET_MAX)
}
