//! The files that this client has attached, so that they can be told again after a restart of the
//! service.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weft_proto::meta::ReassertRequest;

/// The attached files of a client.
#[derive(Default)]
pub(crate) struct AttachedFiles(Mutex<State>);

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Attached>,
    /// Attaches in flight: a connection that is told of nothing else is told so for them.
    in_flight: usize,
    /// The number of the connection that was last told of what there is.
    told: u64,
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

    /// Adds an attachment of which the service told over connection `run`; false if another
    /// connection was told meanwhile of what is attached, without it.
    pub(crate) fn add_over(&self, run: u64, file: u64, write: bool) -> bool {
        let current = self.0.lock().told == run;
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

    /// Adds what is attached to what connection `run` is told; whether there is anything to tell.
    pub(crate) fn tell(&self, run: u64, request: &mut ReassertRequest) -> bool {
        let mut state = self.0.lock();
        state.told = run;
        for (file, counts) in &state.files {
            request.reading.extend((0..counts.reading).map(|_| *file));
            request.writing.extend((0..counts.writing).map(|_| *file));
        }
        state.in_flight > 0 || !state.files.is_empty()
    }
}
