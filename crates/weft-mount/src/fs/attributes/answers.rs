//! Completes the service's answers with what this mount has written and read.

use weft_client::Attributes;

use crate::fs::metadata::{Answer, Attr};
use crate::fs::{FileSystem, FsError};

impl FileSystem {
    /// Attributes with what this mount has written; asks the servers if another client may be
    /// writing.
    pub(in crate::fs) async fn complete(&self, attributes: Attributes) -> Result<Answer, FsError> {
        let exact = attributes.size_exact;
        let open = self.files.any(attributes.id);
        let attributes = if exact {
            if let Some(handle) = &open {
                handle.data().compare(&attributes);
            }
            attributes
        } else {
            let what = "attributes of an open file";
            self.send_waiting(attributes.id, None).await?;
            // A program that has seen a size may read up to it.
            let query = open.as_ref().map(|handle| handle.data().begin_size_query());
            let exact = self
                .call(|| self.volume.exact(what, attributes.clone()))
                .await;
            if let Some(query) = query {
                query.answered(exact.as_ref().ok().map(|attributes| attributes.size));
            }
            exact?
        };
        let mut answer = Answer {
            exact,
            ..Answer::exact(&attributes)
        };
        self.cover(&mut answer.attr);
        Ok(answer)
    }

    /// The attributes of a file, if they are certain, with what this mount has written and not yet
    /// sent. Only the servers know the size of a file whose writes go through.
    pub(in crate::fs) fn known(&self, id: u64) -> Option<Answer> {
        if self.files.writes_through(id) {
            return None;
        }
        let mut answer = self.metadata.known(id)?;
        self.cover(&mut answer.attr);
        Some(answer)
    }

    /// Adds what this mount knows and the service may not.
    pub(in crate::fs) fn cover(&self, attr: &mut Attr) {
        self.files.cover(attr);
        self.metadata.nodes().cover(attr);
    }
}
