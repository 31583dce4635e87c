//! Promises of all commands: exit codes, failing output, stable shapes of JSON, and refused
//! requests that leave nothing behind.

mod files_support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use files_support::{Volume, weft};
use weft_client::{Changes, ConnectOptions, NewLayout};

/// A device that is always full.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// The keys of an object and of the objects in it, but not the values.
fn shape(value: &serde_json::Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_exit_code_reports_failures_if_standard_error_is_closed() {
    let volume = Volume::up();
    for (line, code) in [("cat /missing", 1), ("rm /missing", 1), ("cat", 2)] {
        let mut command = volume.command(line.split_whitespace());
        let status = command.stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
    let source = volume.path("source");
    fs::write(&source, b"text").unwrap();
    let mut verbose = volume.command(["import", "-v"]);
    let status = verbose.arg(&source).arg("/f").stderr(full()).status();
    assert!(status.unwrap().success(), "a lost summary is not a failure");
    assert_eq!(volume.text("cat /f"), "text");
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for option in ["--help", "--version", "help"] {
        let status = weft().arg(option).stdout(full()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{option}");
        let output = weft().arg(option).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}

#[test]
fn a_refused_write_leaves_no_file_behind() {
    let volume = Volume::up();
    volume.text("mkdir /d");
    gives_seven_cells(&volume, "/d");
    let source = volume.path("source");
    fs::write(&source, b"text").unwrap();
    let import = format!("import {} /new", source.display());
    let cell = format!("{import} --cell 999");
    let columns = format!("{import} --subfile 1,1,1,1,0 --order column --part 1/2");
    for (line, input) in [
        ("write /new 3", "abcd"),
        ("write /new 3", "ab"),
        ("write /new 4 --cell 999", "abcd"),
        ("write /new 0:2,1:2", "abcd"),
        ("write /new --slab 0:4", "abcd"),
        ("write /new 4 --length 4", "abcd"),
        ("put /new --cell 999", "abcd"),
        ("put /new --cells 2 --cell 2", "abcd"),
        ("put /d/new --cell 7", "abcd"),
        (cell.as_str(), ""),
        (columns.as_str(), ""),
    ] {
        let output = volume
            .start(line, input.as_bytes())
            .wait_with_output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        for new in ["/new", "/d/new"] {
            let gone = volume.fails(&format!("stat {new}"), 1);
            assert!(gone.contains("no such file"), "{line}: {gone}");
        }
    }
    // Possible requests are not refused.
    for line in [
        "put /new --cells 2 --cell 1",
        "put /d/new --cell 6",
        "put /three --cell 2",
        "write /d/more 0:2,2:2 --cell 6",
        "write /d/twice 0:2,1:2 --last-wins",
    ] {
        let output = volume.start(line, b"abcd").wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
}

/// New files of this directory get seven cells.
fn gives_seven_cells(volume: &Volume, directory: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::from_folder(volume.path("volume")).unwrap();
        let client = weft_client::Volume::connect(options).await.unwrap();
        let layout = NewLayout {
            cells: Some(7),
            ..NewLayout::default()
        };
        let changes = Changes {
            layout: Some(layout),
            ..Changes::default()
        };
        client.set_attributes(directory, &changes).await.unwrap();
    });
}

#[test]
fn a_status_has_one_shape_whether_or_not_the_volume_is_up() {
    let volume = Volume::up();
    let up = volume.json("status --json");
    let pid = up["servers"][1]["pid"].as_i64().unwrap();
    let kill = std::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    assert!(kill.unwrap().success());
    let started = std::time::Instant::now();
    let one_down = loop {
        let status = status(&volume);
        if status["servers"][1]["state"] == "down" {
            break status;
        }
        assert!(started.elapsed().as_secs() < 20, "{status}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let down = weft().arg("down").arg(volume.path("volume")).output();
    assert!(down.unwrap().status.success());
    let all_down = status(&volume);
    for other in [&one_down, &all_down] {
        assert_eq!(shape(other), shape(&up));
        assert_eq!(shape(&other["meta"]), shape(&up["meta"]));
        for server in other["servers"].as_array().unwrap() {
            assert_eq!(shape(server), shape(&up["servers"][0]));
        }
        assert_eq!(other["volume"], up["volume"]);
        assert_eq!(other["servers"].as_array().unwrap().len(), 3);
        assert_eq!(other["up"], false);
        let lost = &other["servers"][1];
        assert!(lost["pid"].is_null() && lost["disks"].is_null(), "{lost}");
    }
    assert_eq!(all_down["meta"]["state"], "down");
    assert!(all_down["files"].is_null());
}

/// The JSON status of a volume that is not up.
fn status(volume: &Volume) -> serde_json::Value {
    let output = volume.command(["status", "--json"]).output().unwrap();
    let document = serde_json::from_slice(&output.stdout);
    let document: serde_json::Value = document.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let up = document["up"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!up)), "{output:?}");
    document
}

#[test]
fn a_size_that_is_out_of_range_is_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("v");
    let up = format!("up {} --capacity 0", place.display());
    for line in [up.as_str(), "bench galley --link 0"] {
        let output = weft().args(line.split_whitespace()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(error.contains("0 is too little"), "{line}: {error}");
    }
    assert!(!place.exists());
}

#[test]
fn an_unreadable_key_is_reported_as_such() {
    if rustix::process::geteuid().is_root() {
        // Root may read everything; `ConnectOptions` has a test of the message.
        return;
    }
    let volume = Volume::up();
    let key = volume.path("volume/volume.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o000)).unwrap();
    let refused = volume.fails("ls /", 1);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(
        refused.contains("ermission denied") && !refused.contains("is not the folder"),
        "{refused}"
    );
}

/// The serving processes of a volume: whether each has a local socket.
fn local_sockets(volume: &Volume) -> Vec<bool> {
    let config = volume.path("volume/weft.toml");
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let named = table.lines().filter(|line| line.contains(" @weft-"));
    let inodes: Vec<String> = named
        .filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(6)?)))
        .collect();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        if !words.contains("serve") || !words.contains(config.to_str().unwrap()) {
            continue;
        }
        let open = fs::read_dir(process.path().join("fd")).unwrap().flatten();
        let mut open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        found.push(open.any(|to| inodes.iter().any(|i| to.to_str() == Some(i))));
    }
    found
}

