//! The bytes of every message, with every field set. They never change: a peer of another release sends them.

#[path = "bytes/fsck.rs"]
mod fsck;
#[path = "bytes/quota.rs"]
mod quota;

use std::fmt::Debug;

use bytes::Bytes;
use weft_proto::checkpoint::{
    CheckpointInfo, CheckpointReply, CheckpointRequest, DropCheckpointReply, DropCheckpointRequest,
    FileCheckpoint, KeptFile, ListCheckpointsReply, ListCheckpointsRequest,
    ListFileCheckpointsReply, ListFileCheckpointsRequest, MakeCheckpointReply,
    MakeCheckpointRequest, RemoveCheckpointReply, RemoveCheckpointRequest, RollBackRequest,
    RollbackReply, RollbackRequest, TreeFile,
};
use weft_proto::collective::{
    CollectiveReadReply, CollectiveReadRequest, CollectiveWriteReply, CollectiveWriteRequest,
    JoinedReadReply, JoinedReadRequest, JoinedWriteReply, JoinedWriteRequest, Membership,
};
use weft_proto::coord::{
    AppendReply, AppendRequest, ChangedEntry, HeldLock, LockFamily, LockKind, LockOutcome,
    LockReply, LockRequest, SyncNamespaceReply, SyncNamespaceRequest, TestLockReply,
    TestLockRequest, WatchReply, WatchRequest,
};
use weft_proto::delegation::{
    ChangeNamesReply, ChangeNamesRequest, DelegateReply, DelegateRequest, NameChange, NameChanged,
    NewFile,
};
use weft_proto::inline::{SpillReply, SpillRequest, StoreInlineReply, StoreInlineRequest};
use weft_proto::io::{
    Access, Advice, AdviseReply, AdviseRequest, CellRun, CellStatusReply, CellStatusRequest,
    ClearRangeReply, ClearRangeRequest, Contiguous, CopyRangeReply, CopyRangeRequest,
    CreateForkReply, CreateForkRequest, DataRun, DataRunsReply, DataRunsRequest, DeleteCellsReply,
    DeleteCellsRequest, ExtendCellsReply, ExtendCellsRequest, ForkPlace, ForkSeen, ForkState, Grid,
    Part, PartKind, PartRepeat, Partition, Pattern, PatternKind, ReadReply, ReadRequest,
    RemoveForkReply, RemoveForkRequest, Runs, SendRangeReply, SendRangeRequest, Shaped, Subfile,
    SyncReply, SyncRequest, TruncateCellsReply, TruncateCellsRequest, View, ViewKind, WriteReply,
    WriteRequest,
};
use weft_proto::meta::{
    AcceptRollbackReply, AcceptRollbackRequest, Accessed, AttachReply, AttachRequest, Attributes,
    ConnectedClient, Create, Credentials, DetachReply, DetachRequest, Entry, FileKind,
    GetXattrReply, GetXattrRequest, HeartbeatReply, HeartbeatRequest, Layout, LayoutWish,
    LinkRequest, ListClientsReply, ListClientsRequest, ListReply, ListRequest, ListXattrReply,
    ListXattrRequest, MakeDirectoryReply, MakeDirectoryRequest, MakeLinkRequest, MakeNodeRequest,
    ReadLinkReply, ReadLinkRequest, ReassertReply, ReassertRequest, RemoveDirectoryRequest,
    RemoveXattrRequest, RenameReply, RenameRequest, ReportReply, ReportRequest, Server,
    ServerMapReply, ServerMapRequest, ServerState, SetAttributesRequest, SetXattrRequest,
    StatReply, StatRequest, Target, TimeWish, TruncateRequest, UnlinkReply, UnlinkRequest, Usage,
    XattrDone,
};
use weft_proto::prost::Message;
use weft_proto::session::{
    Cancel, Challenge, Credit, Hello, Never, Nothing, Ping, Pong, Proof, Role, Welcome, Wire,
};
use weft_proto::stamp::{Position, ServerPosition, Stamp};
use weft_proto::upkeep::{
    AcceptLossesReply, AcceptLossesRequest, DiskCondition, DiskReport, DisksReply, DisksRequest,
    LossesReply, LossesRequest, ScrubFault, ScrubFinding, ScrubRequest, ScrubState,
    ScrubStatusReply, ScrubStatusRequest, TrimReply, TrimRequest,
};
use weft_proto::{Call, Code, Failure, Flags, HEADER_BYTES, Header, Kind, body_from};

fn hex(bytes: &[u8]) -> String {
    let digit = |d: u8| char::from(b"0123456789abcdef"[usize::from(d)]);
    let digits = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    digits.collect()
}

fn same<M: Message + Default + PartialEq + Debug>(kind: Kind, message: &M, golden: &str) {
    let golden: String = golden.split_whitespace().collect();
    let bytes = message.encode_to_vec();
    assert_eq!(hex(&bytes), golden, "{kind:?}: {message:?}");
    assert_eq!(&body_from::<M>(kind, &bytes).unwrap(), message);
}

/// A call's request and reply, next to their bytes.
fn call<C>(request: &C, request_bytes: &str, reply: &C::Reply, reply_bytes: &str) -> Kind
where
    C: Call + PartialEq + Debug,
    C::Reply: PartialEq + Debug,
{
    same(C::KIND, request, request_bytes);
    same(C::KIND, reply, reply_bytes);
    C::KIND
}

