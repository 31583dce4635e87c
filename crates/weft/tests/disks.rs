//! Servers with several disks, and with full ones.

mod files_support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use files_support::{bytes, weft};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// A volume that is stopped on drop.
struct Volume(TempDir);

impl Volume {
    fn up(arguments: &[&str]) -> Volume {
        let volume = Volume(TempDir::new().unwrap());
        fs::create_dir(volume.path("mnt")).unwrap();
        volume.start(arguments);
        volume
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, arguments: &[&str]) {
        let base = self.0.path().to_str().unwrap();
        let arguments = arguments.iter().map(|a| a.replace("BASE", base));
        let up = weft()
            .arg("up")
            .arg(self.path("volume"))
            .args(arguments)
            .output();
        good(&up.unwrap());
    }

    fn down(&self) {
        good(
            &weft()
                .arg("down")
                .arg(self.path("volume"))
                .output()
                .unwrap(),
        );
    }

    fn run(&self, line: &str) -> Output {
        let mut command = weft();
        command.env("WEFT_VOLUME", self.path("volume"));
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn put(&self, name: &str, data: &[u8]) -> Output {
        let mut command = weft();
        command
            .env("WEFT_VOLUME", self.path("volume"))
            .args(["put", name]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails early need not read everything.
        let _ = child.stdin.take().unwrap().write_all(data);
        child.wait_with_output().unwrap()
    }

    /// The states of the first server's disks, and the bytes that they hold.
    fn disks(&self) -> (Option<i32>, Vec<(String, u64)>) {
        let output = self.run("status --json");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let disks = report["servers"][0]["disks"].as_array().unwrap().iter();
        let disks = disks.map(|d| {
            let state = d["state"].as_str().unwrap().to_owned();
            (state, d["used"].as_u64().unwrap())
        });
        (output.status.code(), disks.collect())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = weft().arg("unmount").arg(self.path("mnt")).output();
        let _ = weft().arg("down").arg(self.path("volume")).output();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn good(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

#[test]
fn a_lost_disk_costs_only_its_data_and_another_can_be_added() {
    let folder = TempDir::new().unwrap();
    let device = folder.path().join("device");
    File::create(&device).unwrap().set_len(100_000_000).unwrap();
    let disks = format!("BASE/a,{},BASE/b", device.display());
    let arguments = ["--servers", "1", "--cache", "64M", "--disks", &disks];
    let volume = Volume(TempDir::new().unwrap());
    // A mistyped path does not make a folder on another disk.
    let refused = weft()
        .arg("up")
        .arg(volume.path("volume"))
        .args(arguments.map(|a| a.replace("BASE", volume.0.path().to_str().unwrap())))
        .output()
        .unwrap();
    assert!(!refused.status.success() && text(&refused).contains("mkdir"));
    assert!(!volume.path("a").exists() && !volume.path("volume").exists());
    for name in ["a", "b", "mnt"] {
        fs::create_dir(volume.path(name)).unwrap();
    }
    volume.start(&arguments);
    for n in 0..24 {
        good(&volume.put(&format!("/f{n}"), &bytes(n, MIB / 4)));
    }
    let (code, found) = volume.disks();
    assert_eq!(code, Some(0));
    let states: Vec<&str> = found.iter().map(|d| d.0.as_str()).collect();
    assert_eq!(states, ["no new data", "in use", "in use", "in use"]);
    assert!(
        found[0].1 == 0 && found[1].1 > 0 && found[3].1 > 0,
        "{found:?}"
    );

    // The path of the disk is empty, as if it were not mounted.
    volume.down();
    fs::rename(volume.path("a"), volume.path("away")).unwrap();
    fs::create_dir(volume.path("a")).unwrap();
    volume.start(&[]);
    let (code, found) = volume.disks();
    assert_eq!((code, found[1].0.as_str()), (Some(1), "missing"));
    let checked = volume.run("fsck");
    assert_eq!(checked.status.code(), Some(4));
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        said.contains("disk 1") && said.contains("missing"),
        "{said}"
    );
    let mut lost = 0;
    for n in 0..24 {
        let read = volume.run(&format!("cat /f{n}"));
        if read.status.success() {
            assert!(read.stdout == bytes(n, MIB / 4));
        } else {
            let error = text(&read);
            assert!(
                error.contains("disk 1") && error.contains("chunk"),
                "{error}"
            );
            lost += 1;
        }
    }
    assert!(lost > 0 && lost < 24, "{lost} of 24 were lost");
    good(&volume.put("/new", &bytes(100, MIB)));

    // The lost disk is back and a disk was added.
    volume.down();
    fs::remove_dir_all(volume.path("a")).unwrap();
    fs::rename(volume.path("away"), volume.path("a")).unwrap();
    let config = volume.path("volume/weft.toml");
    let toml = fs::read_to_string(&config).unwrap();
    let added = volume.path("c");
    let toml = toml.replace(
        "disks = [",
        &format!("disks = [{:?}, ", added.display().to_string()),
    );
    fs::write(&config, toml).unwrap();
    let mut format = weft();
    let told = format
        .args(["format", "--new-disks", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    good(&told);
    assert!(String::from_utf8_lossy(&told.stdout).contains("disk 4"));
    volume.start(&[]);
    let (code, found) = volume.disks();
    assert_eq!((code, found.len()), (Some(0), 5), "{found:?}");
    for n in 0..24 {
        let read = volume.run(&format!("cat /f{n}"));
        assert!(read.stdout == bytes(n, MIB / 4), "{}", text(&read));
    }
}

#[test]
fn a_disk_belongs_to_one_server_and_is_named_once() {
    let volume = Volume(TempDir::new().unwrap());
    for name in ["a", "b"] {
        fs::create_dir(volume.path(name)).unwrap();
    }
    let disks = [
        "--servers",
        "1",
        "--cache",
        "64M",
        "--disks",
        "BASE/a,BASE/b/../a",
    ];
    let base = volume.0.path().to_str().unwrap();
    let twice = weft()
        .arg("up")
        .arg(volume.path("volume"))
        .args(disks.map(|a| a.replace("BASE", base)))
        .output()
        .unwrap();
    assert!(
        !twice.status.success() && text(&twice).contains("twice"),
        "{}",
        text(&twice)
    );
    assert!(!volume.path("volume").exists());
    // A good disk is not taken into use if another is refused: the second of two servers has no
    // good disk.
    fs::write(volume.path("b").join("precious"), "bytes").unwrap();
    let up = |disks: &str| {
        let disks = disks.replace("BASE", base);
        let arguments = ["--servers", "2", "--cache", "64M", "--disks", &disks];
        let mut up = weft();
        up.arg("up").arg(volume.path("volume")).args(arguments);
        up.output().unwrap()
    };
    let refused = up("BASE/a,BASE/b");
    assert!(
        !refused.status.success() && text(&refused).contains("holds \"precious\""),
        "{}",
        text(&refused)
    );
    assert!(!volume.path("volume").exists());
    fs::create_dir(volume.path("c")).unwrap();
    good(&up("BASE/a,BASE/c"));
}

#[test]
fn a_truncated_disk_costs_only_the_missing_data() {
    let volume = Volume(TempDir::new().unwrap());
    for name in ["a", "b", "mnt"] {
        fs::create_dir(volume.path(name)).unwrap();
    }
    let device = volume.path("device");
    File::create(&device).unwrap().set_len(100_000_000).unwrap();
    volume.start(&[
        "--servers",
        "1",
        "--cache",
        "64M",
        "--disks",
        "BASE/a,BASE/device,BASE/b",
    ]);
    for n in 0..24 {
        good(&volume.put(&format!("/f{n}"), &bytes(n, MIB / 4)));
    }
    volume.down();
    let lost = || {
        let read = (0..24).map(|n| (n, volume.run(&format!("cat /f{n}"))));
        let lost = read.filter(|(n, read)| {
            assert!(
                !read.status.success() || read.stdout == bytes(*n, MIB / 4),
                "a wrong byte of /f{n}"
            );
            !read.status.success()
        });
        lost.count()
    };

    // First a label without blocks, then a device with nothing attached.
    for (number, what, word) in [(1, "a/data", "gone"), (2, "device", "2 MiB")] {
        fs::rename(volume.path(what), volume.path("away")).unwrap();
        if number == 2 {
            File::create(&device).unwrap();
        }
        volume.start(&[]);
        let (code, found) = volume.disks();
        assert_eq!(
            (code, found[number].0.as_str()),
            (Some(1), "missing"),
            "{what}"
        );
        let status = volume.run("status");
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(said.contains(word), "{said}");
        // The device is so small compared with the others that it may hold nothing.
        let (some, least) = (lost(), usize::from(number == 1));
        assert!((least..24).contains(&some), "{what}: {some}");
        volume.down();
        fs::rename(volume.path("away"), volume.path(what)).unwrap();
        volume.start(&[]);
        assert_eq!(lost(), 0, "{what}");
        volume.down();
    }

    let data = OpenOptions::new()
        .write(true)
        .open(volume.path("b/data"))
        .unwrap();
    data.set_len(MIB as u64 / 2).unwrap();
    let mut up = weft();
    assert!(
        !up.arg("up")
            .arg(volume.path("volume"))
            .output()
            .unwrap()
            .status
            .success()
    );
    let fsck = |arguments: &[&str]| {
        let mut fsck = weft();
        let done = fsck
            .arg("fsck")
            .arg("--offline")
            .arg(volume.path("volume"))
            .args(arguments);
        let done = done.output().unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).into_owned() + &text(&done),
        )
    };
    let (code, said) = fsck(&["--repair"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("disk 3"), "{said}");
    // From now on the loss is known.
    let (code, said) = fsck(&[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("are lost") && !said.contains("disk 3"),
        "{said}"
    );
    volume.start(&[]);
    assert!((1..24).contains(&lost()));
    good(&volume.put("/f0", &bytes(0, MIB / 4)));
}

/// A real block device, backed by a file.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Loop {
        let mut losetup = Command::new("losetup");
        let made = losetup.args(["--find", "--show"]).arg(image).output();
        let made = made.unwrap();
        good(&made);
        Loop(String::from_utf8_lossy(&made.stdout).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).output();
    }
}

#[test]
fn a_block_device_is_used_by_one_server_only() {
    if !Path::new("/dev/loop-control").exists() || !rustix::process::geteuid().is_root() {
        println!("SKIPPED: this needs root and /dev/loop-control");
        return;
    }
    let folder = TempDir::new().unwrap();
    let image = folder.path().join("image");
    // Not a power of two, and not a multiple of a block.
    File::create(&image).unwrap().set_len(100_000_256).unwrap();
    let device = Loop::new(&image);
    let arguments = ["--servers", "1", "--cache", "64M", "--disks", &device.0];
    let volume = Volume::up(&arguments);
    for n in 0..8 {
        good(&volume.put(&format!("/f{n}"), &bytes(n, MIB + 1234)));
    }
    let (code, found) = volume.disks();
    assert_eq!((code, found[1].0.as_str()), (Some(0), "in use"));
    assert!(found[0].1 == 0 && found[1].1 >= 8 * MIB as u64, "{found:?}");
    let thief = weft()
        .arg("up")
        .arg(folder.path().join("thief"))
        .args(arguments)
        .output();
    let thief = thief.unwrap();
    assert!(!thief.status.success(), "two servers have one device");
    volume.down();
    volume.start(&[]);
    for n in 0..8 {
        let read = volume.run(&format!("cat /f{n}"));
        assert!(read.stdout == bytes(n, MIB + 1234), "{}", text(&read));
    }
    // Freed space returns to the device, and through it to the image.
    let taken = || fs::metadata(&image).unwrap().blocks() * 512 / MIB as u64;
    good(&volume.put("/more", &bytes(10, 60 * MIB)));
    assert!(taken() >= 60, "{} MiB", taken());
    good(&volume.run("rm /more"));
    let small = (0..40).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        good(&volume.run("trim"));
        taken() < 50
    });
    assert!(small.is_some(), "{} MiB", taken());
    for n in 0..8 {
        let read = volume.run(&format!("cat /f{n}"));
        assert!(read.stdout == bytes(n, MIB + 1234), "{}", text(&read));
    }
    let put = volume.put("/large", &bytes(9, 120 * MIB));
    assert!(text(&put).contains("no space"), "{}", text(&put));
    good(&volume.run("cat /f0"));
}

#[test]
fn a_full_volume_refuses_writes_that_do_not_fit_and_allows_deletes() {
    let volume = Volume::up(&["--servers", "2", "--cache", "64M", "--capacity", "32M"]);
    // Data of a failed command is freed when its file is removed, without waiting for the command
    // to reconnect.
    let failed = volume.put("/large", &bytes(7, 70 * MIB));
    assert!(
        !failed.status.success() && text(&failed).contains("no space"),
        "{}",
        text(&failed)
    );
    good(&volume.run("rm /large"));
    let put = (0..40).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        volume.put("/second", &bytes(7, 48 * MIB)).status.success()
    });
    assert!(
        put.is_some(),
        "the space of the failed command is not freed"
    );
    good(&volume.run("rm /second"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let data = bytes(7, 5 * MIB);
    let full = (0..40).find(|n| {
        let put = volume.put(&format!("/f{n}"), &data);
        assert!(
            put.status.success() || text(&put).contains("no space"),
            "{}",
            text(&put)
        );
        !put.status.success()
    });
    let full = full.expect("40 files of 5 MiB do not fit in 64 MiB");
    assert!(full >= 8, "only {full} files of 5 MiB fit");
    good(&volume.run(&format!("rm /f{full}")));
    good(&volume.run("checkpoint create /f0 before"));
    // Existing data is complete; truncating, and deleting files and checkpoints, work.
    assert!(volume.run("cat /f0").stdout == data);
    let more = volume.put("/f0", &bytes(8, 5 * MIB));
    let more = more.status.success() || text(&more).contains("no space");
    assert!(more);
    good(&volume.run("truncate --size 1000000 /f1"));
    good(&volume.run("checkpoint delete /f0 before"));
    good(&volume.run("rm /f0 /f2 /f3"));
    let again = (0..100).find_map(|_| {
        // Space is freed in the background.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let put = volume.put("/again", &data);
        put.status.success().then_some(())
    });
    again.expect("deleting frees space");
    assert!(volume.run("cat /again").stdout == data);
}

#[test]
fn a_full_volume_returns_enospc_through_a_mount() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("SKIPPED: this needs root and /dev/fuse");
        return;
    }
    let arguments = ["--servers", "1", "--cache", "64M", "--capacity", "32M"];
    let volume = Volume::up(&[&arguments[..], &["--mount", "BASE/mnt"]].concat());
    let fill = |name: &str| -> std::io::Result<()> {
        let mut file = File::create(volume.path("mnt").join(name))?;
        for n in 0..64 {
            file.write_all(&bytes(n, MIB))?;
        }
        file.sync_all()
    };
    let error = fill("large").unwrap_err();
    let no_space = rustix::io::Errno::NOSPC.raw_os_error();
    assert_eq!(error.raw_os_error(), Some(no_space), "{error}");
    fs::remove_file(volume.path("mnt/large")).unwrap();
    let again = (0..100).find(|n| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let path = volume.path("mnt").join(format!("small{n}"));
        let written = File::create(path).and_then(|mut f| {
            f.write_all(&bytes(1, 8 * MIB))?;
            f.sync_all()
        });
        written.is_ok()
    });
    assert!(again.is_some(), "deleting frees space");
}

