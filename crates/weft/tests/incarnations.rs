//! A server, or the metadata service, that returns without acknowledged writes: the next sync of
//! every writer fails once; and no loss is reported if only processes died.

mod mount_support;

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use mount_support::{Mounted, kill, weft, weft_ok};

const LENGTH: usize = 4 << 20;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sync_errno(file: &File) -> Option<i32> {
    file.sync_all().err().map(|e| e.raw_os_error().unwrap())
}

/// Kills all processes of the volume, but not those of its mounts.
fn kill_volume(m: &Mounted) {
    for pid in m.nodes() {
        kill(pid);
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp")
        .args(["-a", "--sparse=always", text(from), text(to)])
        .status()
        .unwrap();
    assert!(copied.success());
}

fn server_folders(m: &Mounted) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(&m.volume).unwrap().flatten();
    let mut folders: Vec<_> = entries
        .map(|e| e.path())
        .filter(|p| p.is_dir() && p.join("store").is_dir())
        .collect();
    folders.sort();
    assert_eq!(folders.len(), 2, "{folders:?}");
    folders
}

#[test]
fn a_sync_after_servers_came_back_without_acknowledged_bytes_fails_once_for_each_descriptor() {
    let Some(m) = Mounted::new() else { return };
    let path = m.file("f");
    let mut first = File::create(&path).unwrap();
    first.write_all(&vec![b'A'; LENGTH]).unwrap();
    first.sync_all().unwrap();
    let second = OpenOptions::new().write(true).open(&path).unwrap();
    kill_volume(&m);
    let aside = m.beside("aside");
    for (n, folder) in server_folders(&m).iter().enumerate() {
        copy(folder, &aside.join(n.to_string()));
    }
    weft_ok(&["up", text(&m.volume)]);
    first.rewind().unwrap();
    first.write_all(&vec![b'B'; LENGTH]).unwrap();
    // Another client has read it, so the servers have acknowledged it.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let out = weft(&["--volume", text(&m.volume), "cat", "/f"]);
        if out.status.success() && out.stdout.iter().all(|b| *b == b'B') {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "B arrives");
    }
    kill_volume(&m);
    for (n, folder) in server_folders(&m).iter().enumerate() {
        fs::remove_dir_all(folder).unwrap();
        copy(&aside.join(n.to_string()), folder);
    }
    // They may have reported B as durable to the metadata service, but no longer have it.
    let up = weft(&["up", text(&m.volume)]);
    if !up.status.success() {
        let said = String::from_utf8_lossy(&up.stderr).into_owned();
        for server in 0..2 {
            let name = format!("server {server} is refused");
            if said.contains(&name) {
                let id = server.to_string();
                weft_ok(&[
                    "--volume",
                    text(&m.volume),
                    "server",
                    "accept-rollback",
                    &id,
                ]);
            }
        }
        // Their data is in doubt, so the status is a failure.
        let accepted = || {
            let status = weft(&["--volume", text(&m.volume), "status", "--json"]);
            let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
            let servers = status["servers"].as_array().unwrap();
            servers.iter().all(|server| server["state"] == "up")
        };
        mount_support::wait_until("the servers are up again", accepted);
    }
    let eio = Some(libc_eio());
    assert_eq!(sync_errno(&first), eio, "the writer");
    assert_eq!(sync_errno(&second), eio, "another descriptor of the mount");
    assert_eq!(sync_errno(&first), None, "the loss was already reported");
    assert_eq!(sync_errno(&second), None, "the loss was already reported");
    let third = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(
        sync_errno(&third),
        None,
        "this descriptor was opened after the loss"
    );
    // Bytes that are written again stay.
    first.write_all_at(&vec![b'C'; LENGTH], 0).unwrap();
    assert_eq!(sync_errno(&first), None);
}

#[test]
fn no_sync_fails_after_processes_were_only_killed() {
    let Some(m) = Mounted::new() else { return };
    let path = m.file("f");
    let file = File::create(&path).unwrap();
    let small = File::create(m.file("small")).unwrap();
    let directory = File::open(&m.path).unwrap();
    for round in 0..3_u8 {
        file.write_all_at(&vec![b'a' + round; LENGTH], 0).unwrap();
        small.write_all_at(&[b'a' + round; 100], 0).unwrap();
        fs::write(m.file(&format!("name-{round}")), b"x").unwrap();
        // A close sends the data that the mount holds. (Otherwise the programs started below would
        // send it when they drop the descriptors that they inherit, and wait for the volume that
        // they are to start.)
        for path in [&path, &m.file("small")] {
            drop(OpenOptions::new().write(true).open(path).unwrap());
        }
        kill_volume(&m);
        weft_ok(&["up", text(&m.volume)]);
        assert_eq!(sync_errno(&file), None, "round {round}");
        assert_eq!(sync_errno(&small), None, "round {round}");
        assert_eq!(sync_errno(&directory), None, "round {round}");
        let read = fs::read(&path).unwrap();
        assert!(read.iter().all(|b| *b == b'a' + round), "round {round}");
    }
}

fn libc_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}
