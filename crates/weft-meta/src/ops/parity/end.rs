//! EndCoding: a parity file is complete.

use weft_proto::parity::{EndCodingReply, EndCodingRequest};

use crate::error::{MetaError, text};
use crate::records::keys;
use crate::records::record::{CodingRecord, CodingsRecord};
use crate::tx::Volume;

pub(crate) fn end_coding(
    volume: &Volume,
    request: &EndCodingRequest,
) -> Result<EndCodingReply, MetaError> {
    let (id, coding) = (request.file, &request.coding);
    volume.transact(|tx| {
        let inode = keys::inode(tx.reader(), id)?.ok_or(MetaError::Stale { id })?;
        let codings = inode.codings.clone().unwrap_or_default();
        let same = |known: &CodingRecord| {
            (known.checkpoint, known.parity_file) == (coding.checkpoint, coding.parity_file)
        };
        if codings.done.as_ref().is_some_and(same) {
            // The caller asks again.
            return Ok(EndCodingReply {});
        }
        let (Some(begun), Some(layout)) = (codings.begun.filter(same), &inode.layout) else {
            return Err(MetaError::Invalid {
                path: text(format!("file {id}").as_bytes()),
                reason: "it has begun to be coded again since",
            });
        };
        if coding.primaries.len() != layout.servers.len() {
            return Err(MetaError::Invalid {
                path: text(format!("file {id}").as_bytes()),
                reason: "a coding names one primary for each server of the layout",
            });
        }
        if let Some(done) = &codings.done {
            tx.end_coding(id, done, layout)?;
        }
        let primaries = coding.primaries.clone();
        tx.change(id, &inode).codings = Some(CodingsRecord {
            done: Some(CodingRecord { primaries, ..begun }),
            begun: None,
        });
        Ok(EndCodingReply {})
    })
}
