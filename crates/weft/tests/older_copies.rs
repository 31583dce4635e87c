//! Folders that differ from what their nodes left: older copies, copies that run twice, folders of
//! other servers and volumes (`docs/design/0022-older-copies.md`).

mod files_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use files_support::{Volume, bytes, weft};

const LENGTH: usize = 3 << 20;

fn volume_folder(v: &Volume) -> PathBuf {
    v.path("volume")
}

/// Starts or stops the volume. Returns whether that succeeded, and all messages.
fn turn(v: &Volume, command: &str) -> (bool, String) {
    let out = weft().arg(command).arg(volume_folder(v)).output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8(said).unwrap())
}

fn down(v: &Volume) {
    let (done, said) = turn(v, "down");
    assert!(done, "{said}");
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .args(["-a", "--sparse=always"])
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

fn replace(folder: &Path, by: &Path) {
    fs::remove_dir_all(folder).unwrap();
    copy(by, folder);
}

/// A volume whose file holds `new` beside a directory of that name, and copies of all its folders
/// from when the file held `old`.
fn aged(old: &[u8], new: &[u8]) -> Volume {
    let v = Volume::up();
    v.feed("put /f", old);
    down(&v);
    copy(&volume_folder(&v), &v.path("old"));
    assert!(turn(&v, "up").0);
    v.feed("put /f", new);
    v.text("mkdir /new");
    down(&v);
    v
}

fn older_copy(end: End) {
    let (old, new) = (bytes(1, LENGTH), bytes(2, LENGTH));
    let v = aged(&old, &new);
    let folder = volume_folder(&v).join("server-1");
    copy(&folder, &v.path("newest"));
    replace(&folder, &v.path("old/server-1"));
    let (done, said) = turn(&v, "up");
    assert!(!done && said.contains("server 1 is refused"), "{said}");
    assert!(said.contains("weft server accept-rollback 1"), "{said}");
    // Requests to the server fail and say why; no old data is read.
    let refused = v.fails("cat /f", 1);
    assert!(
        refused.contains("older than what the server reported"),
        "{refused}"
    );
    let status = v.command(["status"]).output().unwrap();
    assert_eq!(status.status.code(), Some(1));
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("refused: older copy"), "{status}");
    // With the newest folder restored, the volume works.
    down(&v);
    replace(&folder, &v.path("newest"));
    let (done, said) = turn(&v, "up");
    assert!(done, "{said}");
    assert_eq!(v.run(["cat", "/f"]), new);
    // Without a newer copy, the administrator accepts the older one.
    down(&v);
    replace(&folder, &v.path("old/server-1"));
    assert!(!turn(&v, "up").0);
    let wrong = v.fails("server accept-rollback 0", 1);
    assert!(wrong.contains("is not refused"), "{wrong}");
    let said = v.text("server accept-rollback 1");
    assert!(said.contains("newest bytes were written at"), "{said}");
    assert!(said.contains("fsck --accept-server 1"), "{said}");
    // The server is up, but its data is hidden until it is accepted.
    let doubted = |v: &Volume| {
        let status = v.command(["status"]).output().unwrap();
        assert_eq!(status.status.code(), Some(1));
        let status = String::from_utf8(status.stdout).unwrap();
        assert!(!status.contains("refused"), "{status}");
        assert!(status.contains("not proven"), "{status}");
        let read = v.fails("cat /f", 1);
        assert!(
            read.contains("are not proven") && read.contains("/f"),
            "{read}"
        );
        let check = v.command(["fsck"]).output().unwrap();
        let said = String::from_utf8([check.stdout, check.stderr].concat()).unwrap();
        assert!(!check.status.success() && said.contains("/f"), "{said}");
    };
    doubted(&v);
    // New files work normally, also with holes.
    v.text("mkdir /later");
    v.feed("put /later/g", &new);
    assert_eq!(v.run(["cat", "/later/g"]), new);
    v.text("truncate --size 9M /later/g");
    assert_eq!(v.run(["cat", "/later/g"]).len(), 9 << 20);
    // From now on the copy is the data of the server.
    down(&v);
    let (done, said) = turn(&v, "up");
    assert!(done, "{said}");
    doubted(&v);
    match end {
        End::WrittenAnew => {
            v.feed("put /f", &new);
            assert_eq!(v.run(["cat", "/f"]), new);
            // The copy may lack other files.
            let status = v.command(["status"]).output().unwrap();
            let status = String::from_utf8(status.stdout).unwrap();
            assert!(
                status.contains("without data there may have had some"),
                "{status}"
            );
        }
        End::Accepted => {
            // Files that the copy may lack are still in doubt.
            let check = v.command(["fsck", "--accept", "/f"]).output().unwrap();
            assert_eq!(check.status.code(), Some(4));
            let read = v.run(["cat", "/f"]);
            assert!(
                read != old && read != new,
                "the file has cells of both times"
            );
        }
    }
    let check = v
        .command(["fsck", "--accept-server", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(said.contains("accepted"), "{said}");
    assert_eq!(check.status.code(), Some(1), "{said}");
    v.text("fsck");
    v.text("status");
}

/// How the doubt about a file ends.
#[derive(Clone, Copy)]
enum End {
    WrittenAnew,
    Accepted,
}

#[test]
fn an_older_copy_of_a_server_is_refused_until_it_is_accepted() {
    older_copy(End::WrittenAnew);
}

#[test]
fn data_of_an_accepted_server_is_hidden_until_it_is_accepted_too() {
    older_copy(End::Accepted);
}

#[test]
fn a_file_that_an_accepted_copy_lacks_does_not_read_as_zeros() {
    let v = aged(b"old", b"new");
    assert!(turn(&v, "up").0);
    // Two whose only cell is on server 1.
    let held = |path: &&String| {
        v.feed(&format!("put --cells 1 {path}"), &bytes(4, LENGTH));
        let stat = v.json(&format!("stat --json {path}"));
        stat[0]["layout"]["servers"][0] == 1
    };
    let names: Vec<String> = (0..100).map(|n| format!("/new/{n}")).collect();
    let held: Vec<&String> = names.iter().filter(held).take(2).collect();
    down(&v);
    let folder = volume_folder(&v).join("server-1");
    replace(&folder, &v.path("old/server-1"));
    assert!(!turn(&v, "up").0);
    v.text("server accept-rollback 1");
    let target = v.path("target").display().to_string();
    for path in &held {
        assert!(
            v.fails(&format!("cat {path}"), 1)
                .contains("are not proven")
        );
        let copied = v.fails(&format!("cp weft:{path} {target}"), 1);
        assert!(copied.contains("are not proven"), "{copied}");
        let copied = v.fails(&format!("cp weft:{path} weft:/copy"), 1);
        assert!(copied.contains("are not proven"), "{copied}");
    }
    // Both are named with their paths, also by a repair, which does not truncate them.
    let check = |args: &[&str]| {
        let out = v.command(["fsck"]).args(args).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    for args in [&[][..], &["--repair"]] {
        let (code, said) = check(args);
        assert_eq!(code, Some(4), "{said}");
        for path in &held {
            let place = format!("{path} (file");
            let row = said.lines().find(|line| line.contains(&place));
            assert!(row.is_some_and(|row| row.contains("not proven")), "{said}");
        }
    }
    // After a new write the file is complete, and its end is known.
    v.feed(&format!("put {}", held[0]), &bytes(5, 100_000));
    assert_eq!(v.run(["cat", held[0]]), bytes(5, 100_000));
    v.text(&format!("truncate --size 200000 {}", held[0]));
    assert_eq!(v.run(["cat", held[0]]).len(), 200_000);
    let (code, said) = check(&[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains(held[1]) && !said.contains(&format!("{} ", held[0])),
        "{said}"
    );
    // With the last one accepted, /f written again and the others removed, a repair finds none left
    // and ends the doubt.
    let (code, said) = check(&["--accept", held[1]]);
    assert_eq!(code, Some(4), "{said}");
    v.feed("put /f", &bytes(6, LENGTH));
    for name in v.text("ls /new").lines() {
        let path = format!("/new/{name}");
        if !held.contains(&&path) {
            v.text(&format!("rm {path}"));
        }
    }
    let status = v.command(["status"]).output().unwrap();
    assert_eq!(status.status.code(), Some(1));
    let (code, said) = check(&["--repair"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no file is concerned any more"), "{said}");
    v.text("status");
    v.text("fsck");
}

#[test]
fn an_older_copy_of_the_metadata_is_refused_until_it_is_accepted() {
    let new = bytes(2, 2 * LENGTH);
    let v = aged(&bytes(1, LENGTH), &new);
    let folder = volume_folder(&v).join("meta");
    replace(&folder, &v.path("old/meta"));
    let (done, said) = turn(&v, "up");
    assert!(!done && said.contains("accept-rollback metadata"), "{said}");
    let refused = v.fails("cat /f", 1);
    assert!(
        refused.contains("the metadata service went back"),
        "{refused}"
    );
    let status = v.command(["status"]).output().unwrap();
    assert_eq!(status.status.code(), Some(1));
    v.text("server accept-rollback metadata");
    assert_eq!(
        v.text("ls /").trim(),
        "f",
        "the names are those of the copy"
    );
    // The file is longer than in the copy, which the servers know.
    assert_eq!(v.run(["cat", "/f"]), new);
    assert!(v.text("status").contains("up"));
    std::thread::sleep(Duration::from_secs(2));
    down(&v);
    let (done, said) = turn(&v, "up");
    assert!(done, "{said}");
}

#[test]
fn an_offline_check_reports_an_older_copy() {
    let v = aged(&bytes(1, LENGTH), &bytes(2, LENGTH));
    let folder = volume_folder(&v).join("server-2");
    replace(&folder, &v.path("old/server-2"));
    let out = weft()
        .args(["fsck", "--offline"])
        .arg(volume_folder(&v))
        .output()
        .unwrap();
    let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
    assert!(!out.status.success(), "{said}");
    assert!(said.contains("server 2 is refused"), "{said}");
}

#[test]
fn folders_of_other_servers_and_of_other_volumes_do_not_start() {
    let v = aged(b"old", b"new");
    let (one, two) = (
        volume_folder(&v).join("server-1"),
        volume_folder(&v).join("server-2"),
    );
    let aside = v.path("aside");
    fs::rename(&one, &aside).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&aside, &two).unwrap();
    let (done, said) = turn(&v, "up");
    assert!(!done, "{said}");
    assert!(
        said.contains("server-1") && said.contains("belongs to server-2"),
        "{said}"
    );
    fs::rename(&one, &aside).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&aside, &two).unwrap();
    let other = Volume::up();
    down(&other);
    replace(&two, &volume_folder(&other).join("server-2"));
    let (done, said) = turn(&v, "up");
    assert!(!done && said.contains("of volume"), "{said}");
    // No node was left running.
    let status = v.command(["status"]).output().unwrap();
    assert!(!status.status.success());
}

#[test]
fn a_copied_folder_is_served_only_once() {
    let v = aged(&bytes(1, LENGTH), &bytes(2, LENGTH));
    copy(&volume_folder(&v).join("server-1"), &v.path("twin"));
    assert!(turn(&v, "up").0);
    v.feed("put /f", &bytes(3, LENGTH));
    // Run the same server from the copy, in another folder.
    let config = fs::read_to_string(volume_folder(&v).join("weft.toml")).unwrap();
    let old = v.json("status --json")["servers"][1]["address"].clone();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let new = free.local_addr().unwrap().to_string();
    drop(free);
    let twin = v.path("twin").display().to_string();
    let config = config
        .replace(old.as_str().unwrap(), &new)
        .replace("folder = \"server-1\"", &format!("folder = \"{twin}\""));
    let lines = config.lines().filter(|line| !line.starts_with("metrics"));
    let path = volume_folder(&v).join("twin.toml");
    fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let log = fs::File::create(v.path("twin.log")).unwrap();
    let mut second = weft()
        .args(["serve", "--role", "io", "--server", "1", "--config"])
        .arg(&path)
        .stderr(log)
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(v.path("twin.log")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !said().contains("this server is refused") {
        assert!(Instant::now() < deadline, "{}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(v.run(["cat", "/f"]), bytes(3, LENGTH));
    assert_eq!(v.json("status --json")["servers"][1]["state"], "up");
    second.kill().unwrap();
    second.wait().unwrap();
    assert_eq!(v.run(["cat", "/f"]), bytes(3, LENGTH));
}