#[test]
fn servers_have_local_sockets_unless_the_configuration_disables_them() {
    let volume = Volume::up();
    assert_eq!(local_sockets(&volume), [true; 4]);
    volume.feed("put /file", b"by a local socket");
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    volume.run(["down", dir]);
    let path = folder.join("weft.toml");
    let config = fs::read_to_string(&path).unwrap();
    let config = config.replacen("[volume]\n", "[volume]\nlocal_sockets = false\n", 1);
    fs::write(&path, config).unwrap();
    volume.run(["up", dir]);
    assert_eq!(local_sockets(&volume), [false; 4]);
    assert_eq!(volume.run(["cat", "/file"]), b"by a local socket");
}

#[test]
fn up_reports_a_running_volume_and_can_mount_it() {
    let volume = Volume::up();
    let folder = volume.path("volume");
    let dir = folder.to_str().unwrap();
    let told = volume.text(&format!("up {dir}"));
    assert!(told.contains("already running"), "{told}");
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED the mount: it needs root and /dev/fuse");
        return;
    }
    let at = volume.path("mounted");
    fs::create_dir(&at).unwrap();
    // Through a symbolic link, too.
    let link = volume.path("link");
    std::os::unix::fs::symlink(volume.path(""), &link).unwrap();
    let through = link.join("mounted");
    let told = volume.text(&format!("up {dir} --mount {}", through.display()));
    assert!(told.contains("mounted on"), "{told}");
    fs::write(at.join("file"), b"seen").unwrap();
    assert_eq!(volume.run(["cat", "/file"]), b"seen");
    // A command that finds a dead mount by the link detaches it.
    let mount = mount_process(&at);
    rustix::process::kill_process(mount, rustix::process::Signal::KILL).unwrap();
    let began = Instant::now();
    while Path::new(&format!("/proc/{}", mount.as_raw_nonzero())).exists() {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    let again = volume
        .command(["mount", through.to_str().unwrap()])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.success(), "{error}");
    assert!(error.contains("was gone"), "{error}");
    assert_eq!(fs::read(at.join("file")).unwrap(), b"seen");
    volume.run(["unmount", at.to_str().unwrap()]);
}

/// The process behind a mount.
fn mount_process(at: &Path) -> rustix::process::Pid {
    let at = at.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let id = process.file_name().to_string_lossy().parse::<i32>().ok();
        if words.contains("mount\0")
            && words.contains(at)
            && id != Some(std::process::id().cast_signed())
        {
            return rustix::process::Pid::from_raw(id.unwrap()).unwrap();
        }
    }
    panic!("no process serves the mount on {at}");
}
