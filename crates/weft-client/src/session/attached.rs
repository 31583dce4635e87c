//! The files that this client has attached, so that they can be asserted again after a restart of
//! the service.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weft_proto::meta::ReassertRequest;

/// The attached files of a client.
#[derive(Default)]
pub(crate) struct AttachedFiles(Mutex<AttachedState>);

#[derive(Default)]
struct AttachedState {
    files: BTreeMap<u64, Attached>,
    /// Attaches in flight: because of them an empty state is asserted, too.
    in_flight: usize,
    /// The number of the connection over which the state was last asserted.
    asserted_over: u64,
}

#[derive(Clone, Copy, Default)]
struct Attached {
    reading: u32,
    writing: u32,
}

impl AttachedFiles {
    /// An attach begins.
    pub(crate) fn begin(&self) {
        self.0.lock().in_flight += 1;
    }

    /// An attach has ended, with an answer or without.
    pub(crate) fn end(&self) {
        self.0.lock().in_flight -= 1;
    }

    /// Adds an attachment.
    pub(crate) fn add(&self, file: u64, write: bool) {
        let mut state = self.0.lock();
        let entry = state.files.entry(file).or_default();
        if write {
            entry.writing += 1;
        } else {
            entry.reading += 1;
        }
    }

    /// Adds an attachment that the service confirmed over connection `run`; false if the state was
    /// asserted over another connection meanwhile, without it.
    pub(crate) fn add_over(&self, run: u64, file: u64, write: bool) -> bool {
        let current = self.0.lock().asserted_over == run;
        if current {
            self.add(file, write);
        }
        current
    }

    /// Takes an attachment away; whether it was the last one of the file.
    pub(crate) fn remove(&self, file: u64, write: bool) -> bool {
        let mut state = self.0.lock();
        let Some(entry) = state.files.get_mut(&file) else {
            return false;
        };
        let count = if write {
            &mut entry.writing
        } else {
            &mut entry.reading
        };
        *count = count.saturating_sub(1);
        let last = entry.reading == 0 && entry.writing == 0;
        if last {
            state.files.remove(&file);
        }
        last
    }

    /// Whether nothing is attached.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().files.is_empty()
    }

    /// Adds what is attached to the assertion over connection `run`; false if there is nothing.
    pub(crate) fn assert_over(&self, run: u64, request: &mut ReassertRequest) -> bool {
        let mut state = self.0.lock();
        state.asserted_over = run;
        for (file, counts) in &state.files {
            request.reading.extend((0..counts.reading).map(|_| *file));
            request.writing.extend((0..counts.writing).map(|_| *file));
        }
        state.in_flight > 0 || !state.files.is_empty()
    }
}
