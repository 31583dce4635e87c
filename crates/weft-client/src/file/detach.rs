//! Attachments that end without a change to report: the service is told of many in one call, some
//! milliseconds later.
//!
//! Programs open and close files by the thousand; a call for each close would cost as much as the
//! one for each open. Until it is reported the attachment counts as existing: a file that is
//! removed meanwhile is deleted a moment later.
//!
//! Access times travel with them, so that reading a file costs no extra call; those of inodes
//! without an attachment, such as directories, are reported after a second. They may be lost with
//! the connection or with this process.

use std::collections::HashSet;

use weft_proto::meta::DetachRequest;

use crate::limits::{ACCESS_DELAY, DETACH_DELAY};
use crate::volume::Detach;
use crate::{Error, Volume};

impl Volume {
    /// Ends an attachment; the service is told soon.
    pub(crate) fn detach_later(&self, file: u64, write: bool) {
        let schedule = self.shared.detaches.lock().add(file, write);
        if schedule {
            self.report_soon();
        }
    }

    /// A file that was read is closed, and stays attached: the service is told soon that it was
    /// read.
    pub fn closed_kept(&self) {
        let schedule = self.shared.detaches.lock().hasten_accesses();
        if schedule {
            self.report_soon();
        }
    }

    fn report_soon(&self) {
        let volume = self.clone();
        self.shared.runtime.spawn(async move {
            loop {
                tokio::time::sleep(DETACH_DELAY).await;
                if !volume.report_detached().await {
                    return;
                }
            }
        });
    }

    /// A file, directory or link was read at this time; the service is told soon, with the
    /// attachments that end.
    pub fn note_access(&self, file: u64, time: i64) {
        let schedule = self.shared.detaches.lock().add_access(file, time);
        if schedule {
            let volume = self.clone();
            self.shared.runtime.spawn(async move {
                tokio::time::sleep(ACCESS_DELAY).await;
                let more = volume.shared.detaches.lock().begin_accesses();
                if more {
                    volume.report_detaches().await;
                }
            });
        }
    }

    /// Drops a noted access of a file whose access time is about to be set explicitly.
    pub async fn forget_access(&self, file: u64) {
        let detaches = &self.shared.detaches;
        detaches.lock().forget_access(file);
        // A report in flight arrives first.
        drop(detaches.reporting().await);
    }

    /// Reports all attachments that [`File::close_deferred`](crate::File::close_deferred) has ended
    /// so far.
    pub async fn report_detaches(&self) {
        while self.report_detached().await {}
    }

    /// Waits until the service was told of the end of every attachment, also of files that were
    /// dropped and not closed. For processes that are about to exit: what the service is not told
    /// it notices only when the connection has been away for its grace. A file that is still held
    /// keeps this waiting.
    pub async fn all_ended(&self) {
        loop {
            let mut ended = std::pin::pin!(self.shared.ended.notified());
            ended.as_mut().enable();
            if self.shared.has_ended_all() {
                return;
            }
            ended.await;
        }
    }

    /// Reports writers that have ended, if there are any: to the service an unreported one is
    /// another writer, for which a small file's bytes would have to move to its cells.
    pub(crate) async fn tell_ended_writers(&self) {
        if self.shared.detaches.lock().has_writers() {
            self.report_detaches().await;
        }
    }

    async fn report_ended(&self, request: DetachRequest) {
        let reading = request.reading.iter().map(|file| (*file, false));
        let writing = request.writing.iter().map(|file| (*file, true));
        let mut ending = Detach::new(self, reading.chain(writing).collect());
        let reported: Result<_, Error> = self
            .meta_ending_now("end attachments", &request, &mut ending, |_| true)
            .await;
        if let Err(error) = reported {
            tracing::debug!(%error, "attachments end with the connection");
        }
    }

    /// Reports ended attachments of these files, all of which the service knows, before what is
    /// not reported of their names.
    pub(crate) async fn end_attachments_of(&self, files: &HashSet<u64>) {
        let Some(request) = self.shared.detaches.lock().take_of(files) else {
            return;
        };
        self.report_ended(request).await;
    }

    /// One call; false if there was nothing to report.
    async fn report_detached(&self) -> bool {
        let detaches = &self.shared.detaches;
        // Locked before they are taken, so that a `forget_access` that finds nothing waits for
        // this.
        let has_accesses = detaches.lock().has_accesses();
        let reporting = if has_accesses {
            Some(detaches.reporting().await)
        } else {
            None
        };
        let Some(request) = detaches.lock().take(reporting.is_some()) else {
            return false;
        };
        self.catch_up().await;
        self.report_ended(request).await;
        true
    }
}
