//! Messages about checkpoints of files and trees.

use bytes::Bytes;
use weft_proto::checkpoint::{
    CheckpointInfo, CheckpointReply, CheckpointRequest, CheckpointedFile, DropCheckpointReply,
    DropCheckpointRequest, FileCheckpoint, ListCheckpointsReply, ListCheckpointsRequest,
    ListFileCheckpointsReply, ListFileCheckpointsRequest, MakeCheckpointReply,
    MakeCheckpointRequest, RemoveCheckpointReply, RemoveCheckpointRequest, RollBackRequest,
    RollbackReply, RollbackRequest, TreeFile,
};

use weft_proto::Kind;

use super::cases::Golden;
use super::values::{grid, stat, target, who};

fn name() -> String {
    "c".to_owned()
}

fn info() -> CheckpointInfo {
    CheckpointInfo {
        name: name(),
        number: 5,
        made: 1,
        size: 300,
        image: 6,
        names: 7,
    }
}

pub fn messages(golden: &mut Golden) {
    let release = CheckpointRequest {
        release: true,
        ..CheckpointRequest::default()
    };
    golden.message(Kind::Checkpoint, "CheckpointRelease", &release);
    golden.call(
        &MakeCheckpointRequest {
            who: who(),
            target: target(),
            name: name(),
        },
        &MakeCheckpointReply { checkpoint: info() },
    );
    golden.call(
        &ListCheckpointsRequest {
            who: who(),
            target: target(),
            after: name(),
        },
        &ListCheckpointsReply {
            checkpoints: vec![info()],
            more: true,
        },
    );
    golden.call(
        &RemoveCheckpointRequest {
            who: who(),
            target: target(),
            name: name(),
        },
        &RemoveCheckpointReply {},
    );
    golden.call(
        &ListFileCheckpointsRequest {
            who: who(),
            target: target(),
            after: Bytes::from_static(b"f"),
        },
        &ListFileCheckpointsReply {
            checkpoints: vec![FileCheckpoint {
                file: Bytes::from_static(b"f"),
                name: name(),
            }],
            next: Some(Bytes::from_static(b"f")),
        },
    );
    golden.call(
        &RollBackRequest {
            who: who(),
            target: target(),
            name: name(),
        },
        &stat(),
    );
    golden.call(
        &CheckpointRequest {
            release: false,
            file: 77,
            grid: grid(),
            op: 5,
            others: vec![TreeFile {
                file: 78,
                grid: grid(),
            }],
            more: true,
            held: 9,
        },
        &CheckpointReply {
            size: 300,
            others: vec![CheckpointedFile {
                size: 300,
                modified: 1,
            }],
            modified: 2,
        },
    );
    golden.call(
        &RollbackRequest {
            file: 77,
            checkpoint: 5,
            op: 6,
            others: vec![78],
        },
        &RollbackReply {},
    );
    golden.call(
        &DropCheckpointRequest {
            file: 77,
            checkpoint: 5,
            op: 6,
            others: vec![78],
        },
        &DropCheckpointReply {},
    );
}
