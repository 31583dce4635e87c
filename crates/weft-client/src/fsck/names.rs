//! Names of files by their ids.

use bytes::Bytes;
use weft_proto::fsck::NamesOfRequest;

use crate::volume::Repeat;
use crate::{Error, Volume};

impl Volume {
    /// Paths of inodes: the id and one name each, at most a thousand. The service looks through all
    /// names for them.
    pub async fn names_of(&self, files: &[u64]) -> Result<Vec<(u64, Bytes)>, Error> {
        let request = NamesOfRequest {
            files: files.to_vec(),
        };
        let reply = self.meta("look for names", &request, Repeat::Safe).await?;
        Ok(reply
            .names
            .into_iter()
            .map(|name| (name.file, name.path))
            .collect())
    }
}
