//! Messages about files whose data lies in the namespace.

use bytes::Bytes;
use weft_proto::inline::{SpillReply, SpillRequest, StoreInlineReply, StoreInlineRequest};
use weft_proto::meta::SetAttributesRequest;

use super::cases::Golden;
use super::values::attributes;

pub fn messages(golden: &mut Golden) {
    golden.call(
        &StoreInlineRequest {
            file: 77,
            data: Bytes::from_static(b"in"),
            modified: -1,
            detach: true,
            kill_priv: true,
            set: Some(SetAttributesRequest {
                mode: Some(0o644),
                ..SetAttributesRequest::default()
            }),
        },
        &StoreInlineReply {
            attributes: attributes(),
        },
    );
    golden.call(&SpillRequest { file: 77 }, &SpillReply {});
}
