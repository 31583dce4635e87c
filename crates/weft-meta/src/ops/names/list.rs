//! List: one page of a directory with the attributes of every entry.
//!
//! A page ends at a name and the next one begins after it, so a listing stays stable while names
//! are added and removed: a name that exists throughout is listed exactly once.

use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_kv::prefix_end;
use weft_proto::limits::LIST_PAGE_MAX;
use weft_proto::meta::{Entry, ListReply, ListRequest};

use crate::access::{READ, need};
use crate::error::{MetaError, text};
use crate::limits::LIST_PAGE_BYTES;
use crate::paths::resolve;
use crate::records::keys::{self, ENTRIES};
use crate::records::{Node, attributes};
use crate::tx::Volume;

pub(crate) fn list(volume: &Volume, request: &ListRequest) -> Result<ListReply, MetaError> {
    let path = &request.target.path;
    let limit = match request.limit {
        0 => LIST_PAGE_MAX,
        limit => limit.min(LIST_PAGE_MAX),
    };
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        if !node.inode.is_directory() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        need(&request.who, &node.inode, READ, path)?;
        let mut names = Vec::new();
        let mut damaged = None;
        let mut visit = |key: &[u8], value: &[u8]| {
            match keys::entry_in(node.id, value) {
                Ok(entry) => names.push((key[8..].to_vec(), entry.id)),
                Err(error) => damaged = Some(error),
            }
            if damaged.is_some() || names.len() > limit as usize {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let start = keys::with_name(node.id, &request.after);
        let end = prefix_end(&node.id.to_be_bytes());
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        reader.scan(ENTRIES, Bound::Excluded(&start), end, &mut visit)?;
        if let Some(error) = damaged {
            return Err(error);
        }
        let mut more = names.len() > limit as usize;
        names.truncate(limit as usize);
        let mut entries = Vec::with_capacity(names.len());
        let mut bytes = 0;
        for (name, id) in names {
            let inode = keys::named_inode(reader, id)?;
            let entry = Entry {
                name: name.into(),
                attributes: attributes(&Node { id, inode }),
            };
            bytes += entry.encoded_len() + 8;
            if bytes > LIST_PAGE_BYTES && !entries.is_empty() {
                more = true;
                break;
            }
            entries.push(entry);
        }
        Ok(ListReply {
            entries,
            more,
            directory: attributes(&node),
        })
    })
}
