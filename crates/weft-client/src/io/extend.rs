//! Making files longer, and never shorter.

use weft_layout::{Request, ViewOffset};
use weft_proto::io::ExtendCellsRequest;

use crate::volume::Repeat;
use crate::{Error, File, OpenView};

impl File {
    /// Makes the file at least `size` bytes long, with a hole at its end. Does nothing if the file
    /// is that long already: unlike [`File::truncate`] it never discards what other clients write
    /// at the same time. One request to the service, which charges the growth, and one to the
    /// server of the last byte; of an inline file only the first.
    ///
    /// # Durability
    /// As [`OpenView::write_at`].
    /// # Errors
    /// [`weft_proto::Code::QuotaExceeded`], and then nothing has changed; those of a write of the
    /// last byte.
    /// # Cancellation
    /// If dropped, the file may or may not have been extended.
    pub async fn extend(&self, size: u64) -> Result<(), Error> {
        self.needs_write("extend")?;
        let Some(last) = size.checked_sub(1) else {
            return Ok(());
        };
        let what = format!("extend {} to {size} bytes", self.0.path);
        if self.resize(&what, size, true).await?.inline {
            return Ok(());
        }
        let extended = self.canonical()?.reach(ViewOffset(last)).await;
        // A failed call may still have taken effect.
        self.note_write(extended.is_ok().then_some(size));
        extended
    }
}

impl OpenView {
    /// Extends the cell of this byte of the view far enough to hold it.
    async fn reach(&self, last: ViewOffset) -> Result<(), Error> {
        let byte = Request::Contiguous {
            offset: last,
            length: 1,
        };
        let pattern = self.pattern(&byte)?;
        let a = &self.file.0;
        for slot in &self.map.slots(&byte)? {
            let request = ExtendCellsRequest {
                access: self.access(&pattern, *slot),
                chunk: a.layout.chunk_code(),
            };
            let (what, server) = (self.what("extend"), a.layout.servers()[slot.0 as usize]);
            let extended = self.file.change(&what, server, &request, Repeat::Safe);
            extended.await?;
        }
        Ok(())
    }
}
