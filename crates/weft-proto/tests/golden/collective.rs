//! Messages of collective requests, which the members of a group make together.

use weft_proto::collective::{
    CollectiveReadReply, CollectiveReadRequest, CollectiveWriteReply, CollectiveWriteRequest,
    JoinedReadReply, JoinedReadRequest, JoinedWriteReply, JoinedWriteRequest, Membership,
};
use weft_proto::io::CellRun;

use super::cases::Golden;
use super::values::{access, subfile};

pub fn membership() -> Membership {
    Membership {
        group: "job-7".to_owned(),
        sequence: 3,
        members: 8,
        member: 2,
        nonce: 9,
        wait: 30_000,
        go_on: true,
        again: true,
    }
}

fn lengths() -> Vec<CellRun> {
    vec![CellRun {
        first: 1,
        step: 4,
        count: 2,
        length: 1 << 41,
    }]
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &CollectiveReadRequest {
            membership: membership(),
            access: access(subfile()),
        },
        &CollectiveReadReply {
            lengths: lengths(),
            bytes: 1_000_000,
            missing: vec![2, 5],
        },
    );
    golden.call(
        &CollectiveWriteRequest {
            membership: membership(),
            access: access(subfile()),
            chunk: 262_144,
            bytes: 1_000_000,
            sync: true,
            ordered: true,
            member_order: true,
        },
        &CollectiveWriteReply {
            bytes: 1_000_000,
            missing: vec![2, 5],
        },
    );
    golden.call(
        &JoinedReadRequest {
            accesses: vec![access(subfile())],
        },
        &JoinedReadReply {
            lengths: lengths(),
            bytes: 1_000_000,
        },
    );
    golden.call(
        &JoinedWriteRequest {
            accesses: vec![access(subfile())],
            chunk: 262_144,
            bytes: 1_000_000,
            sync: true,
            member_order: true,
        },
        &JoinedWriteReply { bytes: 1_000_000 },
    );
}
