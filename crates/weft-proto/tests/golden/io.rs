//! Messages between clients and I/O servers that move or describe data.

use weft_proto::io::{
    Access, Advice, AdviseReply, AdviseRequest, CellRun, CellStatusReply, CellStatusRequest,
    ClearRangeReply, ClearRangeRequest, CopyRangeReply, CopyRangeRequest, CreateForkReply,
    CreateForkRequest, DataRun, DataRunsReply, DataRunsRequest, DeleteCellsReply,
    DeleteCellsRequest, ExtendCellsReply, ExtendCellsRequest, ForkSeen, Partition, ReadReply,
    ReadRequest, RemoveForkReply, RemoveForkRequest, SendRangeReply, SendRangeRequest, SyncReply,
    SyncRequest, TruncateCellsReply, TruncateCellsRequest, ViewKind, WriteReply, WriteRequest,
};
use weft_proto::stamp::ServerPosition;

use super::cases::Golden;
use super::values::{access, fork_state, grid, place, position, subfile};

pub fn messages(golden: &mut Golden) {
    data(golden);
    cells(golden);
    forks(golden);
    ranges(golden);
}

/// Reads and writes.
fn data(golden: &mut Golden) {
    golden.call(
        &ReadRequest {
            access: access(subfile()),
            ..ReadRequest::default()
        },
        &ReadReply {
            lengths: vec![CellRun {
                first: 1,
                step: 4,
                count: 2,
                length: 1 << 41,
            }],
            bytes: 1_000_000,
            doubted: true,
            ..ReadReply::default()
        },
    );
    golden.call(
        &WriteRequest {
            access: access(ViewKind::Partition(Partition {
                offset: 10,
                group: 20,
                stride: 30,
            })),
            chunk: 262_144,
            bytes: 1_000_000,
            sync: true,
            ordered: true,
            written: 1_700_000_000_000_000_000,
            ..WriteRequest::default()
        },
        &WriteReply {
            bytes: 1_000_000,
            ..WriteReply::default()
        },
    );
    golden.call(
        &SyncRequest {
            file: 77,
            written: vec![position()],
            check_only: true,
        },
        &SyncReply {
            cells: vec![fork_state()],
        },
    );
    golden.call(
        &AdviseRequest {
            access: access(ViewKind::Cell(5)),
            advice: Advice::Fetch as i32,
        },
        &AdviseReply { bytes: 300 },
    );
}

/// The cells of a file.
fn cells(golden: &mut Golden) {
    golden.call(
        &CellStatusRequest {
            file: 77,
            after: Some(place()),
            fork: "data".to_owned(),
            checkpoint: 0,
        },
        &CellStatusReply {
            forks: vec![fork_state(), fork_state()],
            more: true,
            doubted: true,
        },
    );
    golden.call(
        &TruncateCellsRequest {
            file: 77,
            grid: grid(),
            slot: 2,
            size: 1 << 40,
            op: 12,
        },
        &TruncateCellsReply {},
    );
    golden.call(
        &DeleteCellsRequest {
            files: vec![77, 300],
        },
        &DeleteCellsReply {},
    );
    golden.call(
        &ExtendCellsRequest {
            access: access(ViewKind::Cell(5)),
            chunk: 262_144,
        },
        &ExtendCellsReply {},
    );
}

/// The forks of cells.
fn forks(golden: &mut Golden) {
    golden.call(
        &CreateForkRequest {
            file: 77,
            place: place(),
            chunk: 262_144,
            accept_loss: true,
            checkpoint: Some(7),
        },
        &CreateForkReply {},
    );
    golden.call(
        &RemoveForkRequest {
            file: 77,
            place: place(),
            seen: Some(ForkSeen {
                length: 300,
                modified: 7,
            }),
        },
        &RemoveForkReply { changed: true },
    );
}

/// Ranges of cells.
fn ranges(golden: &mut Golden) {
    golden.call(
        &ClearRangeRequest {
            access: access(ViewKind::Cell(5)),
            ..ClearRangeRequest::default()
        },
        &ClearRangeReply::default(),
    );
    golden.call(
        &CopyRangeRequest {
            from: access(ViewKind::Cell(5)),
            to: Access {
                file: 78,
                ..access(ViewKind::Cell(4))
            },
            chunk: 262_144,
        },
        &CopyRangeReply { bytes: 1_000_000 },
    );
    golden.call(
        &SendRangeRequest {
            from: access(ViewKind::Cell(5)),
            to: Access {
                file: 78,
                ..access(ViewKind::Cell(4))
            },
            chunk: 262_144,
            servers: vec![3, 1],
        },
        &SendRangeReply {
            bytes: 1_000_000,
            written: vec![ServerPosition {
                server: 3,
                at: position(),
            }],
        },
    );
    golden.call(
        &DataRunsRequest {
            file: 77,
            grid: grid(),
            slot: 2,
            fork: "data".to_owned(),
            from: 1 << 40,
            checkpoint: 5,
        },
        &DataRunsReply {
            runs: vec![DataRun {
                cell: 5,
                offset: 1 << 40,
                length: 4096,
            }],
            next: Some(0),
        },
    );
}
