//! From an inode back to its path. Cost: a scan of the entries beside each directory on the way.

use std::ops::ControlFlow;

use weft_kv::{Reader, scan_prefix};
use weft_proto::limits::PATH_MAX;
use weft_proto::meta::ROOT;

use crate::error::MetaError;
use crate::records::keys::{self, ENTRIES, readable};
use crate::records::record::InodeRecord;

/// The path of a directory.
pub(crate) fn directory_path(reader: &dyn Reader, id: u64) -> Result<Vec<u8>, MetaError> {
    let mut path = path_of(reader, id, Vec::new())?;
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    Ok(path)
}

/// The path of a name in a directory. The name of each directory on the way is found among the
/// entries of its parent.
pub(crate) fn path_of(
    reader: &dyn Reader,
    mut parent: u64,
    name: Vec<u8>,
) -> Result<Vec<u8>, MetaError> {
    let mut path = name;
    while parent != ROOT && path.len() < PATH_MAX {
        let Some(inode) = readable(reader, parent)?.filter(InodeRecord::is_directory) else {
            return Ok([format!("(inode {parent})/").as_bytes(), &path].concat());
        };
        let mut found = None;
        let prefix = inode.parent.to_be_bytes();
        scan_prefix(reader, ENTRIES, &prefix, &mut |key, value| {
            let record = keys::entry_in(inode.parent, value);
            if record.is_ok_and(|record| record.id == parent) {
                found = Some(key[8..].to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let Some(name) = found else {
            return Ok([format!("(inode {parent})/").as_bytes(), &path].concat());
        };
        path = [&name[..], b"/", &path].concat();
        parent = inode.parent;
    }
    Ok([b"/", &path[..]].concat())
}
