//! Starts and ends of mounts: by mount(8) and a table like /etc/fstab, and in the foreground.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weft_mount::fuse;

use crate::mount_support::{Mounted, wait_until, weft_ok};

/// Runs a script in a private mount namespace in which mount(8) finds our helper: nothing on the
/// machine changes.
pub fn in_a_world_with_the_helper(m: &Mounted, script: &str) -> Option<String> {
    let helpers = m.beside("sbin");
    for name in ["mount.fuse.weft", "mount.weft"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weft"), helpers.join(name)).unwrap();
    }
    let can = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$0\" /sbin && mount --version",
        ])
        .arg(&helpers)
        .output();
    if !can.as_ref().is_ok_and(|can| can.status.success()) {
        println!("SKIPPED: no mount(8) that can be given a helper here: {can:?}");
        return None;
    }
    // Copies of other tests' mounts would keep those busy.
    let script = format!(
        "awk '$3 == \"fuse.weft\" {{ print $2 }}' /proc/self/mounts | xargs -r -n 1 umount -l\n\
         mount --bind {} /sbin\n{script}",
        helpers.display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "bash", "-euo", "pipefail", "-c", &script])
        .env_remove("WEFT_VOLUME")
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE")
        .current_dir(m.beside("."))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {words}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn lines_of_fstab_are_mounted_by_folder_and_by_address() {
    let Some(m) = Mounted::new() else { return };
    m.unmount();
    let volume = m.volume.to_str().unwrap();
    let address = fs::read_to_string(m.volume.join("volume.address")).unwrap();
    let (one, two) = (m.path.to_str().unwrap(), m.beside("two"));
    let two = two.to_str().unwrap();
    let table = m.beside("etc").join("fstab");
    let lines = format!(
        "{volume} {one} fuse.weft defaults,_netdev 0 0\n\
         {} {two} fuse.weft ro,noauto,x-systemd.automount,key_file={volume}/volume.key,log={volume}/log/two.log 0 0\n",
        address.trim()
    );
    fs::write(&table, lines).unwrap();
    let table = table.display();
    // Nothing must stay mounted in the namespace.
    let script = format!(
        "trap 'umount -l {one} {two} 2>/dev/null || true' EXIT\n\
         mount -a -T {table} -t fuse.weft\n\
         echo by-folder > {one}/f\n\
         ! mountpoint -q {two}\n\
         mount -T {table} {two}\n\
         cat {two}/f\n\
         ! {{ echo more > {two}/f; }} 2>/dev/null\n\
         grep -c ' fuse.weft ' /proc/self/mounts\n\
         umount {one}\n\
         umount {two}\n\
         ! grep -q ' fuse.weft ' /proc/self/mounts\n\
         mount -t fuse.weft -o strict {volume} {one}\n\
         cat {one}/f\n\
         umount {one}\n\
         mount -f -t fuse.weft {volume} {one}\n\
         ! mountpoint -q {one}\n\
         mount -t fuse.weft {address} {one} -o rw,noatime,key_file={volume}/volume.key,log={volume}/log/one.log\n\
         cat {one}/f\n\
         umount {one}\n\
         ! mount -t fuse.weft {address} {one} 2> words\n\
         grep -o 'name its file with -o key_file' words\n\
         ! mount -t fuse.weft {address} {one} -o key_file=/nope 2> words\n\
         grep -o 'there is no key file /nope: name' words\n\
         ! mount -t fuse.weft {volume} {one} -o noatime,bogus 2> words\n\
         cat words",
        address = address.trim()
    );
    let Some(words) = in_a_world_with_the_helper(&m, &script) else {
        return;
    };
    // Like mount(8), its helper prints nothing on success.
    let words: Vec<&str> = words.lines().collect();
    let expected = [
        "by-folder",
        "2",
        "by-folder",
        "by-folder",
        "name its file with -o key_file",
        "there is no key file /nope: name",
        "weft: there is no mount option `bogus`: see `weft mount --help` for a list",
    ];
    assert_eq!(words, expected);
    assert_eq!(weft_ok(&["--volume", volume, "cat", "/f"]), "by-folder\n");
}

fn foreground(m: &Mounted, path: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["mount", "--foreground", path.to_str().unwrap()]);
    command.env("WEFT_VOLUME", &m.volume);
    command
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE");
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the volume is mounted", || {
        fuse::mounted_on(path).unwrap().is_some()
    });
    child
}

fn ends(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the mount's process does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_foreground_mount_ends_by_a_signal_after_reporting_all_writes() {
    let Some(m) = Mounted::new() else { return };
    let path = m.beside("foreground").canonicalize().unwrap();
    let volume = m.volume.to_str().unwrap();
    for (signal, text) in [(Signal::TERM, "terminated"), (Signal::INT, "interrupted")] {
        let mut child = foreground(&m, &path);
        fs::write(path.join("f"), text).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = ends(&mut child);
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{text}");
        assert_eq!(fuse::mounted_on(&path).unwrap(), None, "{text}");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "{text}");
        assert_eq!(weft_ok(&["--volume", volume, "cat", "/f"]), text);
    }
    // An unmount ends it, too.
    let mut child = foreground(&m, &path);
    weft_ok(&["unmount", path.to_str().unwrap()]);
    assert_eq!(ends(&mut child).code(), Some(0));
}
