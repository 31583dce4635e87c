//! Stat: the attributes of one path.

use weft_proto::meta::{StatReply, StatRequest};

use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::paths::resolve;
use crate::records::attributes;

impl Namespace {
    /// Attributes as last known; the size of a file that is being written is on the servers.
    pub fn stat(&self, request: &StatRequest) -> Result<StatReply, MetaError> {
        self.read(|reader| {
            let node = resolve(reader, &request.who, &request.target)?;
            Ok(StatReply {
                attributes: attributes(&node),
            })
        })
    }
}
