//! GetXattr: the value of one attribute.

use weft_proto::meta::{GetXattrReply, GetXattrRequest};

use super::acl_attributes::Acl;
use super::names::{Access, check_name, no_attribute};
use crate::error::MetaError;
use crate::paths::resolve;
use crate::records::keys::{self, XATTRS};
use crate::records::record::XattrRecord;
use crate::tx::Volume;

pub(crate) fn get_xattr(
    volume: &Volume,
    request: &GetXattrRequest,
) -> Result<GetXattrReply, MetaError> {
    let path = &request.target.path;
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        if let Some(acl) = Acl::named(&request.name) {
            let value = acl.get(&node, path)?;
            return Ok(GetXattrReply { value });
        }
        check_name(&request.who, &node, &request.name, Access::Read, path)?;
        let value = reader.get(XATTRS, &keys::with_name(node.id, &request.name))?;
        let value = value.ok_or_else(|| no_attribute(path, &request.name))?;
        let record: XattrRecord = keys::decode("extended attribute of", node.id, &value)?;
        Ok(GetXattrReply {
            value: record.value.into(),
        })
    })
}
