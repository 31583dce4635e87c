//! Random operations of programs.

use proptest::prelude::*;

/// Files that a script has open at a time.
pub const SLOTS: usize = 5;

/// One operation. Paths are relative to the directory; a slot holds an open file, or nothing.
#[derive(Clone, Debug)]
pub enum Op {
    Open {
        slot: usize,
        path: String,
        flags: Vec<OpenFlag>,
        mode: u32,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        offset: u64,
        length: usize,
    },
    Write {
        slot: usize,
        offset: u64,
        length: usize,
        fill: u8,
    },
    Truncate {
        path: String,
        size: u64,
    },
    TruncateOpen {
        slot: usize,
        size: u64,
    },
    Allocate {
        slot: usize,
        kind: Room,
        offset: u64,
        length: u64,
    },
    SeekData {
        slot: usize,
        offset: u64,
    },
    SeekHole {
        slot: usize,
        offset: u64,
    },
    Copy {
        from: usize,
        at: u64,
        to: usize,
        there: u64,
        length: usize,
    },
    WriteMapped {
        slot: usize,
        offset: u64,
        length: usize,
        fill: u8,
    },
    ReadMapped {
        slot: usize,
        offset: u64,
        length: usize,
    },
    Sync {
        slot: usize,
    },
    Rename {
        from: String,
        to: String,
        how: Rename,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    Symlink {
        path: String,
        text: String,
    },
    Mkdir {
        path: String,
        mode: u32,
    },
    Rmdir {
        path: String,
    },
    MakeNode {
        path: String,
        fifo: bool,
        mode: u32,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Chown {
        path: String,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    Times {
        path: String,
        accessed: Moment,
        modified: Moment,
    },
    TimesOpen {
        slot: usize,
        modified: Moment,
    },
    SetAttribute {
        path: String,
        name: u8,
        value: Vec<u8>,
        how: SetHow,
    },
    RemoveAttribute {
        path: String,
        name: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OpenFlag {
    Write,
    ReadWrite,
    Create,
    Exclusive,
    Truncate,
    Append,
    NoFollow,
    Directory,
}

/// Kinds of fallocate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Room {
    Make,
    MakeKeepSize,
    Punch,
    Zero,
    ZeroKeepSize,
    Collapse,
    Insert,
}

#[derive(Clone, Copy, Debug)]
pub enum Rename {
    Replace,
    NoReplace,
    Exchange,
    Both,
}

#[derive(Clone, Copy, Debug)]
pub enum SetHow {
    Either,
    Create,
    Replace,
}

/// A time to set.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    Omit,
    Now,
    At { seconds: i64, nanos: i64 },
}

/// Operations, and how often all bytes are compared, too: comparing reads them, which changes the
/// caches.
#[derive(Clone, Debug)]
pub struct Script {
    pub ops: Vec<Op>,
    pub bytes_each: usize,
}

pub fn script(steps: usize) -> impl Strategy<Value = Script> {
    let ops = proptest::collection::vec(op(), steps / 2..=steps);
    (ops, prop_oneof![Just(1), Just(1), Just(7), Just(50)])
        .prop_map(|(ops, bytes_each)| Script { ops, bytes_each })
}

/// Few names, so that operations meet: one operation makes a file of a name, and the next a
/// directory, a link or nothing.
fn path() -> impl Strategy<Value = String> {
    let name = || prop_oneof![4 => Just("a"), 4 => Just("b"), 3 => Just("d"), 2 => Just("e")];
    prop_oneof![
        5 => name().prop_map(str::to_owned),
        4 => (name(), name()).prop_map(|(a, b)| format!("{a}/{b}")),
        1 => (name(), name(), name()).prop_map(|(a, b, c)| format!("{a}/{b}/{c}")),
    ]
}

fn slot() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 2 => Just(1), 1 => 2..SLOTS]
}

/// Near boundaries: of blocks, of small files, of cells of the default layout.
fn offset() -> impl Strategy<Value = u64> {
    let edge = prop_oneof![
        Just(512u64),
        Just(4096),
        Just(8192),
        Just(16384),
        Just(65536),
        Just(131_072),
        Just(262_144)
    ];
    prop_oneof![
        4 => 0..200u64,
        4 => (edge, 0..9u64).prop_map(|(edge, by)| edge - 4 + by),
        3 => 0..70_000u64,
        1 => 0..3_000_000u64,
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..300usize, 2 => Just(4096), 3 => 0..20_000usize, 1 => 0..300_000usize]
}

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0o644), Just(0o700), 0..0o10000u32]
}

fn moment() -> impl Strategy<Value = Moment> {
    let at = (-1_000_000..1_500_000_000i64, 0..1_000_000_000i64);
    prop_oneof![
        Just(Moment::Omit),
        Just(Moment::Now),
        at.prop_map(|(seconds, nanos)| Moment::At { seconds, nanos }),
    ]
}

