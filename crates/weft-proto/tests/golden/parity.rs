//! Messages about files with parity.

use bytes::Bytes;
use weft_proto::parity::{
    BeginCodingReply, BeginCodingRequest, CodeCellsReply, CodeCellsRequest, Coding, EndCodingReply,
    EndCodingRequest, FindCodingReply, FindCodingRequest, ListParityReply, ListParityRequest,
    ParityState, ReadPieceReply, ReadPieceRequest,
};
use weft_proto::replica::ForkId;

use super::cases::Golden;
use super::values::layout;

fn coding() -> Coding {
    Coding {
        checkpoint: 300,
        parity_file: 301,
        shape: 4 << 8 | 1,
        primaries: vec![1, 2, 300],
    }
}

fn state() -> ParityState {
    ParityState {
        file: 7,
        layout: layout(),
        changed: 300,
        busy: true,
        same: true,
        pinned: true,
        coded: Some(coding()),
        coding: Some(coding()),
    }
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &ListParityRequest { after: 300 },
        &ListParityReply {
            files: vec![state()],
            next: 300,
        },
    );
    golden.call(
        &BeginCodingRequest { file: 300 },
        &BeginCodingReply { state: state() },
    );
    golden.call(
        &EndCodingRequest {
            file: 300,
            coding: coding(),
        },
        &EndCodingReply {},
    );
    golden.call(
        &FindCodingRequest { file: 300 },
        &FindCodingReply {
            state: Some(state()),
        },
    );
    golden.call(
        &ReadPieceRequest {
            fork: ForkId {
                file: 300,
                cell: 2,
                fork: "data".into(),
            },
            checkpoint: 7,
            offset: 300,
            length: 5,
            restore: true,
        },
        &ReadPieceReply {
            data: Bytes::from_static(b"parity"),
        },
    );
    golden.call(
        &CodeCellsRequest {
            file: 300,
            checkpoint: 7,
        },
        &CodeCellsReply {},
    );
}
