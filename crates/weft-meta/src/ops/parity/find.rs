//! ListParity and FindCoding.

use std::ops::{Bound, ControlFlow};

use weft_proto::parity::{FindCodingReply, FindCodingRequest, ListParityReply, ListParityRequest};

use super::state::state;
use crate::error::MetaError;
use crate::limits::{FILES_PAGE, FILES_PAGE_BYTES};
use crate::records::Node;
use crate::records::keys::{self, PARITY, WITH_PARITY, readable};
use crate::records::record::{InodeRecord, ParityRecord};
use crate::tx::Volume;

pub(crate) fn list_parity(
    volume: &Volume,
    request: ListParityRequest,
) -> Result<ListParityReply, MetaError> {
    volume.read(|reader| {
        let (mut found, mut next) = (Vec::new(), 0);
        let start = request.after.to_be_bytes();
        let from = Bound::Excluded(&start[..]);
        reader.scan(WITH_PARITY, from, Bound::Unbounded, &mut |key, _| {
            let id = keys::number(key).unwrap_or(0);
            found.push(id);
            if found.len() == FILES_PAGE {
                next = id;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let mut reply = ListParityReply {
            files: Vec::new(),
            next,
        };
        let mut bytes = 0;
        for id in found {
            // A check reports unreadable records.
            let Some(inode) = readable(reader, id)? else {
                continue;
            };
            if let Some(state) = state(reader, &Node { id, inode })? {
                bytes += prost::Message::encoded_len(&state);
                reply.files.push(state);
            }
            if bytes > FILES_PAGE_BYTES {
                reply.next = id;
                break;
            }
        }
        Ok(reply)
    })
}

pub(crate) fn find_coding(
    volume: &Volume,
    request: FindCodingRequest,
) -> Result<FindCodingReply, MetaError> {
    volume.read(|reader| {
        let of = reader.get(PARITY, &request.file.to_be_bytes())?;
        let id = match of {
            Some(bytes) => keys::decode::<ParityRecord>("parity", request.file, &bytes)?.file,
            None => request.file,
        };
        let inode = match readable(reader, id)? {
            Some(inode) => Some(inode),
            // It was deleted, and checkpoints of trees need its cells.
            None => held(reader, id)?,
        };
        let state = match inode {
            Some(inode) => state(reader, &Node { id, inode })?,
            None => None,
        };
        Ok(FindCodingReply { state })
    })
}

/// What is left of a deleted file that checkpoints of trees need.
fn held(reader: &dyn weft_kv::Reader, id: u64) -> Result<Option<InodeRecord>, MetaError> {
    let Some(hold) = keys::hold(reader, id)? else {
        return Ok(None);
    };
    let Some(codings) = hold.codings else {
        return Ok(None);
    };
    Ok(Some(InodeRecord {
        layout: hold.layout,
        codings: Some(codings),
        ..InodeRecord::default()
    }))
}
