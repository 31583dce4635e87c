//! Messages about the order among the operations of a file.

use weft_proto::order::{
    Claim, ClaimReply, ClaimRequest, ForceCautionReply, ForceCautionRequest, OutcomeReply,
    OutcomeRequest, SettleReply, SettleRequest, Step,
};

use weft_proto::Kind;
use weft_proto::io::{
    ClearRangeReply, ClearRangeRequest, ReadReply, ReadRequest, WriteReply, WriteRequest,
};

use super::cases::Golden;

pub fn claim() -> Claim {
    Claim {
        operation: 0x0123_4567_89ab_cdef,
        coordinator: 2,
        alone: true,
        wait: true,
        ended: vec![5],
    }
}

pub fn messages(golden: &mut Golden) {
    // What other calls carry about it.
    let write = WriteRequest {
        claim: Some(claim()),
        ..WriteRequest::default()
    };
    golden.message(Kind::Claim, "ClaimedWrite", &write);
    let read = ReadRequest {
        claim: Some(claim()),
        ..ReadRequest::default()
    };
    golden.message(Kind::Claim, "ClaimedRead", &read);
    let clear = ClearRangeRequest {
        claim: Some(claim()),
        ..ClearRangeRequest::default()
    };
    golden.message(Kind::Claim, "ClaimedClearRange", &clear);
    let granted = WriteReply {
        granted: true,
        ..WriteReply::default()
    };
    golden.message(Kind::Claim, "GrantedWrite", &granted);
    let granted = ReadReply {
        granted: true,
        ..ReadReply::default()
    };
    golden.message(Kind::Claim, "GrantedRead", &granted);
    let granted = ClearRangeReply { granted: true };
    golden.message(Kind::Claim, "GrantedClearRange", &granted);
    golden.call(
        &ClaimRequest {
            claim: claim(),
            file: 77,
        },
        &ClaimReply { granted: true },
    );
    golden.call(
        &SettleRequest {
            operation: 1 << 63,
            step: Step::Commit.into(),
            ended: vec![5],
        },
        &SettleReply { known: true },
    );
    golden.call(
        &ForceCautionRequest {
            files: vec![7, 300],
            forced: true,
        },
        &ForceCautionReply {},
    );
    golden.call(
        &OutcomeRequest {
            operation: 1 << 63,
            abort: true,
        },
        &OutcomeReply { committed: true },
    );
}
