//! Addressed files through the commands and a mount, beside servers that are killed with kill −9.

mod files_support;

use files_support::{Volume, bytes, weft};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CHUNK: usize = 16 << 10;

fn kill_server(volume: &Volume, number: usize) {
    let status = volume.json("status --json");
    let pid = status["servers"][number]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn restart(volume: &Volume) {
    let up = weft().arg("up").arg(volume.path("volume")).output();
    assert!(up.unwrap().status.success());
}

/// Runs the cleaners; the sum of a value over all servers.
fn clean(volume: &Volume, what: &str) -> u64 {
    let cleaned = volume.json("clean --json");
    let servers = cleaned["servers"].as_array().unwrap();
    assert!(
        servers.iter().all(|s| s["missing_chunks"] == 0),
        "{cleaned}"
    );
    servers.iter().map(|s| s[what].as_u64().unwrap()).sum()
}

#[test]
fn a_directory_makes_its_files_addressed_and_copies_share_their_chunks() {
    let volume = Volume::up();
    volume.text("mkdir /dir");
    volume.text("create --directory --addressed --chunk 16KiB /dir");
    let data = bytes(1, 3 << 20);
    volume.feed("write /dir/one 0:3MiB", &data);
    let stat = volume.json("stat /dir/one --json");
    assert_eq!(stat[0]["layout"]["storage"], "addressed");
    volume.text("cp weft:/dir/one weft:/dir/two");
    assert_eq!(volume.run("cat /dir/two".split(' ')), data);
    // The copy refers to the same bytes again.
    assert_eq!(clean(&volume, "referred_bytes"), 6 << 20);
    // Zeros at the end of a chunk are not stored.
    let is_once = |stored: u64| (stored..stored + 200).contains(&(3 << 20));
    assert!(is_once(clean(&volume, "stored_bytes")));
    let status = volume.text("status");
    assert!(status.contains("(2.0 : 1)"), "{status}");
    volume.text("create --plain /dir/plain");
    let stat = volume.json("stat /dir/plain --json");
    assert_eq!(stat[0]["layout"]["storage"], "plain");
    volume.text("rm /dir/one");
    assert_eq!(volume.run("cat /dir/two".split(' ')), data);
    volume.text("checkpoint create /dir/two kept");
    volume.text("truncate --size 0 /dir/two");
    let stored = clean(&volume, "stored_bytes");
    assert!(is_once(stored), "the checkpoint has them");
    volume.text("checkpoint rollback /dir/two kept");
    assert_eq!(volume.run("cat /dir/two".split(' ')), data);
    // What comes in shares its chunks, and goes out again.
    let folder = tempfile::tempdir().unwrap();
    let [local, out] = ["local", "out"].map(|name| folder.path().join(name));
    std::fs::write(&local, &data).unwrap();
    let stored = clean(&volume, "stored_bytes");
    volume.text(&format!("import {} /dir/in --verify", local.display()));
    assert_eq!(clean(&volume, "stored_bytes"), stored);
    volume.text(&format!("export /dir/in {} --verify", out.display()));
    assert!(std::fs::read(out).unwrap() == data);
    volume.text("fsck");
    volume.text("fsck --data");
}

#[test]
fn acknowledged_writes_survive_kill_9_of_servers_and_the_cleaner_beside_them() {
    let volume = Volume::up();
    volume.text("create --addressed --chunk 16KiB --bsu 10000 /file");
    let mut random = SmallRng::seed_from_u64(5);
    let length = 40 * CHUNK;
    let mut wanted = bytes(9, length);
    volume.feed(&format!("write /file 0:{length}"), &wanted);
    for round in 0..30_u64 {
        // Some contents come again, and pieces cross the bounds of chunks.
        let at = random.random_range(0..length - 3 * CHUNK);
        let piece = bytes(round % 4, random.random_range(1..3 * CHUNK));
        volume.feed(&format!("write /file {at}:{}", piece.len()), &piece);
        wanted[at..at + piece.len()].copy_from_slice(&piece);
        if round % 5 == 4 {
            kill_server(&volume, random.random_range(0..3));
            restart(&volume);
        }
        if round % 3 == 0 {
            clean(&volume, "removed_bytes");
        }
        let found = volume.run("cat /file".split(' '));
        assert!(found == wanted, "round {round}");
    }
    volume.text("fsck --data");
}
