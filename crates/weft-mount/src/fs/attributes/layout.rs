//! A file's layout as the extended attribute `user.weft.layout`: text that people can read and
//! write.

use bytes::Bytes;
use rustix::io::Errno;
use tokio::time::Instant;
use weft_client::{Attributes, Changes, FileKind, Place};
use weft_proto::Code;

use crate::fs::{Caller, FileSystem, FsError};
use crate::layout_text;
use crate::limits::{LAYOUT_CLOSE_GRACE, LAYOUT_RETRY_INTERVAL};

/// The layout of a file, or of a directory's new files, as text.
pub(super) const LAYOUT_XATTR: &[u8] = b"user.weft.layout";

impl FileSystem {
    pub(super) async fn layout(&self, id: u64) -> Result<Bytes, FsError> {
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(id)))
            .await?;
        let layout = attributes.layout.as_ref();
        let text = layout
            .map(layout_text::show)
            .filter(|text| !text.is_empty());
        text.map(Bytes::from)
            .ok_or(FsError::refused("no layout is set", Errno::NODATA))
    }

    pub(super) async fn set_layout(
        &self,
        caller: Caller,
        id: u64,
        text: &[u8],
    ) -> Result<(), FsError> {
        let layout = layout_text::parse(text).map_err(|why| {
            tracing::info!(file = self.metadata.shown(id), %why, "a layout is not valid");
            FsError::refused("the layout is not valid; the log says why", Errno::INVAL)
        })?;
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(id)))
            .await?;
        if attributes.kind == FileKind::Regular as i32 {
            self.refuse_if_data(&attributes).await?;
        } else if attributes.kind != FileKind::Directory as i32 {
            return Err(FsError::refused(
                "only files and directories have a layout",
                Errno::OPNOTSUPP,
            ));
        }
        let changes = Changes {
            layout: Some(layout),
            ..Changes::default()
        };
        let volume = self.on(caller);
        self.forget_kept(id).await;
        let set = || async {
            match volume
                .set_attributes(self.metadata.place(id), &changes)
                .await
            {
                Err(error) if error.code() == Code::Busy => Ok(false),
                done => done.map(|_| true),
            }
        };
        let deadline = Instant::now() + LAYOUT_CLOSE_GRACE;
        while !self.files.all(id).is_empty() || !self.call(set).await? {
            if Instant::now() > deadline {
                return Err(FsError::refused(
                    "the file is open; close it everywhere first",
                    Errno::BUSY,
                ));
            }
            tokio::time::sleep(LAYOUT_RETRY_INTERVAL).await;
        }
        // New files in it have another layout from now on.
        self.volume.end_delegation(id);
        Ok(())
    }

    /// A file's layout changes only if no data would have to move; the service checks the rest.
    async fn refuse_if_data(&self, attributes: &Attributes) -> Result<(), FsError> {
        let forks = self.call(|| self.volume.forks(attributes)).await?;
        if forks.iter().any(|fork| fork.length > 0) {
            return Err(FsError::refused("the file holds data", Errno::NOTEMPTY));
        }
        Ok(())
    }
}
