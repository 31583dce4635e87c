//! Coverage: which kinds of operations, items and deaths occurred. Without the rare ones a test
//! would prove nothing about them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::common::Machine;
use super::oracle::Op;
use weft_store::item_kinds;

thread_local! {
    static OPERATIONS: RefCell<BTreeMap<String, u64>> = RefCell::default();
    static ITEMS: RefCell<BTreeMap<u8, u64>> = RefCell::default();
    static DEATHS: RefCell<BTreeMap<&'static str, u64>> = RefCell::default();
    static UNREAD: Cell<u64> = Cell::default();
}

/// Counts an operation.
pub fn add_operation(op: &Op) {
    OPERATIONS.with_borrow_mut(|seen| *seen.entry(op.kind()).or_default() += 1);
}

/// Counts the kinds of items in the log of a machine.
pub fn add_log(machine: &Machine) {
    let names = machine.disk.names();
    let segments = names.iter().filter(|name| name.starts_with("log."));
    let kinds = segments.flat_map(|name| item_kinds(&machine.disk.bytes(name).unwrap()));
    let kinds: BTreeSet<u8> = kinds.collect();
    ITEMS.with_borrow_mut(|seen| {
        for kind in kinds {
            *seen.entry(kind).or_default() += 1;
        }
    });
}

/// Counts the deaths of a machine, and the lost batches of its index.
pub fn add_machine(machine: &Machine) {
    UNREAD.set(UNREAD.get() + machine.index.unread());
    DEATHS.with_borrow_mut(|seen| {
        for (doing, count) in machine.index.deaths() {
            *seen.entry(doing).or_default() += count;
        }
    });
}

/// Asserts deaths before writes and before syncs of the index, and losses of its journal.
pub fn assert_deaths() {
    DEATHS.with_borrow(|seen| {
        let both = ["sync", "write"]
            .iter()
            .all(|doing| seen.contains_key(doing));
        assert!(both, "deaths: {seen:?}");
    });
    assert!(UNREAD.get() > 100, "{} batches of journals", UNREAD.get());
}

/// Asserts every kind of operation, and every kind of item that `docs/format.md` lists.
pub fn assert_everything() {
    let kinds = [
        "Apply",
        "Checkpoint",
        "Clean",
        "Clear",
        "Create",
        "Delete",
        "Drop",
        "DropCache",
        "Extend",
        "Reclaim",
        "Remove",
        "RollBack",
        "Scrub",
        "Sync",
        "Truncate",
        "Write",
    ];
    OPERATIONS.with_borrow(|seen| {
        assert!(seen.keys().eq(kinds.iter()), "operations: {seen:?}");
    });
    let format = include_str!("../../../../docs/format.md");
    let (_, items) = format.split_once("## Items").unwrap();
    let rows = items.lines().filter_map(|line| line.strip_prefix("| "));
    let listed: BTreeSet<u8> = rows
        .filter_map(|row| row.split(' ').next()?.parse().ok())
        .collect();
    // `Doubt`, `DoubtAll` and `Trust` occur only after repairs: `log_doubt.rs`.
    let listed: BTreeSet<u8> = listed.into_iter().filter(|kind| *kind < 21).collect();
    ITEMS.with_borrow(|seen| {
        assert!(seen.keys().eq(listed.iter()), "items of logs: {seen:?}");
    });
}
