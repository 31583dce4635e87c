//! ListXattr: the names that the caller may see.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::meta::{ListXattrReply, ListXattrRequest};

use super::acl_attributes::Acl;
use crate::access::is_root;
use crate::error::MetaError;
use crate::paths::resolve;
use crate::records::keys::XATTRS;
use crate::tx::Volume;

pub(crate) fn list_xattr(
    volume: &Volume,
    request: &ListXattrRequest,
) -> Result<ListXattrReply, MetaError> {
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        let mut names = Vec::new();
        if node.inode.xattr_bytes > 0 {
            scan_prefix(reader, XATTRS, &node.id.to_be_bytes(), &mut |key, _| {
                let name = &key[8..];
                if is_root(&request.who) || !name.starts_with(b"trusted.") {
                    names.push(name.to_vec().into());
                }
                ControlFlow::Continue(())
            })?;
        }
        for acl in [Acl::Access, Acl::Default] {
            if acl.of(&node).is_some() {
                names.push(acl.name().into());
            }
        }
        names.sort();
        Ok(ListXattrReply { names })
    })
}
