//! Where the history of an attachment goes (`docs/design/0035-referee.md`).

use weft_referee::{Event, OpenId, Recorder, What};

/// Where the history of an attachment goes.
pub(crate) struct Recorded {
    recorder: Recorder,
    open: OpenId,
}

impl Recorded {
    pub(super) fn new(recorder: &Recorder) -> Recorded {
        Recorded {
            recorder: recorder.clone(),
            open: recorder.open(),
        }
    }

    pub(super) fn note(&self, begin: i64, end: Option<i64>, what: What) {
        let noted = self.recorder.note(Event {
            begin,
            end,
            open: self.open,
            what,
        });
        if let Err(error) = noted {
            tracing::warn!(%error, "the history ends here: it cannot be written");
        }
    }
}