#[test]
fn a_full_metadata_disk_stops_only_growth_and_only_while_it_is_full() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: this needs root");
        return;
    }
    let volume = Volume::up(&["--servers", "1", "--cache", "64M", "--capacity", "64M"]);
    volume.down();
    let (namespace, away) = (volume.path("volume/meta"), volume.path("away"));
    fs::rename(&namespace, &away).unwrap();
    fs::create_dir(&namespace).unwrap();
    fs::remove_file(away.join("namespace/weft.reserve")).unwrap();
    let _small = SmallDisk::mount(&volume, &namespace);
    let mut copy = Command::new("cp");
    good(
        &copy
            .args(["-a", "--sparse=always"])
            .arg(away.join("."))
            .arg(&namespace)
            .output()
            .unwrap(),
    );
    volume.start(&[]);
    good(&volume.run("mkdir /d"));
    for n in 0..8 {
        good(&volume.put(&format!("/d/f{n}"), &bytes(n, MIB)));
    }

    // Another program takes all the space.
    let filler = namespace.join("filler");
    fill(&filler);
    // The last measurement counts for a moment.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let refused = volume.run("mkdir /new");
    assert!(text(&refused).contains("no space"), "{}", text(&refused));
    let refused = volume.put("/d/new", b"new");
    assert!(text(&refused).contains("no space"), "{}", text(&refused));
    // Existing files are read, truncated, moved and deleted.
    assert!(volume.run("cat /d/f1").stdout == bytes(1, MIB));
    good(&volume.run("mv /d/f2 /d/moved"));
    good(&volume.run("truncate --size 1000 /d/f3"));
    good(&volume.run("rm /d/f4 /d/moved"));

    fs::remove_file(filler).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    good(&volume.run("mkdir /new"));
    good(&volume.put("/new/file", &bytes(9, MIB)));
    assert!(volume.run("cat /new/file").stdout == bytes(9, MIB));
}

/// A file system of 96 MiB in memory.
struct SmallDisk<'a>(&'a Volume, PathBuf);

impl<'a> SmallDisk<'a> {
    fn mount(volume: &'a Volume, at: &Path) -> SmallDisk<'a> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=96m", "weft-test"]);
        good(&mount.arg(at).output().unwrap());
        SmallDisk(volume, at.to_owned())
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Without the files here, `weft down` does not know that the metadata service runs.
        let _ = weft().arg("down").arg(self.0.path("volume")).output();
        let _ = Command::new("umount").arg("-l").arg(&self.1).output();
    }
}

/// Writes until the disk is full.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let error = loop {
        if let Err(error) = file.write_all(&[1; 4096]) {
            break error;
        }
    };
    let no_space = rustix::io::Errno::NOSPC.raw_os_error();
    assert_eq!(error.raw_os_error(), Some(no_space), "{error}");
}
