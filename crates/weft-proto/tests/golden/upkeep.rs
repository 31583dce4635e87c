//! Messages of scrubbing, disks, losses and trimming.

use weft_proto::upkeep::{
    AcceptLossesReply, AcceptLossesRequest, DiskCondition, DiskReport, DisksReply, DisksRequest,
    LossesReply, LossesRequest, ScrubFault, ScrubFinding, ScrubRequest, ScrubState,
    ScrubStatusReply, ScrubStatusRequest, TrimReply, TrimRequest,
};

use super::cases::Golden;

fn scrub_status() -> ScrubStatusReply {
    ScrubStatusReply {
        state: ScrubState::Running as i32,
        bytes: 1_000_000,
        total: 300,
        chunks: 5,
        bad: 2,
        findings: vec![ScrubFinding {
            file: 77,
            cell: 5,
            fork: "data".to_owned(),
            chunk: 4,
            first: 2,
            blocks: 3,
            disk: 1,
            place: 1 << 40,
            fault: ScrubFault::Unreadable as i32,
            reason: "gone".to_owned(),
            mended: true,
        }],
        more: 7,
        trouble: "no".to_owned(),
        rests: 250,
        mended: 2,
        replica_bytes: 4096,
        replica_files: 1,
    }
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &ScrubRequest {
            run: true,
            rate: 1_000_000,
            anew: true,
        },
        &scrub_status(),
    );
    golden.call(&ScrubStatusRequest {}, &scrub_status());
    golden.call(
        &TrimRequest {},
        &TrimReply {
            bytes: 300,
            held: 1,
            used: 2,
        },
    );
    golden.call(
        &LossesRequest {},
        &LossesReply {
            files: 1,
            ranges: 2,
            bytes: 300,
            more: true,
        },
    );
    golden.call(
        &AcceptLossesRequest {
            file: 77,
            all_unproven: true,
        },
        &AcceptLossesReply {
            ranges: 2,
            bytes: 300,
        },
    );
    golden.call(
        &DisksRequest {},
        &DisksReply {
            disks: vec![DiskReport {
                number: 2,
                path: "/b".to_owned(),
                condition: DiskCondition::Failed as i32,
                reason: "EIO".to_owned(),
                used: 300,
                available: 1,
                errors: 7,
            }],
        },
    );
}