fn bytes(first: u8, count: u8) -> Bytes {
    (first..first + count).collect::<Vec<_>>().into()
}

/// A nested-batched request: twice a run and a list of three runs, two of them alike.
fn shaped() -> Pattern {
    let part = |at, kind| Part {
        at,
        kind: Some(kind),
    };
    let runs = Runs {
        gaps: vec![-3, 100],
        lengths: vec![5, 6],
        times: vec![2, 1],
        strides: vec![7, 0],
    };
    let repeat = PartRepeat {
        stride: -4096,
        times: 2,
    };
    let parts = vec![
        part(8192, PartKind::Repeat(repeat)),
        part(0, PartKind::Sequence(2)),
        part(-1, PartKind::Bytes(64)),
        part(300, PartKind::Runs(runs)),
    ];
    Pattern {
        kind: Some(PatternKind::Shaped(Shaped {
            offset: 1 << 40,
            parts,
        })),
    }
}

#[test]
fn shaped_requests_have_the_bytes_they_always_had() {
    same(
        Kind::Read,
        &shaped(),
        "123608808080808020120b088080011a0508ff3f100212022002120408011040121608d8042a110a0305c801120205061a02020122020e00",
    );
}

fn position() -> Position {
    Position {
        incarnation: 0x0102_0304_0506_0708,
        sequence: 300,
    }
}

#[test]
fn a_stamp_is_two_more_fields_of_any_reply() {
    let stamp = Stamp {
        changed: Some(position()),
        durable: 299,
    };
    let golden = "c23e0c09080706050403020110ac02c83eab02";
    same(Kind::Write, &stamp, golden);
    let reply = WriteReply { bytes: 1_000_000 };
    let stamped = [reply.encode_to_vec(), stamp.encode_to_vec()].concat();
    assert_eq!(body_from::<WriteReply>(Kind::Write, &stamped), Ok(reply));
    assert_eq!(body_from::<Stamp>(Kind::Write, &stamped), Ok(stamp));
}

fn grid() -> Grid {
    Grid {
        cells: 6,
        bsu: 65_536,
        servers: 4,
    }
}

fn access(kind: ViewKind) -> Access {
    let contiguous = Contiguous {
        offset: 1 << 40,
        length: 1_000_000,
    };
    Access {
        file: 77,
        grid: grid(),
        view: View { kind: Some(kind) },
        pattern: Pattern {
            kind: Some(PatternKind::Contiguous(contiguous)),
        },
        slot: 2,
        fork: "data".to_owned(),
        epoch: 9,
        checkpoint: 0,
    }
}

fn subfile() -> ViewKind {
    ViewKind::Subfile(Subfile {
        vbs: 1,
        vn: 2,
        hbs: 3,
        hn: 4,
        index: 5,
        order: 2,
    })
}

fn fork_state() -> ForkState {
    ForkState {
        cell: 5,
        fork: "index".to_owned(),
        length: 4096,
        modified: -1,
        stored: 8192,
    }
}

fn place() -> ForkPlace {
    ForkPlace {
        cell: 5,
        fork: "index".to_owned(),
    }
}

fn held_lock() -> HeldLock {
    HeldLock {
        file: 77,
        family: LockFamily::Range as i32,
        kind: LockKind::Exclusive as i32,
        owner: u64::MAX,
        pid: 4711,
        start: 300,
        last: u64::MAX,
    }
}

fn who() -> Credentials {
    Credentials {
        uid: 1000,
        gid: 100,
        groups: vec![4, 27, 1000],
    }
}

fn target() -> Target {
    Target {
        at: 1,
        path: Bytes::from_static(b"a/b\xff"),
        follow: true,
    }
}

fn layout() -> Layout {
    Layout {
        cells: 6,
        bsu: 65_536,
        chunk: 262_144,
        servers: vec![3, 1, 2],
        storage: 1,
    }
}

fn wish() -> LayoutWish {
    LayoutWish {
        cells: Some(6),
        bsu: Some(0),
        chunk: Some(4096),
        servers: vec![3, 1],
        base: Some(3),
    }
}

fn attributes() -> Attributes {
    Attributes {
        id: 77,
        kind: FileKind::Regular as i32,
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        links: 2,
        size: 1 << 33,
        size_exact: true,
        accessed: 1,
        modified: 2,
        changed: 3,
        created: -4,
        modified_set: 5,
        device: 0x801,
        layout: Some(layout()),
        parent: 1,
        inline: true,
        ..Attributes::default()
    }
}

fn usage() -> Usage {
    Usage {
        capacity: 1 << 40,
        used: 1 << 39,
        available: 1 << 38,
    }
}

fn stat() -> StatReply {
    StatReply {
        attributes: attributes(),
    }
}

const STAT: &str = "0a45084d100118ed1320e80728643002388080808020400148015002580360fcffffffffffffffff\
             0168057081107a110806108080041880801022030301022801800101880101";
const UNLINKED: &str = "084d10011a023803";

const SCRUB_STATUS: &str = "080110c0843d18ac0220052802\
             3221084d10051a04646174612004280230033801408080808080204802\
             5204676f6e65380742026e6f48fa01";

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
        }],
        more: 7,
        trouble: "no".to_owned(),
        rests: 250,
    }
}

