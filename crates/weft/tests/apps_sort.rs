//! `weft sort` on real volumes: many processes sort like one, and a failure leaves the file
//! unchanged.

mod apps_common;

use std::ops::Range;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use apps_common::{TestVolume, random, text};
use rustix::process::{Pid, Signal, kill_process};

/// Sorted by the standard library: by key, then by everything.
fn sorted(data: &[u8], record: usize, key: Range<usize>) -> Vec<u8> {
    let mut records: Vec<&[u8]> = data.chunks(record).collect();
    records.sort_by(|a, b| a[key.clone()].cmp(&b[key.clone()]).then(a.cmp(b)));
    records.concat()
}

fn same(volume: &TestVolume, path: &str, expected: &[u8]) {
    // Not assert_eq, which would print megabytes of numbers.
    assert!(volume.ok(&["cat", path]) == expected, "{path} differs");
}

#[test]
fn any_number_of_processes_sorts_like_one() {
    let volume = TestVolume::start(4);
    let data = random(1, 40_000 * 24);
    let expected = sorted(&data, 24, 3..11);
    for (procs, layout) in [
        ("1", &["--cells", "1", "--bsu", "4096"][..]),
        ("2", &["--cells", "3", "--bsu", "1000"]),
        ("3", &["--cells", "4", "--bsu", "24"]),
        ("4", &["--cells", "8", "--bsu", "65536"]),
    ] {
        let path = format!("/records-{procs}");
        volume.put(&path, layout, &data);
        let before = volume.json(&["stat", "--json", &path]);
        let args = [
            "sort", &path, "--record", "24", "--key", "3..11", "--procs", procs, "--json",
        ];
        let summary = volume.json(&args);
        assert_eq!(summary["records"], 40_000);
        assert_eq!(summary["processes"].to_string(), procs);
        same(&volume, &path, &expected);
        let after = volume.json(&["stat", "--json", &path]);
        assert_eq!(before[0]["layout"], after[0]["layout"], "the layout stays");
    }
    assert!(
        !volume.names("/").contains("sort-"),
        "scratch files are gone"
    );
}

