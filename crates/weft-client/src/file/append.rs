//! Where to append: dealt out by the metadata service, so that no two appends overlap.

use weft_proto::coord::AppendRequest;

use crate::volume::Repeat;
use crate::{Error, File};

impl File {
    /// The offset in canonical order at which to write `length` bytes that are to follow all
    /// others: at or beyond `known_end`, which is one past the last byte that this client knows of,
    /// and every byte that any client appended. The file must be attached for writing. One request;
    /// while other clients have the file attached for writing the service asks its servers.
    ///
    /// Who does not write there leaves zeros. In the first seconds after a restart of the service a
    /// file that was there before waits: another client may still hold an offset from before.
    pub async fn append_offset(&self, length: u64, known_end: u64) -> Result<u64, Error> {
        self.commit().await?;
        let a = &self.0;
        let request = AppendRequest {
            file: a.id,
            length,
            known_end,
        };
        let what = format!("append to {}", a.path);
        // Dealt out twice it leaves a hole, which is better than not to know.
        let reply = a.volume.meta(&what, &request, Repeat::Safe).await?;
        Ok(reply.offset)
    }
}