fn unlinked() -> UnlinkReply {
    UnlinkReply {
        file: 77,
        links: 1,
        directory: Some(Attributes {
            size: 3,
            ..Attributes::default()
        }),
    }
}

/// Directories in which a client changes names ahead of the service.
fn delegation(kind: Kind) -> Kind {
    let layout = Layout {
        cells: 2,
        servers: vec![1, 2],
        ..Layout::default()
    };
    if kind == Kind::Delegate {
        return call(
            &DelegateRequest {
                directory: 77,
                ids: 300,
            },
            "084d10ac02",
            &DelegateReply {
                granted: true,
                first: 301,
                layouts: vec![layout],
            },
            "080110ad021a06080222020102",
        );
    }
    let made = NewFile {
        mode: 0o666,
        umask: 0o22,
        layout,
        reading: true,
        writing: true,
        data: Some(Bytes::from_static(b"x")),
        modified: 3,
    };
    let change = NameChange {
        who: Credentials::default(),
        directory: 77,
        name: Bytes::from_static(b"n\xff"),
        file: 301,
        time: 2,
        made: Some(made),
    };
    let refused = Failure {
        code: Code::Exists as i32,
        ..Failure::default()
    };
    call(
        &ChangeNamesRequest {
            changes: vec![change],
            given_back: vec![77],
        },
        "0a250a00104d1a026eff20ad022802321608b60310121a0608022202010220012801320178380312014d",
        &ChangeNamesReply {
            done: vec![NameChanged {
                refused: Some(refused),
                attributes: Some(Attributes::default()),
            }],
        },
        "0a060a0208081200",
    )
}

/// Checks the bytes of a kind; returns the kind that was checked.
fn check(kind: Kind) -> Kind {
    match kind {
        Kind::Hello | Kind::Proof | Kind::Ping | Kind::Credit | Kind::Cancel | Kind::Data => {
            session(kind)
        }
        Kind::Read
        | Kind::Write
        | Kind::Sync
        | Kind::CellStatus
        | Kind::TruncateCells
        | Kind::DeleteCells
        | Kind::CreateFork
        | Kind::RemoveFork
        | Kind::DataRuns
        | Kind::ClearRange
        | Kind::CopyRange
        | Kind::ExtendCells
        | Kind::SendRange
        | Kind::Scrub
        | Kind::ScrubStatus
        | Kind::Checkpoint
        | Kind::Rollback
        | Kind::DropCheckpoint
        | Kind::Disks
        | Kind::Trim
        | Kind::Losses
        | Kind::AcceptLosses
        | Kind::Advise => io(kind),
        Kind::CollectiveRead | Kind::CollectiveWrite | Kind::JoinedRead | Kind::JoinedWrite => {
            collective(kind)
        }
        Kind::ListCells
        | Kind::ListKept
        | Kind::WhichDeleted
        | Kind::CheckStore
        | Kind::CheckNamespace
        | Kind::ListFiles
        | Kind::RepairNamespace
        | Kind::AdoptFile
        | Kind::NamesOf => fsck::check(kind),
        Kind::LimitGrowth | Kind::SetQuota | Kind::ListQuotas | Kind::QuotasOf => {
            quota::quotas(kind)
        }
        Kind::Attach
        | Kind::Report
        | Kind::Stat
        | Kind::SetAttributes
        | Kind::Truncate
        | Kind::MakeDirectory
        | Kind::MakeLink
        | Kind::MakeNode
        | Kind::Link
        | Kind::Unlink
        | Kind::RemoveDirectory
        | Kind::Detach
        | Kind::Rename => names(kind),
        Kind::List
        | Kind::ReadLink
        | Kind::GetXattr
        | Kind::SetXattr
        | Kind::ListXattr
        | Kind::RemoveXattr
        | Kind::ServerMap
        | Kind::Heartbeat
        | Kind::AcceptRollback
        | Kind::ListClients
        | Kind::Reassert
        | Kind::Lock
        | Kind::TestLock
        | Kind::Watch
        | Kind::Append
        | Kind::SyncNamespace
        | Kind::StoreInline
        | Kind::Spill => rest(kind),
        Kind::MakeCheckpoint
        | Kind::ListCheckpoints
        | Kind::RemoveCheckpoint
        | Kind::RollBack
        | Kind::ListFileCheckpoints => checkpoints(kind),
        Kind::Delegate | Kind::ChangeNames => delegation(kind),
    }
}

