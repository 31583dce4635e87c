//! Stat: the attributes of one path.

use weft_proto::meta::{StatReply, StatRequest};

use crate::error::MetaError;
use crate::paths::resolve;
use crate::records::attributes;
use crate::tx::Volume;

pub(crate) fn stat(volume: &Volume, request: &StatRequest) -> Result<StatReply, MetaError> {
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        Ok(StatReply {
            attributes: attributes(&node),
        })
    })
}
