//! `weft bench` through the real binary: every case once, at the smallest scale. Checks rows,
//! messages and plots, and that nothing is left behind.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

#[path = "../apps_common/mod.rs"]
mod apps_common;
mod calls;
mod places;
mod sorts;

use apps_common::text;

const FIELDS: [&str; 11] = [
    "case",
    "pattern",
    "op",
    "interface",
    "record",
    "servers",
    "clients",
    "bytes",
    "seconds",
    "mib_per_s",
    "messages",
];

/// Fields of rows whose calls are timed, in addition.
const RATES: [&str; 5] = ["ops", "ops_per_s", "mean_us", "median_us", "p99_us"];

fn weft(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .env_remove("WEFT_VOLUME")
        .output()
        .unwrap()
}

/// The rows of a benchmark, after a check of their shape.
fn rows(args: &[&str]) -> Vec<Value> {
    let out = weft(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert!(!rows.is_empty(), "{args:?}");
    for row in &rows {
        let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
        let timed = matches!(row["case"].as_str(), Some("small" | "files"));
        let more: &[&str] = if timed { &RATES } else { &[] };
        assert_eq!(fields.len(), FIELDS.len() + more.len(), "{row}");
        let mut expected = FIELDS.iter().chain(more);
        assert!(expected.all(|f| row.get(f).is_some()), "{row}");
        let moves = match row["op"].as_str() {
            Some("read" | "write") => true,
            Some("create") if timed => true,
            Some("stat" | "remove") if timed => false,
            op => panic!("{op:?}: {row}"),
        };
        assert_eq!(row["bytes"].as_u64().unwrap() > 0, moves, "{row}");
        assert_rate(
            row,
            "mib_per_s",
            row["bytes"].as_f64().unwrap() / 1_048_576.0,
        );
        if timed {
            assert_rate(row, "ops_per_s", row["ops"].as_f64().unwrap());
            assert!(row["mean_us"].as_f64().unwrap() > 0.0, "{row}");
            assert!(
                row["p99_us"].as_f64().unwrap() >= row["median_us"].as_f64().unwrap(),
                "{row}"
            );
        }
    }
    rows
}

/// That a row's rate is so much over its seconds.
fn assert_rate(row: &Value, field: &str, amount: f64) {
    let expected = amount / row["seconds"].as_f64().unwrap();
    let off = (row[field].as_f64().unwrap() - expected).abs();
    assert!(off <= expected * 1e-6, "{row}");
}

/// A folder for the temporary volumes of benchmarks; it must be empty again at the end.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// One or a few points of a case, on a temporary volume.
fn smallest(case: &str, more: &[&str]) -> Vec<Value> {
    scaled("0.004", case, more)
}

fn scaled(scale: &str, case: &str, more: &[&str]) -> Vec<Value> {
    let folder = folder();
    let own = ["--folder", folder.path().to_str().unwrap()];
    let small = ["--scale", scale, "--runs", "1", "--json"];
    let rows = rows(&[&["bench", case][..], &own, &small, more].concat());
    assert_empty(folder.path());
    rows
}

fn find<'a>(rows: &'a [Value], is: &[(&str, &str)]) -> &'a Value {
    let fits = |row: &&Value| is.iter().all(|(key, value)| row[key] == *value);
    rows.iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no row {is:?}"))
}

/// A claim on one server lives in its call. On several, a write is staged and committed, and the
/// next call takes its end along.
#[test]
fn an_operation_that_conflicts_with_none_sends_few_messages() {
    let more = ["--servers", "4", "--clients", "2", "--record", "4K,256K"];
    let rows = scaled("0.02", "order", &more);
    for row in &rows {
        let calls = row["bytes"].as_u64().unwrap() / row["record"].as_u64().unwrap();
        let (servers, cautious) = match row["record"].as_u64().unwrap() {
            4096 => (1, false),
            _ => (4, row["pattern"] == "cautious"),
        };
        let write = row["op"] == "write";
        let each = if cautious && write { 2 } else { 1 };
        let least = calls * servers * each;
        // No call may come in time to take an end along.
        let ends = if cautious { calls * servers } else { 0 };
        let messages = row["messages"].as_u64().unwrap();
        assert!((least..=least + ends).contains(&messages), "{row}");
    }
}

