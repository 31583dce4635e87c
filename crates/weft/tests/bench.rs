//! `weft bench` through the real binary: every case once, at the smallest scale; its rows, its messages, its pictures,
//! and that nothing stays behind.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

mod apps_common;
use apps_common::{TestVolume, random, text};

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

fn weft(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .env_remove("WEFT_VOLUME")
        .output()
        .unwrap()
}

/// The rows of a benchmark, whose shape is checked.
fn rows(args: &[&str]) -> Vec<Value> {
    let out = weft(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert!(!rows.is_empty(), "{args:?}");
    for row in &rows {
        let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(fields.len(), FIELDS.len(), "{row}");
        assert!(FIELDS.iter().all(|f| row.get(f).is_some()), "{row}");
        assert!(matches!(row["op"].as_str(), Some("read" | "write")));
        assert!(row["bytes"].as_u64().unwrap() > 0, "{row}");
        let rate = row["bytes"].as_f64().unwrap() / 1048576.0 / row["seconds"].as_f64().unwrap();
        assert!(
            (rate / row["mib_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-6,
            "{row}"
        );
    }
    rows
}

/// A folder for volumes of a benchmark's own; empty again at the end.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// One point or a few of a case, on a volume of its own.
fn smallest(case: &str, more: &[&str]) -> Vec<Value> {
    let folder = folder();
    let own = ["--folder", folder.path().to_str().unwrap()];
    let small = ["--scale", "0.004", "--runs", "1", "--json"];
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

#[test]
fn one_strided_call_of_a_client_is_one_message_for_each_server() {
    let (servers, clients) = (3, 2);
    let rows = smallest(
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
fn partitions_that_match_ask_one_server_those_that_do_not_ask_all() {
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
fn views_of_vesta() {
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
    // The whole matrix by one call, in whatever order of its elements.
    for pattern in ["by-rows", "by-columns"] {
        let row = find(&rows, &[("pattern", pattern), ("op", "read")]);
        assert_eq!(row["messages"], 4, "{row}");
    }
}

#[test]
fn scaling_transfers_and_tiles() {
    let scale = smallest("vesta-scale", &["--servers", "1,2"]);
    let proportion = find(&scale, &[("pattern", "in-proportion"), ("op", "read")]);
    assert_eq!(proportion["servers"], proportion["clients"]);
    let sfs = smallest("sfs", &["--servers", "3", "--record", "64K"]);
    find(&sfs, &[("pattern", "odd-blocks"), ("op", "read")]);
    let tile = smallest("tile", &[]);
    let strided = find(&tile, &[("interface", "strided"), ("op", "read")]);
    assert_eq!(strided["clients"], 9);
}

#[test]
fn the_sort_is_that_of_the_binary() {
    let rows = smallest("sort", &["--servers", "2", "--clients", "2"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["op"], &rows[0]["servers"]),
        (&"write".into(), &2.into())
    );
    assert!(rows[0]["messages"].as_u64().unwrap() > 0);
}

#[test]
fn rows_become_pictures() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let row = |servers: u32, op: &str| {
        format!(
            r#"{{"case":"vesta-scale","pattern":"in-proportion","op":"{op}","interface":"traditional",
            "record":1048576,"servers":{servers},"clients":{servers},"bytes":1048576,"seconds":1.0,
            "mib_per_s":{servers}.5,"messages":null}}"#
        )
    };
    let all: Vec<String> = [1, 2, 4]
        .iter()
        .flat_map(|n| [row(*n, "read"), row(*n, "write")])
        .collect();
    std::fs::write(path("rows.json"), format!("[{}]", all.join(","))).unwrap();
    for name in ["rows.svg", "rows.png"] {
        let out = weft(&["bench", "plot", &path("rows.json"), "-o", &path(name)]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let svg = std::fs::read_to_string(path("rows.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(
        svg.contains("vesta-scale: read") && svg.contains("polyline"),
        "{svg}"
    );
    let png = std::fs::read(path("rows.png")).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    // Width and height of the header: two panels side by side.
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (1120, 400));
    let refused = weft(&["bench", "plot", &path("rows.json"), "-o", &path("rows.gif")]);
    assert!(!refused.status.success() && text(&refused.stderr).contains(".png"));
}

#[test]
fn a_mounted_path_stands_in_the_same_table() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let rows = rows(&[
        "bench",
        "galley",
        "--path",
        path,
        "--scale",
        "0.004",
        "--runs",
        "1",
        "--json",
        "--record",
        "4K",
        "--pattern",
        "interleaved",
    ]);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(
            (&row["interface"], &row["messages"]),
            (&"posix".into(), &Value::Null)
        );
        assert_eq!(row["servers"], 0);
    }
    assert_empty(folder.path());
    let refused = weft(&["bench", "galley", "--path", path, "--interface", "strided"]);
    assert!(!refused.status.success());
}

#[test]
fn a_standing_volume_is_left_as_it_was() {
    let volume = TestVolume::start(2);
    volume.put("/mine", &[], &random(1, 5000));
    let before = volume.names("/");
    let rows = volume.json(&[
        "bench", "galley", "--scale", "0.004", "--runs", "1", "--json", "--record", "4K", "--op",
        "read",
    ]);
    let servers: Vec<u64> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["servers"].as_u64().unwrap())
        .collect();
    assert!(servers.contains(&1) && servers.contains(&2) && !servers.contains(&4));
    assert_eq!(volume.names("/"), before);
    let refused = volume.fails(&["bench", "galley", "--servers", "4"]);
    assert!(refused.contains("2 servers"), "{refused}");
}

#[test]
fn interrupted_it_takes_everything_with_it() {
    let folder = folder();
    let child = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args([
            "bench",
            "galley",
            "--runs",
            "1000",
            "--folder",
            folder.path().to_str().unwrap(),
        ])
        .env_remove("WEFT_VOLUME")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    // Two folders: the volume, and files on the local disk; then it measures.
    while std::fs::read_dir(folder.path()).unwrap().count() < 2 {
        assert!(began.elapsed().as_secs() < 60, "it does not start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(!out.status.success());
    assert!(
        text(&out.stderr).contains("interrupted"),
        "{}",
        text(&out.stderr)
    );
    assert_empty(folder.path());
}

#[test]
fn links_limit_what_servers_move() {
    let rate = 8.0;
    let rows = smallest(
        "vesta-scale",
        &[
            "--pattern",
            "in-proportion",
            "--servers",
            "1,2",
            "--record",
            "256K",
            "--link",
            "8MiB",
            "--scale",
            "0.1",
        ],
    );
    for row in &rows {
        let most = rate * row["servers"].as_f64().unwrap();
        // The burst of the token bucket passes besides.
        assert!(row["mib_per_s"].as_f64().unwrap() < most * 1.15, "{row}");
    }
}
