//! What happens when a call that attaches or ends attachments fails or is cancelled in the middle.

use super::{Shared, Volume};

/// Dropped while armed, it has the next connection assert what is attached.
pub(super) struct ReassertOnDrop<'a> {
    shared: &'a Shared,
    armed: bool,
}

impl<'a> ReassertOnDrop<'a> {
    pub(super) fn new(shared: &'a Shared, armed: bool) -> ReassertOnDrop<'a> {
        ReassertOnDrop { shared, armed }
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for ReassertOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.must_reassert();
        }
    }
}

/// An attach in flight. Dropped before its answer, the service may have made the attachment: the
/// next connection asserts that it does not exist.
pub(crate) struct Attaching<'a>(ReassertOnDrop<'a>);

impl<'a> Attaching<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Attaching<'a> {
        shared.attached.begin();
        Attaching(ReassertOnDrop::new(shared, true))
    }

    pub(crate) fn answered(mut self) {
        self.0.disarm();
    }
}

impl Drop for Attaching<'_> {
    // The guard within is dropped afterwards.
    fn drop(&mut self) {
        self.0.shared.attached.end();
    }
}

/// What the service is known to have done about attachments that end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndingState {
    /// A call is in flight, or was lost.
    Unknown,
    /// It has answered that it did nothing: they exist.
    Refused,
    /// It knows that they ended.
    Done,
}

/// Attachments that end; new connections assert them until the service knows of the end. Dropped
/// before, they end all the same: those that certainly exist are ended later, of others the next
/// connection asserts that they do not exist.
pub(crate) struct Detach {
    volume: Volume,
    files: Vec<(u64, bool)>,
    state: EndingState,
}

impl Detach {
    /// `files`: their ids, and whether they were attached for writing.
    pub(crate) fn new(volume: &Volume, files: Vec<(u64, bool)>) -> Detach {
        Detach {
            volume: volume.clone(),
            files,
            state: EndingState::Unknown,
        }
    }

    pub(super) fn sent(&mut self) {
        self.state = EndingState::Unknown;
    }

    pub(super) fn refused(&mut self) {
        self.state = EndingState::Refused;
    }

    pub(super) fn done(&mut self) {
        self.state = EndingState::Done;
        self.note_detached();
    }

    fn note_detached(&mut self) {
        for (file, write) in self.files.drain(..) {
            self.volume.shared.note_detached(file, write);
        }
    }
}

impl Drop for Detach {
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        match self.state {
            EndingState::Done => {}
            EndingState::Refused => {
                for (file, write) in self.files.drain(..) {
                    self.volume.detach_later(file, write);
                }
            }
            EndingState::Unknown => {
                self.note_detached();
                self.volume.shared.must_reassert();
            }
        }
    }
}
