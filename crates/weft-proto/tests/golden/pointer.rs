//! Messages about shared offset pointers.

use weft_proto::pointer::{
    PointerName, PointerReply, PointerRequest, TakeOffsetReply, TakeOffsetRequest,
};

use super::cases::Golden;
use super::collective::membership;

pub fn messages(golden: &mut Golden) {
    let pointer = PointerName {
        file: 77,
        name: "queue".to_owned(),
    };
    golden.call(
        &TakeOffsetRequest {
            pointer: pointer.clone(),
            taker: 1 << 63,
            sequence: 300,
            bytes: 65_536,
            group: Some(membership()),
        },
        &TakeOffsetReply { offset: 1 << 40 },
    );
    golden.call(
        &PointerRequest {
            pointer,
            set: Some(1 << 40),
            remove: true,
        },
        &PointerReply { offset: 65_536 },
    );
}
