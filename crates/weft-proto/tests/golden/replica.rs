//! Messages between the replicas of a server.

use weft_proto::Kind;
use weft_proto::meta::{
    ChangeReplicasReply, ChangeReplicasRequest, ReplicaAddress, ReplicaChange, ReplicaSet,
};
use weft_proto::replica::{
    ApplyReply, ApplyRequest, BeaconReply, BeaconRequest, Change, ClearRanges, ConfirmReadReply,
    ConfirmReadRequest, FileAction, FileOperation, ForkId, ForkLength, ForkRange, ForkWrite,
    ReplicaFile, ReplicaFilesReply, ReplicaFilesRequest, ReplicaFork, ReplicaPart,
    ReplicaPartsReply, ReplicaPartsRequest, ReplicaReadReply, ReplicaReadRequest,
    ReplicaScrubReply, ReplicaScrubRequest, SetLengths, WritePieces,
};

use super::cases::Golden;
use super::values::{bytes, position};

pub fn replica_set() -> ReplicaSet {
    ReplicaSet {
        term: 7,
        primary: 1,
        in_sync: vec![0, 1],
        members: vec![ReplicaAddress {
            number: 1,
            address: "10.0.0.3:7100".to_owned(),
        }],
        leaving: vec![1],
    }
}

fn fork() -> ForkId {
    ForkId {
        file: 77,
        cell: 5,
        fork: "data".to_owned(),
    }
}

fn length() -> ForkLength {
    ForkLength {
        fork: fork(),
        length: 300,
        chunk: 65_536,
    }
}

fn apply(change: Change) -> ApplyRequest {
    ApplyRequest {
        term: 7,
        change: Some(change),
        time: 300,
        bytes: 0,
        pass: 3,
    }
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &ChangeReplicasRequest {
            server: 3,
            caller: 1,
            term: 7,
            change: ReplicaChange::TakeOver.into(),
            replica: 1,
        },
        &ChangeReplicasReply {
            set: replica_set(),
            changed: true,
        },
    );
    golden.call(
        &BeaconRequest {
            term: 7,
            primary: 1,
            incarnations: vec![1 << 63, 2],
            position: Some(position()),
        },
        &BeaconReply {
            incarnation: 1 << 63,
            sequence: 300,
        },
    );
    golden.call(
        &ConfirmReadRequest {
            term: 7,
            file: 300,
            replica: 1,
            incarnation: 1 << 63,
        },
        &ConfirmReadReply {},
    );
    changes(golden);
    listings(golden);
}

fn changes(golden: &mut Golden) {
    let write = Change::Write(WritePieces {
        forks: vec![ForkWrite {
            fork: fork(),
            chunk: 65_536,
            runs: vec![300, 64, 10, 4096],
        }],
    });
    golden.call(
        &ApplyRequest {
            bytes: 640,
            ..apply(write)
        },
        &ApplyReply {},
    );
    let range = ForkRange {
        fork: fork(),
        start: 300,
        end: 4096,
    };
    let operation = FileOperation {
        files: vec![77, 300],
        action: FileAction::RollBack.into(),
        op: 12,
        checkpoint: 9,
    };
    let lengths = SetLengths {
        file: 77,
        lengths: vec![length()],
        op: 12,
    };
    let others = [
        (
            "Clear",
            Change::Clear(ClearRanges {
                ranges: vec![range],
            }),
        ),
        ("SetLengths", Change::SetLengths(lengths)),
        ("Extend", Change::Extend(length())),
        ("CreateFork", Change::CreateFork(length())),
        ("RemoveFork", Change::RemoveFork(fork())),
        ("Files", Change::Files(operation)),
        ("Sync", Change::Sync(true)),
    ];
    for (name, change) in others {
        golden.message(Kind::Apply, &format!("ApplyRequest.{name}"), &apply(change));
    }
}

fn listings(golden: &mut Golden) {
    golden.call(
        &ReplicaFilesRequest {
            term: 7,
            after: 300,
            only: 77,
            fence: 3,
            position: Some(position()),
        },
        &ReplicaFilesReply {
            files: vec![ReplicaFile {
                file: 77,
                op: 12,
                deleted: true,
                checkpoints: vec![9, 300],
                forks: vec![ReplicaFork {
                    checkpoint: 9,
                    cell: 5,
                    fork: "data".to_owned(),
                    length: 300,
                    chunk: 65_536,
                    modified: 300,
                }],
            }],
            more: true,
            has: true,
        },
    );
    golden.call(
        &ReplicaPartsRequest {
            term: 7,
            fork: fork(),
            checkpoint: 9,
            first: 300,
            end: Some(301),
        },
        &ReplicaPartsReply {
            parts: vec![ReplicaPart {
                number: 300,
                hash: bytes(7, 32),
                coded: true,
            }],
            next: Some(301),
        },
    );
    golden.call(
        &ReplicaReadRequest {
            term: 7,
            fork: fork(),
            offset: 300,
            length: 4096,
        },
        &ReplicaReadReply { data: bytes(7, 16) },
    );
    golden.call(
        &ReplicaScrubRequest {
            term: 7,
            from: Some(bytes(7, 4)),
            bytes: 300,
        },
        &ReplicaScrubReply {
            next: Some(bytes(7, 4)),
            bytes: 300,
            damaged: vec![ForkRange {
                fork: fork(),
                start: 300,
                end: 4096,
            }],
            others: 2,
        },
    );
}