#[test]
fn odd_counts_and_little_memory_make_larger_meshes_that_sort_the_same() {
    let volume = TestVolume::start(2);
    for (i, (records, record, procs, memory)) in [
        (1, 7, 4, "1M"),
        (5, 3, 4, "1M"),
        (10_007, 13, 2, "64K"),
        (4_099, 100, 3, "96K"),
        (30_000, 1, 4, "128K"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/odd-{i}");
        let data = random(i as u64, records * record);
        volume.put(&path, &["--cells", "3", "--bsu", "777"], &data);
        let (record_text, procs) = (record.to_string(), procs.to_string());
        let args = [
            "sort",
            &path,
            "--record",
            &record_text,
            "--procs",
            &procs,
            "--memory",
            memory,
            "--json",
        ];
        let summary = volume.json(&args);
        assert!(summary["mesh_cells"].as_u64().unwrap() >= procs.parse().unwrap());
        same(&volume, &path, &sorted(&data, record, 0..record));
    }
}

#[test]
fn records_that_look_like_padding_are_kept() {
    let volume = TestVolume::start(2);
    let mut data = random(3, 1001 * 16);
    for i in (0..1001).step_by(3) {
        data[i * 16..][..16].fill(0xFF);
    }
    volume.put("/ff", &["--cells", "2", "--bsu", "160"], &data);
    volume.ok(&[
        "sort", "/ff", "--record", "16", "--key", "8..", "--procs", "4",
    ]);
    same(&volume, "/ff", &sorted(&data, 16, 8..16));
    let all = vec![0xFF; 33 * 16];
    volume.put("/all-ff", &["--cells", "2", "--bsu", "160"], &all);
    volume.ok(&["sort", "/all-ff", "--record", "16", "--procs", "4"]);
    same(&volume, "/all-ff", &all);
}

#[test]
fn holes_are_zeros_and_an_empty_file_stays_empty() {
    let volume = TestVolume::start(3);
    volume.put("/sparse", &["--cells", "4", "--bsu", "64"], b"12345678");
    volume.ok(&["truncate", "/sparse", "--size", "4096"]);
    volume.ok(&["sort", "/sparse", "--record", "8", "--procs", "2"]);
    let expected = [&vec![0; 4088][..], b"12345678"].concat();
    same(&volume, "/sparse", &expected);
    volume.put("/empty", &["--cells", "4", "--bsu", "64"], b"");
    volume.ok(&["sort", "/empty", "--record", "8", "--procs", "2"]);
    same(&volume, "/empty", b"");
}

#[test]
fn cells_can_be_kept_and_sorted_again() {
    let volume = TestVolume::start(4);
    let data = random(5, 5003 * 32);
    volume.put("/in", &["--cells", "2", "--bsu", "4096"], &data);
    let summary = volume.json(&[
        "sort",
        "/in",
        "--record",
        "32",
        "--procs",
        "4",
        "--output",
        "/cells",
        "--keep-cells",
        "--json",
    ]);
    same(&volume, "/in", &data);
    let cells: Vec<u8> = (0..summary["mesh_cells"].as_u64().unwrap())
        .flat_map(|cell| volume.ok(&["cat", "/cells", "--cell", &cell.to_string()]))
        .collect();
    let expected = sorted(&data, 32, 0..32);
    assert!(cells == expected, "the cells follow one another in order");
    let key = sorted(&data, 32, 30..32);
    volume.ok(&[
        "sort",
        "/cells",
        "--record",
        "32",
        "--key",
        "30..32",
        "--from-cells",
        "--output",
        "/again",
    ]);
    // The layout is that of the cells; readers see canonical order.
    same(&volume, "/again", &key);
}

#[test]
fn a_sort_keeps_forks_attributes_and_modes() {
    let volume = TestVolume::start(2);
    let data = random(6, 640);
    volume.put("/full", &["--cells", "2", "--bsu", "64"], &data);
    volume.ok(&["chmod", "640", "/full"]);
    volume.ok(&["ln", "-s", "/full", "/link"]);
    volume.ok(&["fork", "create", "/full", "notes", "--cell", "1"]);
    volume.ok(&["sort", "/link", "--record", "64", "--procs", "2"]);
    same(&volume, "/full", &sorted(&data, 64, 0..64));
    let listed = text(&volume.ok(&["ls", "-l", "/"]));
    assert!(listed.contains("-rw-r-----"), "{listed}");
    assert!(listed.contains("link"), "{listed}");
    let stat = volume.json(&["stat", "--json", "/full"]).to_string();
    assert!(stat.contains("notes"), "{stat}");
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let volume = TestVolume::start(1);
    volume.put("/f", &["--cells", "2", "--bsu", "64"], &random(7, 1000));
    for (args, reason) in [
        (&["--record", "64"][..], "not a multiple of the record"),
        (&["--record", "0"], "at least 1 byte"),
        (&["--record", "10", "--key", "0..11"], "does not fit"),
        (&["--record", "10", "--key", "5..5"], "does not fit"),
        (&["--record", "10", "--key", "x"], "FROM..TO"),
        (&["--record", "10", "--procs", "0"], "give --procs 1 to"),
        (
            &["--record", "1000", "--memory", "2K"],
            "give --memory at least",
        ),
        (&["--record", "10", "--output", "/none/x"], "no"),
    ] {
        let complaint = volume.fails(&[&["sort", "/f"], args].concat());
        assert!(complaint.contains(reason), "{args:?}: {complaint}");
    }
    volume.fails(&["sort", "/", "--record", "8"]);
    volume.fails(&["sort", "/none", "--record", "8"]);
    same(&volume, "/f", &random(7, 1000));
    assert!(!volume.names("/").contains("sort-"));
}

/// Starts a sort of `/big` with its output kept.
fn start_sort(volume: &TestVolume) -> Child {
    volume
        .command(&["sort", "/big", "--record", "16", "--procs", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The children of a process, once all four have started.
fn workers(leader: &Child) -> Vec<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", leader.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        let pids: Vec<Pid> = children
            .split_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect();
        if pids.len() == 4 {
            return pids;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no workers");
}

#[test]
fn an_impossible_output_path_is_refused_before_sorting() {
    let volume = TestVolume::start(2);
    volume.put("/records", &["--cells", "2"], &random(4, 160));
    volume.ok(&["mkdir", "/there"]);
    let complaint = volume.fails(&["sort", "/records", "--record", "16", "--output", "/there"]);
    assert!(complaint.contains("/there is a directory"), "{complaint}");
    assert!(!volume.names("/").contains("sort-"));
}

#[test]
fn a_killed_worker_leaves_the_file_unchanged() {
    let volume = TestVolume::start(4);
    let data = random(8, 48 << 20);
    volume.put("/big", &["--cells", "4", "--bsu", "65536"], &data);
    for victim in 0..2 {
        let leader = start_sort(&volume);
        let workers = workers(&leader);
        std::thread::sleep(Duration::from_millis(50 + 150 * victim as u64));
        kill_process(workers[victim], Signal::KILL).unwrap();
        let out = leader.wait_with_output().unwrap();
        assert!(!out.status.success());
        let complaint = text(&out.stderr);
        assert!(
            complaint.contains(&format!("worker {victim} (process")),
            "{complaint}"
        );
        assert!(complaint.contains("died"), "{complaint}");
        same(&volume, "/big", &data);
        assert!(
            !volume.names("/").contains("sort-"),
            "{}",
            volume.names("/")
        );
    }
}

#[test]
fn an_interrupted_sort_cleans_up_and_a_killed_one_is_reported_by_the_next() {
    let volume = TestVolume::start(2);
    let data = random(9, 32 << 20);
    volume.put("/big", &["--cells", "4", "--bsu", "65536"], &data);
    let kill = |leader: &Child, signal| {
        workers(leader);
        std::thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(leader), signal).unwrap();
    };

    let leader = start_sort(&volume);
    kill(&leader, Signal::INT);
    let out = leader.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    assert!(
        text(&out.stderr).contains("interrupted"),
        "{}",
        text(&out.stderr)
    );
    same(&volume, "/big", &data);
    assert!(!volume.names("/").contains("sort-"));

    let leader = start_sort(&volume);
    kill(&leader, Signal::KILL);
    leader.wait_with_output().unwrap();
    same(&volume, "/big", &data);
    assert!(volume.names("/").contains(".big.sort-"));
    let out = volume.run(&["sort", "/big", "--record", "16", "--procs", "2"]);
    assert!(out.status.success());
    assert!(
        text(&out.stderr).contains("weft rm /.big.sort-"),
        "{}",
        text(&out.stderr)
    );
    same(&volume, "/big", &sorted(&data, 16, 0..16));
}
