//! The bytes of what `weft fsck` asks and is told.

use bytes::Bytes;
use weft_proto::Kind;
use weft_proto::fsck::{
    AdoptFileRequest, CellState, CheckNamespaceReply, CheckNamespaceRequest, CheckStoreReply,
    CheckStoreRequest, Fault, FileState, Finding, KeptState, ListCellsReply, ListCellsRequest,
    ListFilesReply, ListFilesRequest, ListKeptReply, ListKeptRequest, ListedCheckpoint, NameOf,
    NamesOfReply, NamesOfRequest, RepairNamespaceReply, RepairNamespaceRequest, WhichDeletedReply,
    WhichDeletedRequest,
};
use weft_proto::io::ForkPlace;
use weft_proto::meta::Layout;

use super::call;

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

pub fn check(kind: Kind) -> Kind {
    match kind {
        Kind::ListCells | Kind::ListKept | Kind::WhichDeleted | Kind::CheckStore => of_server(kind),
        _ => of_namespace(kind),
    }
}

fn of_server(kind: Kind) -> Kind {
    match kind {
        Kind::ListCells => call(
            &ListCellsRequest {
                file: 77,
                after: Some(place()),
                only: true,
            },
            "084d120808051204646174611801",
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
            "0a20084d10051a04646174612080808080802028ffffffffffffffffff0130808004100118ac022001",
        ),
        Kind::ListKept => call(
            &ListKeptRequest {
                file: 77,
                number: 300,
                only: true,
            },
            "084d10ac021801",
            &ListKeptReply {
                kept: vec![KeptState {
                    file: 77,
                    number: 300,
                    made: -1,
                }],
                more: true,
            },
            "0a10084d10ac0218ffffffffffffffffff011001",
        ),
        Kind::WhichDeleted => call(
            &WhichDeletedRequest {
                files: vec![77, 300],
            },
            "0a034dac02",
            &WhichDeletedReply { files: vec![300] },
            "0a02ac02",
        ),
        _ => call(
            &CheckStoreRequest {
                pass: 9,
                part: 300,
                data: true,
                repair: true,
            },
            "080910ac0218012001",
            &CheckStoreReply {
                done: true,
                chunks: 7,
                bytes: 1 << 20,
                total: 1 << 40,
                findings: vec![finding()],
                more: 2,
            },
            "0801100718808040208080808080202a340820104d180122016e28ac0230093a047465787440034a08080512046461746150045802600668017080207801820104646f6e653002",
        ),
    }
}

fn of_namespace(kind: Kind) -> Kind {
    match kind {
        Kind::CheckNamespace => call(
            &CheckNamespaceRequest { pass: 9, seen: 300 },
            "080910ac02",
            &CheckNamespaceReply {
                done: true,
                records: 7,
                files: 3,
                total: 300,
                findings: vec![finding()],
                more: 2,
                failed: "why".to_owned(),
            },
            "08011007180320ac022a340820104d180122016e28ac0230093a047465787440034a08080512046461746150045802600668017080207801820104646f6e6530023a03776879",
        ),
        Kind::ListFiles => call(
            &ListFilesRequest {
                after: 77,
                files: vec![77, 300],
            },
            "084d12034dac02",
            &ListFilesReply {
                files: vec![file()],
                more: true,
                next_id: 301,
                through: 300,
            },
            "0a3f084d10011a0f080810808004188080402203030102200128808080808020300138ffffffffffffffffff014005480150015a0508ac0210016001700178ac02100118ad0220ac02",
        ),
        Kind::RepairNamespace => call(
            &RepairNamespaceRequest {
                finding: finding(),
                seen: Some(file()),
            },
            "0a340820104d180122016e28ac0230093a047465787440034a08080512046461746150045802600668017080207801820104646f6e65123f084d10011a0f080810808004188080402203030102200128808080808020300138ffffffffffffffffff014005480150015a0508ac0210016001700178ac02",
            &RepairNamespaceReply {
                gone: true,
                done: "done".to_owned(),
            },
            "08011204646f6e65",
        ),
        Kind::AdoptFile => call(
            &AdoptFileRequest {
                file: 77,
                layout: layout(),
                size: 1 << 40,
                modified: -1,
                known: "known".to_owned(),
                instead_of: Some(layout()),
            },
            "084d120f0808108080041880804022030301021880808080802020ffffffffffffffffff012a056b6e6f776e320f080810808004188080402203030102",
            &RepairNamespaceReply::default(),
            "",
        ),
        _ => call(
            &NamesOfRequest {
                files: vec![77, 300],
            },
            "0a034dac02",
            &NamesOfReply {
                names: vec![NameOf {
                    file: 77,
                    path: Bytes::from_static(b"/n"),
                }],
            },
            "0a06084d12022f6e",
        ),
    }
}
