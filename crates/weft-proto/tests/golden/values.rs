//! Values that messages of several families hold. Every field is set.

use bytes::Bytes;
use weft_proto::coord::{HeldLock, LockFamily, LockKind};
use weft_proto::io::{
    Access, Contiguous, ForkPlace, ForkState, Grid, Pattern, PatternKind, Subfile, View, ViewKind,
};
use weft_proto::meta::{Attributes, Credentials, FileKind, Layout, StatReply, Target, Usage};
use weft_proto::stamp::Position;

pub fn bytes(first: u8, count: u8) -> Bytes {
    (first..first + count).collect::<Vec<_>>().into()
}

pub fn position() -> Position {
    Position {
        incarnation: 0x0102_0304_0506_0708,
        sequence: 300,
    }
}

pub fn grid() -> Grid {
    Grid {
        cells: 6,
        bsu: 65_536,
        servers: 4,
    }
}

pub fn access(kind: ViewKind) -> Access {
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

pub fn subfile() -> ViewKind {
    ViewKind::Subfile(Subfile {
        vbs: 1,
        vn: 2,
        hbs: 3,
        hn: 4,
        index: 5,
        order: 2,
    })
}

pub fn fork_state() -> ForkState {
    ForkState {
        cell: 5,
        fork: "index".to_owned(),
        length: 4096,
        modified: -1,
        stored: 8192,
    }
}

pub fn place() -> ForkPlace {
    ForkPlace {
        cell: 5,
        fork: "index".to_owned(),
    }
}

pub fn held_lock() -> HeldLock {
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

pub fn who() -> Credentials {
    Credentials {
        uid: 1000,
        gid: 100,
        groups: vec![4, 27, 1000],
    }
}

pub fn target() -> Target {
    Target {
        at: 1,
        path: Bytes::from_static(b"a/b\xff"),
        follow: true,
    }
}

pub fn layout() -> Layout {
    Layout {
        cells: 6,
        bsu: 65_536,
        chunk: 262_144,
        servers: vec![3, 1, 2],
        storage: 1,
        parity: 0,
    }
}

pub fn attributes() -> Attributes {
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

pub fn usage() -> Usage {
    Usage {
        capacity: 1 << 40,
        used: 1 << 39,
        available: 1 << 38,
    }
}

pub fn stat() -> StatReply {
    StatReply {
        attributes: attributes(),
    }
}
