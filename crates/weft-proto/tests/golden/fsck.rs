//! Messages of the check of a volume.

use bytes::Bytes;
use weft_proto::fsck::{
    AdoptFileRequest, CellState, CheckNamespaceReply, CheckNamespaceRequest, CheckStoreReply,
    CheckStoreRequest, CheckpointedState, Fault, FileState, Finding, ListCellsReply,
    ListCellsRequest, ListFilesReply, ListFilesRequest, ListKeptReply, ListKeptRequest,
    ListedCheckpoint, NameOf, NamesOfReply, NamesOfRequest, RepairNamespaceReply,
    RepairNamespaceRequest, WhichDeletedReply, WhichDeletedRequest,
};
use weft_proto::io::ForkPlace;
use weft_proto::meta::Layout;

use super::cases::Golden;

fn place() -> ForkPlace {
    ForkPlace {
        cell: 5,
        fork: "data".to_owned(),
    }
}

fn finding() -> Finding {
    Finding {
        fault: Fault::LostCells as i32,
        file: 77,
        parent: 1,
        name: Bytes::from_static(b"n"),
        expected: 300,
        found: 9,
        text: "text".to_owned(),
        server: Some(3),
        place: Some(place()),
        chunk: Some(4),
        first: 2,
        blocks: 6,
        disk: 1,
        block: 4096,
        repaired: true,
        done: "done".to_owned(),
    }
}

fn layout() -> Layout {
    Layout {
        cells: 8,
        bsu: 65_536,
        chunk: 1 << 20,
        servers: vec![3, 1, 2],
        storage: 0,
        parity: 0,
    }
}

fn file() -> FileState {
    FileState {
        file: 77,
        there: true,
        layout: Some(layout()),
        inline: true,
        size: 1 << 40,
        size_exact: true,
        written: -1,
        changed: 5,
        owed: true,
        open: true,
        checkpoints: vec![ListedCheckpoint {
            number: 300,
            there: true,
        }],
        other: true,
        held: false,
        spilling: true,
        fork_bytes: 300,
    }
}

pub fn messages(golden: &mut Golden) {
    stores(golden);
    namespace(golden);
}

/// Messages to I/O servers.
fn stores(golden: &mut Golden) {
    golden.call(
        &ListCellsRequest {
            file: 77,
            after: Some(place()),
            only: true,
        },
        &ListCellsReply {
            cells: vec![CellState {
                file: 77,
                cell: 5,
                fork: "data".to_owned(),
                length: 1 << 40,
                modified: -1,
                chunk: 65_536,
            }],
            more: true,
            doubted_below: 300,
            doubted_ends: true,
        },
    );
    golden.call(
        &ListKeptRequest {
            file: 77,
            number: 300,
            only: true,
        },
        &ListKeptReply {
            kept: vec![CheckpointedState {
                file: 77,
                number: 300,
                made: -1,
            }],
            more: true,
        },
    );
    golden.call(
        &WhichDeletedRequest {
            files: vec![77, 300],
        },
        &WhichDeletedReply { files: vec![300] },
    );
    golden.call(
        &CheckStoreRequest {
            pass: 9,
            part: 300,
            data: true,
            repair: true,
        },
        &CheckStoreReply {
            done: true,
            chunks: 7,
            bytes: 1 << 20,
            total: 1 << 40,
            findings: vec![finding()],
            more: 2,
        },
    );
}

/// Messages to the metadata service.
fn namespace(golden: &mut Golden) {
    golden.call(
        &CheckNamespaceRequest { pass: 9, seen: 300 },
        &CheckNamespaceReply {
            done: true,
            records: 7,
            files: 3,
            total: 300,
            findings: vec![finding()],
            more: 2,
            failed: "why".to_owned(),
        },
    );
    golden.call(
        &ListFilesRequest {
            after: 77,
            files: vec![77, 300],
        },
        &ListFilesReply {
            files: vec![file()],
            more: true,
            next_id: 301,
            through: 300,
        },
    );
    golden.call(
        &RepairNamespaceRequest {
            finding: finding(),
            seen: Some(file()),
        },
        &RepairNamespaceReply {
            gone: true,
            done: "done".to_owned(),
        },
    );
    golden.call(
        &AdoptFileRequest {
            file: 77,
            layout: layout(),
            size: 1 << 40,
            modified: -1,
            known: "known".to_owned(),
            instead_of: Some(layout()),
        },
        &RepairNamespaceReply::default(),
    );
    golden.call(
        &NamesOfRequest {
            files: vec![77, 300],
        },
        &NamesOfReply {
            names: vec![NameOf {
                file: 77,
                path: Bytes::from_static(b"/n"),
            }],
        },
    );
}