#[test]
fn a_strided_call_sends_one_message_to_each_server() {
    let (servers, clients) = (3, 2);
    // Each client's share of 1.3 MiB is on all servers, for every pattern.
    let rows = scaled(
        "0.02",
        "galley",
        &["--servers", "3", "--clients", "2", "--record", "64,4K"],
    );
    for row in &rows {
        let messages = row["messages"].as_u64().unwrap();
        let (bytes, record) = (
            row["bytes"].as_u64().unwrap(),
            row["record"].as_u64().unwrap(),
        );
        match row["interface"].as_str().unwrap() {
            // A record never spans two BSUs here.
            "traditional" => assert_eq!(messages, bytes / record, "{row}"),
            _ => assert_eq!(messages, servers * clients, "{row}"),
        }
        assert_eq!(
            (row["servers"].as_u64(), row["clients"].as_u64()),
            (Some(3), Some(2))
        );
    }
    assert!(
        !rows
            .iter()
            .any(|r| r["pattern"] == "broadcast" && r["op"] == "write")
    );
    // Both ways of two sizes: partitioned and interleaved written, all three read.
    let interfaces = rows
        .iter()
        .filter(|r| r["record"] == 64 && r["interface"] == "strided");
    assert_eq!(interfaces.count(), 5);
}

#[test]
fn matching_partitions_use_one_server_and_mismatched_ones_all() {
    let rows = smallest(
        "pvfs",
        &[
            "--pattern",
            "local-disk,one-server,matched,mismatched",
            "--record",
            "16K",
        ],
    );
    let local = find(&rows, &[("pattern", "local-disk"), ("op", "read")]);
    assert_eq!(
        (&local["interface"], &local["messages"]),
        (&"posix".into(), &Value::Null)
    );
    // Four clients, a share of one request each.
    let requests = |pattern: &str| {
        let row = find(
            &rows,
            &[
                ("pattern", pattern),
                ("op", "read"),
                ("interface", "strided"),
            ],
        );
        row["messages"].as_u64().unwrap() / 4
    };
    assert_eq!(requests("mismatched"), 4 * requests("matched"));
}

#[test]
fn the_vesta_views_case_reports_every_view() {
    let rows = smallest("vesta-views", &["--record", "4K"]);
    let messages = |pattern: &str| {
        let row = find(&rows, &[("pattern", pattern), ("op", "write")]);
        let accesses = row["bytes"].as_u64().unwrap() / row["record"].as_u64().unwrap();
        row["messages"].as_u64().unwrap() / accesses.min(row["messages"].as_u64().unwrap())
    };
    assert_eq!(
        messages("unit-of-1-bsu"),
        4,
        "each access is on all four servers"
    );
    assert_eq!(
        messages("unit-of-4-bsus"),
        1,
        "each access is on one server"
    );
    assert_eq!(messages("unit-of-a-cell"), 1);
    assert_eq!(messages("subfiles-by-cell"), 1);
    assert_eq!(messages("subfiles-across"), 4);
    // The whole matrix in one call, in any order of its elements; the record size cannot be chosen.
    let rows = smallest("vesta-views", &["--pattern", "by-rows,by-columns"]);
    for pattern in ["by-rows", "by-columns"] {
        let row = find(&rows, &[("pattern", pattern), ("op", "read")]);
        assert_eq!(row["messages"], 4, "{row}");
    }
}

#[test]
fn the_scale_transfer_and_tile_cases_report_their_points() {
    let scale = smallest("vesta-scale", &["--servers", "1,2"]);
    let proportion = find(&scale, &[("pattern", "in-proportion"), ("op", "read")]);
    assert_eq!(proportion["servers"], proportion["clients"]);
    let sfs = smallest("sfs", &["--servers", "3", "--record", "64K"]);
    find(&sfs, &[("pattern", "odd-blocks"), ("op", "read")]);
    let tile = smallest("tile", &[]);
    let strided = find(&tile, &[("interface", "strided"), ("op", "read")]);
    assert_eq!(strided["clients"], 9);
    // Each member tells each server.
    let collective = find(&tile, &[("interface", "collective"), ("op", "write")]);
    assert_eq!(collective["messages"], 9 * 4);
    let array = smallest("array", &[]);
    let collective = find(&array, &[("interface", "collective"), ("op", "read")]);
    assert_eq!(collective["messages"], 8 * 4);
    find(&array, &[("pattern", "exchange"), ("op", "write")]);
}

#[test]
fn the_sort_case_runs_weft_sort() {
    let rows = smallest("sort", &["--servers", "2", "--clients", "2"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["op"], &rows[0]["servers"]),
        (&"write".into(), &2.into())
    );
    assert!(rows[0]["messages"].as_u64().unwrap() > 0);
}
