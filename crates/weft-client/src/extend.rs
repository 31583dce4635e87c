//! Making files longer, and never shorter.

use weft_layout::{Request, ViewOffset};
use weft_proto::io::ExtendCellsRequest;

use crate::volume::Repeat;
use crate::{Error, File, OpenView};

impl File {
    /// Makes the file at least `size` bytes long, with a hole at its end. One that is as long stays as it is: unlike
    /// [`File::truncate`] it cuts off nothing that others write meanwhile. One request, to the server of the last byte.
    ///
    /// # Durability
    /// As [`OpenView::write_at`].
    /// # Errors
    /// As of a write of the last byte: a size past the limit, a quota.
    /// # Cancellation
    /// Dropped, the file is longer or is not.
    pub async fn extend(&self, size: u64) -> Result<(), Error> {
        self.needs_write("extend")?;
        let Some(last) = size.checked_sub(1) else {
            return Ok(());
        };
        let extended = self.canonical()?.reach(ViewOffset(last)).await;
        self.note_write(Some(size));
        extended
    }
}

impl OpenView {
    /// Makes the cell that holds this byte of the view so long that it does.
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
                chunk: a.layout.chunk(),
            };
            let (what, server) = (self.what("extend"), a.layout.servers()[slot.0 as usize]);
            a.volume.io(&what, server, &request, Repeat::Safe).await?;
        }
        Ok(())
    }
}