fn flags() -> impl Strategy<Value = Vec<OpenFlag>> {
    use OpenFlag::{Append, Create, Directory, Exclusive, NoFollow, ReadWrite, Truncate, Write};
    prop_oneof![
        6 => Just(vec![ReadWrite, Create]),
        2 => Just(vec![ReadWrite, Create, Append]),
        2 => Just(vec![ReadWrite, Create, Exclusive]),
        2 => Just(vec![ReadWrite, Create, Truncate]),
        1 => Just(vec![Write, Append]),
        1 => Just(vec![Write, Create, Truncate]),
        2 => Just(vec![]),
        1 => Just(vec![ReadWrite, NoFollow]),
        1 => Just(vec![Directory]),
        1 => Just(vec![Create, NoFollow]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![12 => data(), 3 => ranges(), 6 => names(), 4 => attributes()]
}

fn data() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (slot(), path(), flags(), mode())
            .prop_map(|(slot, path, flags, mode)| Op::Open { slot, path, flags, mode }),
        2 => slot().prop_map(|slot| Op::Close { slot }),
        4 => (slot(), offset(), length()).prop_map(|(slot, offset, length)| Op::Read { slot, offset, length }),
        7 => (slot(), offset(), length(), any::<u8>())
            .prop_map(|(slot, offset, length, fill)| Op::Write { slot, offset, length, fill }),
        2 => (slot(), offset(), length(), any::<u8>())
            .prop_map(|(slot, offset, length, fill)| Op::WriteMapped { slot, offset, length, fill }),
        1 => (slot(), offset(), length()).prop_map(|(slot, offset, length)| Op::ReadMapped { slot, offset, length }),
        2 => (slot(), offset()).prop_map(|(slot, size)| Op::TruncateOpen { slot, size }),
        1 => slot().prop_map(|slot| Op::Sync { slot }),
    ]
}

fn ranges() -> impl Strategy<Value = Op> {
    use Room::{Collapse, Insert, Make, MakeKeepSize, Punch, Zero, ZeroKeepSize};
    let room = prop_oneof![
        2 => Just(Make), 1 => Just(MakeKeepSize), 4 => Just(Punch), 2 => Just(Zero), 2 => Just(ZeroKeepSize),
        1 => Just(Collapse), 1 => Just(Insert)
    ];
    prop_oneof![
        3 => (slot(), room, offset(), length()).prop_map(|(slot, kind, offset, length)| Op::Allocate {
            slot, kind, offset, length: length as u64
        }),
        1 => (slot(), offset()).prop_map(|(slot, offset)| Op::SeekData { slot, offset }),
        1 => (slot(), offset()).prop_map(|(slot, offset)| Op::SeekHole { slot, offset }),
        2 => (slot(), offset(), slot(), offset(), length())
            .prop_map(|(from, at, to, there, length)| Op::Copy { from, at, to, there, length }),
    ]
}

fn names() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        5 => Just(Rename::Replace), 2 => Just(Rename::NoReplace), 2 => Just(Rename::Exchange), 1 => Just(Rename::Both)
    ];
    prop_oneof![
        4 => (path(), path(), how).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        2 => (path(), path()).prop_map(|(from, to)| Op::Link { from, to }),
        3 => path().prop_map(|path| Op::Unlink { path }),
        2 => (path(), path()).prop_map(|(path, text)| Op::Symlink { path, text }),
        4 => (path(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        2 => path().prop_map(|path| Op::Rmdir { path }),
        1 => (path(), any::<bool>(), mode()).prop_map(|(path, fifo, mode)| Op::MakeNode { path, fifo, mode }),
    ]
}

fn attributes() -> impl Strategy<Value = Op> {
    // The kernel does not report a chown without a new owner, so the set-id bits stay.
    let id = || (0..2000u32).prop_map(Some);
    let owner = prop_oneof![(id(), Just(None)), (Just(None), id()), (id(), id())];
    let value = proptest::collection::vec(any::<u8>(), 0..60);
    let how = prop_oneof![3 => Just(SetHow::Either), 1 => Just(SetHow::Create), 1 => Just(SetHow::Replace)];
    prop_oneof![
        2 => (path(), mode()).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        1 => (path(), owner).prop_map(|(path, (uid, gid))| Op::Chown { path, uid, gid }),
        2 => (path(), moment(), moment())
            .prop_map(|(path, accessed, modified)| Op::Times { path, accessed, modified }),
        1 => (slot(), moment()).prop_map(|(slot, modified)| Op::TimesOpen { slot, modified }),
        2 => (path(), offset()).prop_map(|(path, size)| Op::Truncate { path, size }),
        2 => (path(), 0..3u8, value, how)
            .prop_map(|(path, name, value, how)| Op::SetAttribute { path, name, value, how }),
        1 => (path(), 0..3u8).prop_map(|(path, name)| Op::RemoveAttribute { path, name }),
    ]
}
