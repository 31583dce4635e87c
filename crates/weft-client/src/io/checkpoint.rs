//! Checkpoints of files and trees: names for states that stay while the files are still written.

use bytes::Bytes;
use weft_proto::checkpoint::{
    FileCheckpoint, ListCheckpointsRequest, ListFileCheckpointsRequest, MakeCheckpointRequest,
    RemoveCheckpointRequest, RollBackRequest,
};
use weft_proto::meta::Attributes;

use crate::volume::Repeat;
use crate::{Error, OpenView, Place, Volume};

pub use weft_proto::checkpoint::CheckpointInfo;

impl Volume {
    /// Makes a checkpoint of a file on all its servers, or of all that is below a directory: one
    /// request, whatever the size of the files. Each write to one server is wholly before or wholly
    /// after it.
    pub async fn make_checkpoint(
        &self,
        path: impl Into<Place>,
        name: &str,
    ) -> Result<CheckpointInfo, Error> {
        let place = path.into();
        let request = MakeCheckpointRequest {
            who: (*self.who).clone(),
            target: place.target(true)?,
            name: name.to_owned(),
        };
        let what = format!("make checkpoint {name} of {place}");
        let reply = self.meta(&what, &request, Repeat::Unsafe).await?;
        Ok(reply.checkpoint)
    }

    /// All checkpoints of a file or directory, in the order in which they were made: one request
    /// for a thousand of them.
    pub async fn checkpoints(&self, path: impl Into<Place>) -> Result<Vec<CheckpointInfo>, Error> {
        let place = path.into();
        let what = format!("list the checkpoints of {place}");
        let mut found: Vec<CheckpointInfo> = Vec::new();
        loop {
            let request = ListCheckpointsRequest {
                who: (*self.who).clone(),
                target: place.target(true)?,
                after: found.last().map_or_else(String::new, |c| c.name.clone()),
            };
            let page = self.meta(&what, &request, Repeat::Safe).await?;
            let more = page.more && !page.checkpoints.is_empty();
            found.extend(page.checkpoints);
            if !more {
                found.sort_by_key(|c| c.number);
                return Ok(found);
            }
        }
    }

    /// Makes a file, or all that is below a directory, what it is in a checkpoint: one request,
    /// whatever its size. Other checkpoints stay.
    pub async fn roll_back(&self, path: impl Into<Place>, name: &str) -> Result<Attributes, Error> {
        let place = path.into();
        let request = RollBackRequest {
            who: (*self.who).clone(),
            target: place.target(true)?,
            name: name.to_owned(),
        };
        let what = format!("roll {place} back to checkpoint {name}");
        let reply = self.meta(&what, &request, Repeat::Unsafe).await?;
        Ok(reply.attributes)
    }

    /// The checkpoints of the files that a directory names: one request for some hundred files.
    pub async fn file_checkpoints(
        &self,
        directory: impl Into<Place>,
    ) -> Result<Vec<FileCheckpoint>, Error> {
        let place = directory.into();
        let what = format!("list the checkpoints of the files in {place}");
        let (mut found, mut after) = (Vec::new(), Bytes::new());
        loop {
            let request = ListFileCheckpointsRequest {
                who: (*self.who).clone(),
                target: place.target(true)?,
                after,
            };
            let page = self.meta(&what, &request, Repeat::Safe).await?;
            found.extend(page.checkpoints);
            match page.next {
                Some(next) => after = next,
                None => return Ok(found),
            }
        }
    }

    /// Drops a checkpoint of a file or directory: one request; the servers free its space in the
    /// background.
    pub async fn remove_checkpoint(&self, path: impl Into<Place>, name: &str) -> Result<(), Error> {
        let place = path.into();
        let request = RemoveCheckpointRequest {
            who: (*self.who).clone(),
            target: place.target(true)?,
            name: name.to_owned(),
        };
        let what = format!("delete checkpoint {name} of {place}");
        self.meta(&what, &request, Repeat::Unsafe).await?;
        Ok(())
    }
}

impl OpenView {
    /// The same view of a checkpoint of the file: it can be read, not written. No message.
    #[must_use]
    pub fn of_checkpoint(self, checkpoint: &CheckpointInfo) -> OpenView {
        self.of_checkpoint_number(checkpoint.number)
    }

    /// As [`OpenView::of_checkpoint`], by the checkpoint's number.
    #[must_use]
    pub fn of_checkpoint_number(mut self, number: u64) -> OpenView {
        self.checkpoint = number;
        self
    }
}
