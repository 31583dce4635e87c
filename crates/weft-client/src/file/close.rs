//! The end of an attachment, and the report of what was written.

use std::sync::atomic::Ordering;

use weft_proto::meta::{ReportReply, ReportRequest};

use super::{Attachment, END_UNKNOWN};
use crate::limits::CLOSE_SIZE_RETRIES;
use crate::names::{ForkStates, size_of};
use crate::volume::Detach;
use crate::{Attributes, Error, File};

/// What the service knows of a file whose last writer has closed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// Its attributes; the size is exact.
    pub attributes: Attributes,
    /// No other client has written it while it was attached.
    pub alone: bool,
}

impl File {
    /// Ends the attachment and reports to the metadata service what was written: one request. If
    /// the size does not follow from what this attachment wrote (others wrote, too, or through a
    /// view), the servers are asked: one request to each, and one more to the service.
    pub async fn close(&self) -> Result<(), Error> {
        let (begun, kept) = (self.now(), self.end_policy().await);
        self.end().await?;
        self.note_close(begun, &kept);
        kept
    }

    /// As [`File::close`], but without an extra request where there is nothing to report: the
    /// service is told together with other ends, some milliseconds later. Returns what the service
    /// knows of a file that was written.
    pub async fn close_deferred(&self) -> Result<Option<Closed>, Error> {
        let (begun, kept) = (self.now(), self.end_policy().await);
        let ended = self.end_unreported().await?;
        self.note_close(begun, &kept);
        kept.map(|()| ended)
    }

    async fn end_unreported(&self) -> Result<Option<Closed>, Error> {
        let a = &self.0;
        let changed =
            a.written.load(Ordering::Acquire) != i64::MIN || a.forks.load(Ordering::Acquire);
        if !a.owner || changed {
            return self.end().await;
        }
        if !a.detached.swap(true, Ordering::AcqRel) && !a.volume.shared.delegated.close(a.id) {
            a.volume.detach_later(a.id, a.write);
        }
        Ok(None)
    }

    async fn end(&self) -> Result<Option<Closed>, Error> {
        let a = &self.0;
        if !a.owner
            || a.detached.swap(true, Ordering::AcqRel)
            || a.volume.shared.delegated.close(a.id)
        {
            return Ok(None);
        }
        let what = format!("close {}", a.path);
        self.look_for_losses().await;
        let lost = self.losses();
        if lost.is_err() {
            // Only the servers know how far the file reaches.
            a.end.fetch_max(END_UNKNOWN, Ordering::AcqRel);
        }
        let written = a.written.load(Ordering::Acquire);
        let wrote = written != i64::MIN;
        let mut request = ReportRequest {
            file: a.id,
            size: None,
            modified: wrote.then_some(written),
            detach: true,
            write: a.write,
            end: Some(a.end.load(Ordering::Acquire)).filter(|end| wrote && *end != END_UNKNOWN),
            kill_priv: false,
            turn: None,
            can_ask: wrote,
            forks: a.forks.load(Ordering::Acquire),
        };
        let mut ending = Detach::new(&a.volume, vec![(a.id, a.write)]);
        let (mut retries, mut unknown) = (0, None);
        let asked = a.volume.set_here();
        let reply = loop {
            let done = |reply: &ReportReply| !reply.size_wanted;
            let reported = a.volume.meta_ending(&what, &request, &mut ending, done);
            let reply = reported.await?;
            if !reply.size_wanted {
                break reply;
            }
            if retries == CLOSE_SIZE_RETRIES {
                // Other writers keep coming: the service asks for the size when they are gone.
                (request.end, request.can_ask) = (None, false);
                continue;
            }
            retries += 1;
            let what = format!("size of {}", a.path);
            let states = a.volume.fork_states(&what, a.cells, &a.layout, "");
            match states.await {
                // The size stays inexact while it is in doubt.
                Ok(states) if states.doubted => (request.end, request.can_ask) = (None, false),
                Ok(ForkStates { forks, .. }) => {
                    // Processes that this attachment was handed over to may have written them.
                    request.forks |= forks.iter().any(|fork| fork.fork != "data");
                    let size = size_of(&a.layout, &forks);
                    (request.size, request.turn) = (Some(size), Some(reply.turn));
                }
                Err(error) => {
                    // It ends all the same: the service asks when the server is back.
                    (request.end, request.can_ask) = (None, false);
                    unknown = Some(error);
                }
            }
        };
        if let Some(error) = unknown {
            return Err(error);
        }
        lost?;
        if let Some(attributes) = reply.attributes.as_ref().filter(|a| a.size_exact) {
            a.volume.refresh_delegated(attributes, asked);
        }
        let alone = reply.alone;
        let closed = |attributes| Closed { attributes, alone };
        Ok(reply.attributes.map(closed))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.owner {
            // An adopted attachment is not among the attached files: nothing else tells of its end.
            self.volume.shared.kept_names.file_ended(self.id);
        }
        if self.owner && !*self.detached.get_mut() && !self.volume.shared.delegated.close(self.id) {
            let mut ending = Detach::new(&self.volume, vec![(self.id, self.write)]);
            let wrote = *self.written.get_mut() != i64::MIN;
            let request = ReportRequest {
                file: self.id,
                size: None,
                modified: wrote.then_some(*self.written.get_mut()),
                detach: true,
                write: self.write,
                end: None,
                kill_priv: false,
                turn: None,
                can_ask: false,
                forks: *self.forks.get_mut(),
            };
            let volume = self.volume.clone();
            // Outside a runtime it cannot be sent: the service notices when the connection ends.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    volume
                        .meta_ending("close", &request, &mut ending, |_| true)
                        .await
                });
            }
        }
    }
}