fn checkpoints(kind: Kind) -> Kind {
    let (who, target, name) = (who(), target(), "c".to_owned());
    let info = || CheckpointInfo {
        name: "c".to_owned(),
        number: 5,
        made: 1,
        size: 300,
        image: 6,
        names: 7,
    };
    match kind {
        Kind::MakeCheckpoint => call(
            &MakeCheckpointRequest { who, target, name },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0163",
            &MakeCheckpointReply { checkpoint: info() },
            "0a0e0a01631005180120ac0228063007",
        ),
        Kind::ListCheckpoints => call(
            &ListCheckpointsRequest {
                who,
                target,
                after: name,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0163",
            &ListCheckpointsReply {
                checkpoints: vec![info()],
                more: true,
            },
            "0a0e0a01631005180120ac02280630071001",
        ),
        Kind::RemoveCheckpoint => call(
            &RemoveCheckpointRequest { who, target, name },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0163",
            &RemoveCheckpointReply {},
            "",
        ),
        Kind::ListFileCheckpoints => call(
            &ListFileCheckpointsRequest {
                who,
                target,
                after: Bytes::from_static(b"f"),
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0166",
            &ListFileCheckpointsReply {
                checkpoints: vec![FileCheckpoint {
                    file: Bytes::from_static(b"f"),
                    name,
                }],
                next: Some(Bytes::from_static(b"f")),
            },
            "0a060a0166120163120166",
        ),
        _ => call(
            &RollBackRequest { who, target, name },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0163",
            &stat(),
            STAT,
        ),
    }
}

#[test]
fn an_access_names_its_checkpoint() {
    let living = access(ViewKind::Cell(1));
    let kept = Access {
        checkpoint: 5,
        ..living.clone()
    };
    let (living, kept) = (living.encode_to_vec(), kept.encode_to_vec());
    assert_eq!(kept, [&living[..], &[0x40, 0x05]].concat());
}

fn session(kind: Kind) -> Kind {
    match kind {
        Kind::Hello => call(
            &Hello {
                version_oldest: 1,
                version_newest: 300,
                nonce: bytes(0, 32),
                role: Role::MetaService as i32,
                client: u64::MAX,
                volume: bytes(64, 16),
                reply_window: 2 << 20,
                local: "weft-6c".to_owned(),
                wire_least: Wire::Mac as i32,
                wire_most: Wire::Encrypted as i32,
            },
            "080110ac021a20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20\
             0328ffffffffffffffffff013210404142434445464748494a4b4c4d4e4f3880808001\
             4207776566742d366348015002",
            &Challenge {
                version: 1,
                nonce: bytes(32, 32),
                volume: bytes(64, 16),
                local: "weft-6c".to_owned(),
                wire: Wire::Encrypted as i32,
            },
            "08011220202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f1a104041\
             42434445464748494a4b4c4d4e4f2207776566742d36632802",
        ),
        Kind::Proof => call(
            &Proof {
                proof: bytes(96, 32),
            },
            "0a20606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f",
            &Welcome {
                proof: bytes(128, 32),
                server: Some(0),
                window: 2 << 20,
                calls: 256,
                incarnation: 0x0102_0304_0506_0708,
            },
            "0a20808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f100018808080\
             01208002290807060504030201",
        ),
        Kind::Ping => call(&Ping {}, "", &Pong {}, ""),
        Kind::Credit => call(
            &Credit {
                bytes: 65_536,
                request: 300,
            },
            "0880800410ac02",
            &Nothing {},
            "",
        ),
        Kind::Cancel => call(&Cancel { request: 300 }, "08ac02", &Nothing {}, ""),
        _ => call(&Nothing {}, "", &Never {}, ""),
    }
}

#[allow(clippy::too_many_lines)] // one arm per message
fn membership() -> Membership {
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

fn collective(kind: Kind) -> Kind {
    let access = access(subfile());
    let lengths = vec![CellRun {
        first: 1,
        step: 4,
        count: 2,
        length: 1 << 41,
    }];
    match kind {
        Kind::CollectiveRead => call(
            &CollectiveReadRequest {
                membership: membership(),
                access,
            },
            "0a170a056a6f622d371003180820022809 30b0ea0138014001\
             1235084d120808061080800418041a0e0a0c080110021803200428053002220d0a0b0880808080\
             802010c0843d28023204646174613809",
            &CollectiveReadReply {
                lengths,
                bytes: 1_000_000,
                missing: vec![2, 5],
            },
            "0a0d0801100418022080808080804010c0843d1a020205",
        ),
        Kind::CollectiveWrite => call(
            &CollectiveWriteRequest {
                membership: membership(),
                access,
                chunk: 262_144,
                bytes: 1_000_000,
                sync: true,
                ordered: true,
                member_order: true,
            },
            "0a170a056a6f622d371003180820022809 30b0ea0138014001\
             1235084d120808061080800418041a0e0a0c080110021803200428053002220d0a0b0880808080\
             802010c0843d280232046461746138091880801020c0843d280130013801",
            &CollectiveWriteReply {
                bytes: 1_000_000,
                missing: vec![2, 5],
            },
            "08c0843d12020205",
        ),
        Kind::JoinedRead => call(
            &JoinedReadRequest {
                accesses: vec![access],
            },
            "0a35084d120808061080800418041a0e0a0c080110021803200428053002220d0a0b0880808080\
             802010c0843d28023204646174613809",
            &JoinedReadReply {
                lengths,
                bytes: 1_000_000,
            },
            "0a0d0801100418022080808080804010c0843d",
        ),
        Kind::JoinedWrite => call(
            &JoinedWriteRequest {
                accesses: vec![access],
                chunk: 262_144,
                bytes: 1_000_000,
                sync: true,
                member_order: true,
            },
            "0a35084d120808061080800418041a0e0a0c080110021803200428053002220d0a0b0880808080\
             802010c0843d280232046461746138091080801018c0843d20012801",
            &JoinedWriteReply { bytes: 1_000_000 },
            "08c0843d",
        ),
        _ => unreachable!("not a collective"),
    }
}

#[allow(clippy::too_many_lines)] // a table
fn io(kind: Kind) -> Kind {
    match kind {
        Kind::Read => call(
            &ReadRequest {
                access: access(subfile()),
            },
            "0a35084d120808061080800418041a0e0a0c080110021803200428053002220d0a0b088080808080\
             2010c0843d28023204646174613809",
            &ReadReply {
                lengths: vec![CellRun {
                    first: 1,
                    step: 4,
                    count: 2,
                    length: 1 << 41,
                }],
                bytes: 1_000_000,
                doubted: true,
            },
            "0a0d0801100418022080808080804010c0843d1801",
        ),
        Kind::Write => call(
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
            },
            "0a2f084d120808061080800418041a081206080a1014181e220d0a0b0880808080802010c0843d28\
             0232046461746138091080801018c0843d20012801",
            &WriteReply { bytes: 1_000_000 },
            "08c0843d",
        ),
        Kind::Sync => call(
            &SyncRequest {
                file: 77,
                written: vec![position()],
                check_only: true,
            },
            "084d120c09080706050403020110ac021801",
            &SyncReply {
                cells: vec![fork_state()],
            },
            "0a1a08051205696e64657818802020ffffffffffffffffff01288040",
        ),
        Kind::CellStatus => call(
            &CellStatusRequest {
                file: 77,
                after: Some(place()),
                fork: "data".to_owned(),
                checkpoint: 0,
            },
            "084d120908051205696e6465781a0464617461",
            &CellStatusReply {
                forks: vec![fork_state(), fork_state()],
                more: true,
                doubted: true,
            },
            "0a1a08051205696e64657818802020ffffffffffffffffff012880400a1a08051205696e64657818\
             802020ffffffffffffffffff0128804010011801",
        ),
        Kind::TruncateCells => call(
            &TruncateCellsRequest {
                file: 77,
                grid: grid(),
                slot: 2,
                size: 1 << 40,
                op: 12,
            },
            "084d12080806108080041804180220808080808020280c",
            &TruncateCellsReply {},
            "",
        ),
        Kind::DeleteCells => call(
            &DeleteCellsRequest {
                files: vec![77, 300],
            },
            "0a034dac02",
            &DeleteCellsReply {},
            "",
        ),
        Kind::CreateFork => call(
            &CreateForkRequest {
                file: 77,
                place: place(),
                chunk: 262_144,
                accept_loss: true,
                checkpoint: Some(7),
            },
            "084d120908051205696e6465781880801020012807",
            &CreateForkReply {},
            "",
        ),
        Kind::RemoveFork => call(
            &RemoveForkRequest {
                file: 77,
                place: place(),
                seen: Some(ForkSeen {
                    length: 300,
                    modified: 7,
                }),
            },
            "084d120908051205696e6465781a0508ac021007",
            &RemoveForkReply { changed: true },
            "0801",
        ),
        Kind::ClearRange => call(
            &ClearRangeRequest {
                access: access(ViewKind::Cell(5)),
            },
            "0a29084d120808061080800418041a021805220d0a0b0880808080802010c0843d28023204646174613809",
            &ClearRangeReply {},
            "",
        ),
        Kind::ExtendCells => call(
            &ExtendCellsRequest {
                access: access(ViewKind::Cell(5)),
                chunk: 262_144,
            },
            "0a29084d120808061080800418041a021805220d0a0b0880808080802010c0843d2802320464617461380910808010",
            &ExtendCellsReply {},
            "",
        ),
        Kind::Advise => call(
            &AdviseRequest {
                access: access(ViewKind::Cell(5)),
                advice: Advice::Fetch as i32,
            },
            "0a29084d120808061080800418041a021805220d0a0b0880808080802010c0843d280232046461746138091001",
            &AdviseReply { bytes: 300 },
            "08ac02",
        ),
        Kind::CopyRange => call(
            &CopyRangeRequest {
                from: access(ViewKind::Cell(5)),
                to: Access {
                    file: 78,
                    ..access(ViewKind::Cell(4))
                },
                chunk: 262_144,
            },
            "0a29084d120808061080800418041a021805220d0a0b0880808080802010c0843d2802320464\
             61746138091229084e120808061080800418041a021804220d0a0b0880808080802010c084\
             3d2802320464617461380918808010",
            &CopyRangeReply { bytes: 1_000_000 },
            "08c0843d",
        ),
        Kind::SendRange => call(
            &SendRangeRequest {
                from: access(ViewKind::Cell(5)),
                to: Access {
                    file: 78,
                    ..access(ViewKind::Cell(4))
                },
                chunk: 262_144,
                servers: vec![3, 1],
            },
            "0a29084d120808061080800418041a021805220d0a0b0880808080802010c0843d2802320464\
             61746138091229084e120808061080800418041a021804220d0a0b0880808080802010c084\
             3d280232046461746138091880801022020301",
            &SendRangeReply {
                bytes: 1_000_000,
                written: vec![ServerPosition {
                    server: 3,
                    at: position(),
                }],
            },
            "08c0843d12100803120c09080706050403020110ac02",
        ),
        Kind::Checkpoint => call(
            &CheckpointRequest {
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
            "084d120808061080800418041805220c084e1208080610808004180428013009",
            &CheckpointReply {
                size: 300,
                others: vec![KeptFile {
                    size: 300,
                    modified: 1,
                }],
                modified: 2,
            },
            "08ac02120508ac0210011802",
        ),
        Kind::Rollback => call(
            &RollbackRequest {
                file: 77,
                checkpoint: 5,
                op: 6,
                others: vec![78],
            },
            "084d1005180622014e",
            &RollbackReply {},
            "",
        ),
        Kind::DropCheckpoint => call(
            &DropCheckpointRequest {
                file: 77,
                checkpoint: 5,
                op: 6,
                others: vec![78],
            },
            "084d1005180622014e",
            &DropCheckpointReply {},
            "",
        ),
        Kind::Scrub => call(
            &ScrubRequest {
                run: true,
                rate: 1_000_000,
                anew: true,
            },
            "080110c0843d1801",
            &scrub_status(),
            SCRUB_STATUS,
        ),
        Kind::ScrubStatus => call(&ScrubStatusRequest {}, "", &scrub_status(), SCRUB_STATUS),
        Kind::Trim => call(
            &TrimRequest {},
            "",
            &TrimReply {
                bytes: 300,
                held: 1,
                used: 2,
            },
            "08ac0210011802",
        ),
        Kind::Losses => call(
            &LossesRequest {},
            "",
            &LossesReply {
                files: 1,
                ranges: 2,
                bytes: 300,
                more: true,
            },
            "0801100218ac022001",
        ),
        Kind::AcceptLosses => call(
            &AcceptLossesRequest {
                file: 77,
                all_unproven: true,
            },
            "084d1001",
            &AcceptLossesReply {
                ranges: 2,
                bytes: 300,
            },
            "080210ac02",
        ),
        Kind::Disks => call(
            &DisksRequest {},
            "",
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
            "0a14080212022f621803220345494f28ac0230013807",
        ),
        _ => call(
            &DataRunsRequest {
                file: 77,
                grid: grid(),
                slot: 2,
                fork: "data".to_owned(),
                from: 1 << 40,
                checkpoint: 5,
            },
            "084d120808061080800418041802220464617461288080808080203005",
            &DataRunsReply {
                runs: vec![DataRun {
                    cell: 5,
                    offset: 1 << 40,
                    length: 4096,
                }],
                next: Some(0),
            },
            "0a0c0805108080808080201880201000",
        ),
    }
}

#[allow(clippy::too_many_lines)] // a table
fn names(kind: Kind) -> Kind {
    let (who, target) = (who(), target());
    match kind {
        Kind::Attach => call(
            &AttachRequest {
                who,
                target,
                read: true,
                write: true,
                create: Some(Create {
                    mode: 0o644,
                    exclusive: true,
                    layout: Some(wish()),
                    umask: 0o22,
                }),
                inline: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801180120012a1608a40310011a0d0806\
             100018802022020301280320123001",
            &AttachReply {
                attributes: attributes(),
                epoch: 9,
                created: true,
                inline: Some(Bytes::from_static(b"in")),
                sole: true,
            },
            "0a45084d100118ed1320e80728643002388080808020400148015002580360fcffffffffffffffff\
             0168057081107a110806108080041880801022030301022801800101880101100918012202696e2801",
        ),
        Kind::Report => call(
            &ReportRequest {
                file: 77,
                size: Some(0),
                modified: Some(-1),
                detach: true,
                write: true,
                end: Some(0),
                kill_priv: true,
                turn: Some(5),
                can_ask: true,
                forks: true,
            },
            "084d100018ffffffffffffffffff012001280130003801400548015001",
            &ReportReply {
                size_wanted: true,
                attributes: Some(Attributes {
                    xattrs: true,
                    ..Attributes::default()
                }),
                alone: true,
                turn: 5,
            },
            "08011203a0010118012005",
        ),
        Kind::Detach => call(
            &DetachRequest {
                reading: vec![1, 300],
                writing: vec![2],
                accessed: vec![Accessed { file: 3, time: 300 }],
            },
            "0a0301ac021201021a05080310ac02",
            &DetachReply {},
            "",
        ),
        Kind::Stat => call(
            &StatRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &stat(),
            STAT,
        ),
        Kind::SetAttributes => call(
            &SetAttributesRequest {
                who,
                target,
                mode: Some(0),
                uid: Some(1),
                gid: Some(2),
                accessed: Some(TimeWish {
                    now: true,
                    nanos: 0,
                }),
                modified: Some(TimeWish {
                    now: false,
                    nanos: 5,
                }),
                layout: Some(wish()),
                kill_priv: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801180020012802320208013a02100542\
             0d080610001880202202030128034801",
            &stat(),
            STAT,
        ),
        Kind::Truncate => call(
            &TruncateRequest {
                who,
                target,
                size: 4096,
                attached: true,
                grow: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff180118802020012801",
            &stat(),
            STAT,
        ),
        Kind::MakeDirectory => call(
            &MakeDirectoryRequest {
                who,
                target,
                mode: 0o755,
                umask: 0o22,
                lease: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff180118ed0320122801",
            &MakeDirectoryReply {
                attributes: stat().attributes,
                leased: true,
            },
            &format!("{STAT}1001"),
        ),
        Kind::MakeLink => call(
            &MakeLinkRequest {
                who,
                target,
                text: Bytes::from_static(b"../c"),
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a042e2e2f63",
            &stat(),
            STAT,
        ),
        Kind::MakeNode => call(
            &MakeNodeRequest {
                who,
                target,
                kind: FileKind::CharDevice as i32,
                mode: 0o600,
                device: 0x0103,
                umask: 0o22,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff180118072080032883023012",
            &stat(),
            STAT,
        ),
        Kind::Link => call(
            &LinkRequest {
                who,
                source: Target {
                    at: 77,
                    path: Bytes::new(),
                    follow: false,
                },
                target,
            },
            "0a0b08e80710641a04041be8071202084d1a0a08011204612f62ff1801",
            &stat(),
            STAT,
        ),
        Kind::Unlink => call(
            &UnlinkRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &unlinked(),
            UNLINKED,
        ),
        Kind::RemoveDirectory => call(
            &RemoveDirectoryRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &unlinked(),
            UNLINKED,
        ),
        _ => call(
            &RenameRequest {
                who,
                source: target.clone(),
                target,
                no_replace: true,
                exchange: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0a08011204612f62ff1801200128\
             01",
            &RenameReply {
                file: 77,
                other: 78,
            },
            "084d104e",
        ),
    }
}

#[allow(clippy::too_many_lines)] // a table
fn rest(kind: Kind) -> Kind {
    let (who, target) = (who(), target());
    let name = Bytes::from_static(b"user.mime_type");
    match kind {
        Kind::List => call(
            &ListRequest {
                who,
                target,
                after: Bytes::from_static(b"m"),
                limit: 1000,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a016d20e807",
            &ListReply {
                entries: vec![Entry {
                    name: Bytes::from_static(b"n"),
                    attributes: attributes(),
                }],
                more: true,
                directory: Attributes {
                    id: 1,
                    ..Attributes::default()
                },
            },
            "0a4a0a016e1245084d100118ed1320e80728643002388080808020400148015002580360fcffffff\
             ffffffffff0168057081107a11080610808004188080102203030102280180010188010110011a020801",
        ),
        Kind::ReadLink => call(
            &ReadLinkRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &ReadLinkReply {
                text: Bytes::from_static(b"../c"),
            },
            "0a042e2e2f63",
        ),
        Kind::GetXattr => call(
            &GetXattrRequest { who, target, name },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0e757365722e6d696d655f747970\
             65",
            &GetXattrReply {
                value: Bytes::from_static(b"\0v"),
            },
            "0a020076",
        ),
        Kind::SetXattr => call(
            &SetXattrRequest {
                who,
                target,
                name,
                value: Bytes::from_static(b"\0v"),
                create: true,
                replace: true,
            },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0e757365722e6d696d655f747970\
             652202007628013001",
            &XattrDone {},
            "",
        ),
        Kind::ListXattr => call(
            &ListXattrRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &ListXattrReply {
                names: vec![name.clone(), name],
            },
            "0a0e757365722e6d696d655f747970650a0e757365722e6d696d655f74797065",
        ),
        Kind::RemoveXattr => call(
            &RemoveXattrRequest { who, target, name },
            "0a0b08e80710641a04041be807120a08011204612f62ff18011a0e757365722e6d696d655f747970\
             65",
            &XattrDone {},
            "",
        ),
        Kind::ServerMap => call(
            &ServerMapRequest {},
            "",
            &ServerMapReply {
                epoch: 9,
                servers: vec![Server {
                    id: 3,
                    address: "10.0.0.3:7100".to_owned(),
                    state: ServerState::Down as i32,
                    usage: usage(),
                    metrics: "10.0.0.3:7200".to_owned(),
                    since: 300,
                    newest: 300,
                }],
                files: 5,
                intents: 6,
                volume: "home".to_owned(),
                rolled_back: true,
                recovering: true,
            },
            "0809123f0803120d31302e302e302e333a3731303018022215088080808080201080808080801018\
             8080808080082a0d31302e302e302e333a3732303030ac0238ac02180520062a04686f6d6530013801",
        ),
        Kind::ListClients => call(
            &ListClientsRequest {},
            "",
            &ListClientsReply {
                clients: vec![ConnectedClient {
                    address: "10.0.0.3:7100".to_owned(),
                    name: "mount".to_owned(),
                    since: 300,
                }],
            },
            "0a190a0d31302e302e302e333a3731303012056d6f756e7418ac02",
        ),
        Kind::Heartbeat => call(
            &HeartbeatRequest {
                id: 3,
                address: "10.0.0.3:7100".to_owned(),
                metrics: "10.0.0.3:7200".to_owned(),
                usage: usage(),
                store: bytes(7, 16),
                durable: Some(position()),
                has: vec![position()],
                rolled_back: true,
                service: Some(position()),
                doubted: 300,
                newest: 300,
            },
            "0803120d31302e302e302e333a373130301a0d31302e302e302e333a373230302215088080808080\
             2010808080808010188080808080082a100708090a0b0c0d0e0f10111213141516\
             320c09080706050403020110ac023a0c09080706050403020110ac024001\
             4a0c09080706050403020110ac0250ac0258ac02",
            &HeartbeatReply {
                epoch: 9,
                since: 300,
                check: vec![position()],
                service: Some(position()),
                doubt: 300,
            },
            "080910ac021a0c09080706050403020110ac02220c09080706050403020110ac0228ac02",
        ),
        Kind::AcceptRollback => call(
            &AcceptRollbackRequest { server: Some(3) },
            "0803",
            &AcceptRollbackReply { refused: true },
            "0801",
        ),
        Kind::Lock => call(
            &LockRequest {
                lock: held_lock(),
                wait: true,
            },
            "0a22084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffffffffff011001",
            &LockReply {
                outcome: LockOutcome::Held as i32,
                blocker: Some(held_lock()),
            },
            "08021222084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffffffffff01",
        ),
        Kind::TestLock => call(
            &TestLockRequest { lock: held_lock() },
            "0a22084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffffffffff01",
            &TestLockReply {
                blocker: Some(held_lock()),
            },
            "0a22084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffffffffff01",
        ),
        Kind::Watch => call(
            &WatchRequest {
                boot: 9,
                cursor: 300,
            },
            "080910ac02",
            &WatchReply {
                boot: 9,
                cursor: 301,
                everything: true,
                files: vec![77, 300],
                entries: vec![ChangedEntry {
                    parent: 1,
                    name: Bytes::from_static(b"n\xff"),
                }],
                recalled: vec![5],
            },
            "080910ad02180122034dac022a06080112026eff320105",
        ),
        Kind::Append => call(
            &AppendRequest {
                file: 77,
                length: 4096,
                known_end: 300,
            },
            "084d10802018ac02",
            &AppendReply { offset: 1 << 40 },
            "08808080808020",
        ),
        Kind::SyncNamespace => call(
            &SyncNamespaceRequest {
                changed: vec![position()],
            },
            "0a0c09080706050403020110ac02",
            &SyncNamespaceReply {},
            "",
        ),
        Kind::StoreInline => call(
            &StoreInlineRequest {
                file: 77,
                data: Bytes::from_static(b"in"),
                modified: -1,
                detach: true,
                kill_priv: true,
                set: Some(SetAttributesRequest {
                    mode: Some(0o644),
                    ..SetAttributesRequest::default()
                }),
            },
            "084d1202696e18ffffffffffffffffff012001280132070a00120018a403",
            &StoreInlineReply {
                attributes: attributes(),
            },
            STAT,
        ),
        Kind::Spill => call(&SpillRequest { file: 77 }, "084d", &SpillReply {}, ""),
        _ => call(
            &ReassertRequest {
                reading: vec![77, 77],
                writing: vec![300],
                locks: vec![held_lock()],
                lazy: true,
                name: "mount".to_owned(),
            },
            "0a024d4d1202ac021a22084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffff\
             ffffff0120012a056d6f756e74",
            &ReassertReply {
                gone: vec![300],
                lost: vec![held_lock()],
            },
            "0a02ac021222084d1002180220ffffffffffffffffff0128e72430ac0238ffffffffffffffffff01",
        ),
    }
}

#[test]
fn every_message_of_every_kind_keeps_its_bytes() {
    for kind in Kind::ALL {
        assert_eq!(check(*kind), *kind, "the table checks another kind");
    }
}

#[test]
fn kinds_keep_their_numbers() {
    let numbers: Vec<u8> = Kind::ALL.iter().map(|k| k.code()).collect();
    let expected: Vec<u8> = (1..=6)
        .chain(32..=63)
        .chain(64..=98)
        .chain([100])
        .chain(104..=108)
        .chain(112..=116)
        .collect();
    assert_eq!(numbers, expected);
    for code in 0..=u8::MAX {
        let kind = Kind::from_code(code);
        assert_eq!(
            kind.map(Kind::code),
            expected.contains(&code).then_some(code)
        );
    }
}

#[test]
fn views_of_every_sort_and_a_failure_keep_their_bytes() {
    same(
        Kind::Read,
        &access(ViewKind::Cell(5)),
        "084d120808061080800418041a021805220d0a0b0880808080802010c0843d280232046461746138\
             09",
    );
    let failure = Failure::new(Code::NoSpace, "server 3 is full");
    same(
        Kind::Write,
        &failure,
        "0812101c221073657276657220332069732066756c6c",
    );
}

#[test]
fn the_header_keeps_its_bytes() {
    let body = Cancel { request: 300 }.encode_to_vec();
    let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    let payload = [Bytes::from_static(b"1234"), Bytes::from_static(b"56789")];
    let bytes = Header::encode(Kind::Cancel, flags, 0x0102_0304_0506_0708, &body, &payload);
    // Magic, kind, zero, flags, request, lengths, CRC-32C of "123456789", CRC-32C of the header and body.
    let golden = "57454654 05 00 0700 0807060504030201 03000000 09000000 839206e3 1798463e";
    let golden: String = golden.split_whitespace().collect();
    assert_eq!(hex(&bytes), golden);
    let header = Header::decode(&bytes).unwrap();
    assert_eq!((header.kind, header.flags), (Kind::Cancel, flags));
    assert_eq!(header.request, 0x0102_0304_0506_0708);
    assert_eq!((header.body_len, header.payload_len), (3, 9));
    header.check_body(&bytes, &body).unwrap();
    header.check_payload(b"123456789").unwrap();
    let empty = Header::encode(Kind::Ping, Flags::LAST, 1, &[], &[]);
    assert_eq!(empty.len(), HEADER_BYTES);
    assert_eq!(hex(&empty[24..28]), "00000000", "the CRC of no payload");
}
