//! Where benchmarks run, and plots of their rows.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::apps_common::{TestVolume, random, text};
use crate::{assert_empty, folder, rows, scaled, weft};

#[test]
fn rows_become_plots() {
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
fn two_files_of_the_same_points_make_two_lines() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let row = |record: u32, rate: u32, more: &str| {
        format!(
            r#"{{"case":"galley","pattern":"interleaved","op":"read","interface":"posix","record":{record},
            "servers":0,"clients":1,"bytes":1048576,"seconds":1.0,"mib_per_s":{rate}.5,"messages":null{more}}}"#
        )
    };
    let rows =
        |rate, more: &str| format!("[{},{}]", row(64, rate, more), row(4096, 2 * rate, more));
    std::fs::write(path("ours.json"), rows(10, "")).unwrap();
    std::fs::write(path("theirs.json"), rows(20, "")).unwrap();
    std::fs::write(path("named.json"), rows(30, r#","label":"a rival's""#)).unwrap();
    let (files, out) = (
        ["ours.json", "theirs.json", "named.json"].map(path),
        path("all.svg"),
    );
    let args: Vec<&str> = files.iter().map(String::as_str).collect();
    let args = [&["bench", "plot"][..], &args, &["-o", &out]].concat();
    let drawn = weft(&args);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let svg = std::fs::read_to_string(path("all.svg")).unwrap();
    for name in ["ours", "theirs", "rival"] {
        assert!(svg.contains(name), "{name}: {svg}");
    }
}

#[test]
fn a_mounted_path_gives_rows_of_the_same_shape() {
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
    let refused = weft(&["bench", "galley", "--path", path, "--link", "10MiB"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("--link"));
}

#[test]
fn an_existing_volume_is_left_unchanged() {
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
fn an_interrupted_benchmark_leaves_nothing_behind() {
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
    // The benchmark runs once there are two folders: the volume, and files on the local disk.
    while std::fs::read_dir(folder.path()).unwrap().count() < 2 {
        assert!(
            began.elapsed().as_secs() < 60,
            "the benchmark does not start"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    assert!(
        text(&out.stderr).contains("interrupted"),
        "{}",
        text(&out.stderr)
    );
    assert_empty(folder.path());
}

#[test]
fn links_limit_the_throughput_of_servers() {
    let rate = 8.0;
    let rows = scaled(
        "0.1",
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
        ],
    );
    for row in &rows {
        let most = rate * row["servers"].as_f64().unwrap();
        // Plus the burst of the token bucket.
        assert!(row["mib_per_s"].as_f64().unwrap() < most * 1.15, "{row}");
    }
}
