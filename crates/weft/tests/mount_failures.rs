//! Mounts whose process or volume dies, and commands that cannot succeed.

mod mount_support;

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mount_support::{Mounted, kill, wait_until, weft, weft_ok};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_next_mount_replaces_one_whose_process_was_killed() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"closed").unwrap();
    // The kernel remembers the attributes for a while, also those of a dead mount.
    fs::metadata(&m.path).unwrap();
    kill(m.process());
    wait_until("the mount is dead", || rustix::fs::statfs(&m.path).is_err());
    let volume = m.volume.to_str().unwrap();
    let output = weft(&["--volume", volume, "mount", m.path.to_str().unwrap()]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("was gone"));
    assert_eq!(fs::read(m.file("f")).unwrap(), b"closed");
}

#[test]
fn a_dead_volume_gives_errors_soon_and_no_program_hangs() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"x").unwrap();
    for pid in m.nodes() {
        kill(pid);
    }
    let start = Instant::now();
    let error = fs::write(m.file("g"), b"y").unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error()),
        "{error}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    // From now on the outage is known.
    let start = Instant::now();
    assert!(fs::read_dir(m.file("other")).is_err());
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    weft_ok(&["up", m.volume.to_str().unwrap()]);
    wait_until("the mount works again", || {
        fs::read(m.file("f")).is_ok_and(|data| data == b"x")
    });
}

/// A program that will wait for the volume. It runs in a separate directory, where no other process
/// holds the kernel's lock, and begins when its standard input ends.
fn waiting(directory: &Path, program: &str) -> Child {
    let mut command = Command::new("sh");
    let script = format!("echo; read -r _; exec {program} > /dev/null");
    command.args(["-c", &script]).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // By then the shell itself has accessed the directory.
    let mut line = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    child
}

/// Starts programs and kills them while they wait: each must end then, long before the calls would
/// time out.
fn begin_and_kill(children: Vec<(Child, &str)>) {
    let mut children = children;
    for (child, program) in &mut children {
        drop(child.stdin.take());
        let comm = format!("/proc/{}/comm", child.id());
        let name = program.split(' ').next().unwrap();
        wait_until("the program has begun", || {
            fs::read_to_string(&comm).unwrap().trim() == name
        });
    }
    std::thread::sleep(Duration::from_millis(300));
    for (child, program) in &mut children {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{program} does not wait: {ended:?}");
    }
    for (mut child, program) in children {
        let start = Instant::now();
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{program}");
        // Four times the promised time, half of the timeout.
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{program}: {took:?}");
    }
}

#[test]
fn a_program_that_waits_for_a_dead_volume_can_be_killed() {
    let Some(m) = Mounted::new() else { return };
    let child = waiting(&m.path, "cat f");
    for pid in m.nodes() {
        kill(pid);
    }
    begin_and_kill(vec![(child, "cat f")]);
}

#[test]
fn a_program_waiting_for_a_frozen_volume_can_be_killed_in_any_call() {
    let Some(m) = Mounted::new() else { return };
    let programs = [
        "stat missing",
        "ls d",
        "touch new",
        "mkdir e",
        "mv -T d moved",
        "rm f",
        // The kernel's cache has nothing of the file.
        "dd if=f iflag=direct bs=1M of=out",
        "dd if=/dev/zero of=f bs=1M count=1 conv=notrunc,fsync",
        "truncate -s 5 f",
        "setfattr -n user.colour -v blue f",
        "flock locked true",
    ];
    // In directories that it created, this mount knows all names without a request.
    let other = m.further("other", "");
    let locked = other.join("locked");
    fs::write(&locked, b"").unwrap();
    let mut children = Vec::new();
    for (number, program) in programs.into_iter().enumerate() {
        let number = number.to_string();
        let made = other.join(&number);
        fs::create_dir_all(made.join("d")).unwrap();
        fs::write(made.join("f"), vec![1; 300_000]).unwrap();
        fs::write(made.join("out"), b"").unwrap();
        fs::hard_link(&locked, made.join("locked")).unwrap();
        children.push((waiting(&m.file(&number), program), program));
    }
    let locked = fs::File::open(locked).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let nodes = m.nodes();
    stop(&nodes, true);
    begin_and_kill(children);
    stop(&nodes, false);
    // Requests of killed programs may or may not have been done; other programs continue.
    wait_until("the mount works again", || {
        fs::read(m.file("0/f")).is_ok_and(|data| data.len() == 300_000)
    });
}

/// Stops processes, or continues them.
fn stop(pids: &[i32], still: bool) {
    for pid in pids {
        let signal = if still { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap();
    }
}

#[test]
fn cached_attributes_expire_while_the_service_is_frozen() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"x").unwrap();
    let known = || fs::metadata(m.file("f"));
    let absent = || fs::metadata(m.file("absent"));
    let not_found = |found: std::io::Result<fs::Metadata>| {
        found.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    };
    assert!(known().is_ok() && not_found(absent()));
    let service = [m.nodes()[0]];
    stop(&service, true);
    // Both come from caches for some seconds; then they expire, though the kernel could cache them
    // for a minute.
    wait_until("cached attributes have expired", || known().is_err());
    assert!(!not_found(absent()), "the cached absence has expired, too");
    stop(&service, false);
    wait_until("the mount works again", || {
        known().is_ok() && not_found(absent())
    });
}

#[test]
fn programs_wait_for_a_restarting_service() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"x").unwrap();
    for pid in m.nodes() {
        kill(pid);
    }
    let path = m.file("g");
    let writer = std::thread::spawn(move || fs::write(path, b"patient"));
    std::thread::sleep(Duration::from_millis(500));
    weft_ok(&["up", m.volume.to_str().unwrap()]);
    writer.join().unwrap().unwrap();
    assert_eq!(fs::read(m.file("g")).unwrap(), b"patient");
}

/// The process of a server, or of the metadata service.
fn process_of(m: &Mounted, role: &str, number: Option<&str>) -> i32 {
    let is = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let line = String::from_utf8_lossy(&line).into_owned();
        let id = number.map(|n| format!("--server\0{n}\0"));
        line.contains(&format!("--role\0{role}\0")) && id.is_none_or(|id| line.contains(&id))
    };
    m.nodes().into_iter().find(is).unwrap()
}

fn took<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (call(), start.elapsed())
}

/// A dead server, and a frozen one: the first call to it fails within ten seconds, later ones at
/// once; other services are still waited for; and everything works within a second of its return.
#[test]
fn an_unavailable_server_delays_one_call_and_is_used_within_a_second_of_its_return() {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    let Some(m) = Mounted::with_options("strict") else {
        return;
    };
    let mut start = starting(&m.volume);
    let mut options = fs::File::options();
    // Long enough that every call needs both servers.
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .open(m.file("f"));
    let file = file.unwrap();
    let data = vec![7; 4 << 20];
    file.write_all_at(&data, 0).unwrap();
    file.sync_all().unwrap();
    let log = || {
        let logs = fs::read_dir(m.volume.join("log")).unwrap().flatten();
        let mount = logs.filter(|e| e.file_name().to_string_lossy().starts_with("mount"));
        mount
            .map(|e| fs::read_to_string(e.path()).unwrap())
            .collect::<String>()
    };
    let write = || took(|| file.write_all_at(&data, 0).map_err(|e| e.raw_os_error()));
    let read = || {
        let mut buffer = vec![0; data.len()];
        took(|| {
            file.read_exact_at(&mut buffer, 0)
                .map_err(|e| e.raw_os_error())
        })
    };
    let eio = Err(Some(libc::EIO));
    let server = process_of(&m, "io", Some("1"));
    kill(server);
    let (first, time) = write();
    assert_eq!(first, eio);
    assert!(time < Duration::from_secs(10), "{time:?}");
    for _ in 0..3 {
        for (next, time) in [write(), read()] {
            assert_eq!(next, eio);
            assert!(time < Duration::from_millis(500), "{time:?}");
        }
    }
    assert!(log().contains("waiting for server 1 at"), "{}", log());
    // The service is stopped, too, and returns with the server: a call that needs it waits.
    kill(process_of(&m, "meta", None));
    let names = m.path.clone();
    let listing = std::thread::spawn(move || fs::metadata(names.join("missing")));
    std::thread::sleep(Duration::from_millis(300));
    start.stdin.take().unwrap().write_all(b"now\n").unwrap();
    let missing = listing.join().unwrap().unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(write().0, Ok(()));
    assert_eq!(read().0, Ok(()));
    assert!(
        log().contains("server 1 at") && log().contains("answers again"),
        "{}",
        log()
    );
    // The next outage is waited for again, and one with a silent server times out, too.
    let server = [process_of(&m, "io", Some("1"))];
    stop(&server, true);
    let (first, time) = read();
    assert_eq!(first, eio);
    assert!(time < Duration::from_secs(10), "{time:?}");
    let (next, time) = write();
    assert_eq!(next, eio);
    assert!(time < Duration::from_millis(500), "{time:?}");
    stop(&server, false);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(write().0, Ok(()));
    assert!(start.wait().unwrap().success());
}

/// A process that starts the stopped nodes of a volume when it reads a line.
fn starting(volume: &Path) -> Child {
    let script = format!(
        "read -r _ && exec {} up {}",
        env!("CARGO_BIN_EXE_weft"),
        volume.display()
    );
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Open descriptors survive a restart of the service: of files with cells, small files, an unlinked
/// file and a directory.
#[test]
fn open_files_survive_restarts_of_the_service_the_servers_and_both() {
    use std::io::Write;
    use std::os::unix::fs::{FileExt, MetadataExt};

    let Some(m) = Mounted::new() else { return };
    // Started before anything is open: a new child process closes inherited descriptors, and would
    // wait for the volume.
    let starts = [(); 3].map(|()| starting(&m.volume));
    let open = |name| {
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create(true);
        options.open(m.file(name)).unwrap()
    };
    fs::create_dir(m.file("d")).unwrap();
    let [large, small, nameless] = ["large", "small", "d/nameless"].map(open);
    fs::remove_file(m.file("d/nameless")).unwrap();
    let directory = fs::File::open(m.file("d")).unwrap();
    let files = [(&large, 1 << 20), (&small, 100), (&nameless, 300_000)];
    for (file, length) in files {
        file.write_all_at(&vec![1; length], 0).unwrap();
        file.sync_all().unwrap();
    }
    rustix::fs::flock(&large, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let serves = |pid: &i32, role: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        String::from_utf8_lossy(&line).contains(&format!("--role\0{role}\0"))
    };
    let killed: [&[&str]; 3] = [&["meta"], &["io"], &["meta", "io"]];
    for (round, (roles, mut start)) in killed.into_iter().zip(starts).enumerate() {
        let value = round as u8 + 2;
        let mut nodes = m.nodes();
        nodes.retain(|pid| roles.iter().any(|role| serves(pid, role)));
        assert_eq!(nodes.len(), [1, 2, 3][round]);
        nodes.into_iter().for_each(kill);
        let other = m.file(&format!("d/{round}"));
        let patient = std::thread::scope(|scope| {
            // The calls begin while no node runs.
            let patient = scope.spawn(|| {
                let of = |name, result: std::io::Result<()>| {
                    result.map_err(|error| format!("{name} in round {round}: {error}"))
                };
                for ((file, length), name) in files.into_iter().zip(["large", "small", "nameless"])
                {
                    of(name, file.write_all_at(&[value; 50], length as u64 / 2))?;
                    of(name, file.sync_all())?;
                }
                of("a new one", fs::write(&other, b"made"))
            });
            std::thread::sleep(Duration::from_millis(200));
            start.stdin.take().unwrap().write_all(b"now\n").unwrap();
            patient.join().unwrap()
        });
        assert!(start.wait().unwrap().success());
        patient.unwrap();
        for (file, length) in files {
            let mut bytes = vec![0; length + 1];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), length);
            let half = length / 2;
            assert!(bytes[..half].iter().all(|byte| *byte == 1), "{round}");
            assert!(bytes[half..half + 50].iter().all(|byte| *byte == value));
            assert!(bytes[half + 50..length].iter().all(|byte| *byte == 1));
            assert_eq!(file.metadata().unwrap().len(), length as u64);
        }
        assert_eq!(nameless.metadata().unwrap().nlink(), 0);
        directory.sync_all().unwrap();
        assert_eq!(fs::read_dir(m.file("d")).unwrap().count(), round + 1);
        // The file still holds its lock.
        let other = fs::File::open(m.file("large")).unwrap();
        let tried = rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        assert_eq!(tried.unwrap_err(), rustix::io::Errno::WOULDBLOCK);
    }
    drop((large, small, nameless, directory));
    m.unmount();
}

/// In a private table of mounts, without the device, or with a file in its place.
#[test]
fn a_missing_fuse_device_is_reported() {
    let Some(m) = Mounted::new() else { return };
    let path = m.beside("here");
    let folder = m.beside("empty");
    fs::write(folder.join("null"), b"").unwrap();
    let folder = folder.display();
    for hide in [
        format!("mount --bind /dev/null {folder}/null && mount --bind {folder} /dev"),
        format!("touch {folder}/null && mount --bind {folder}/null /dev/fuse"),
    ] {
        let script = format!(
            "{hide} && exec {} --volume {} mount {}",
            env!("CARGO_BIN_EXE_weft"),
            m.volume.display(),
            path.display()
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{hide}");
        assert!(words.contains("/dev/fuse"), "{hide}: {words}");
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_busy_mount_names_the_processes_that_use_it() {
    let Some(m) = Mounted::new() else { return };
    let file = fs::File::create(m.file("f")).unwrap();
    let output = weft(&["unmount", m.path.to_str().unwrap()]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        words.contains(&format!("process {}", std::process::id())) && words.contains("--lazy"),
        "{words}"
    );
    drop(file);
    m.unmount();
}

#[test]
fn down_refuses_foreign_mounts_and_unmounts_its_own() {
    let Some(m) = Mounted::new() else { return };
    let (volume, path) = (m.volume.to_str().unwrap(), m.path.to_str().unwrap());
    let output = weft(&["down", volume]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("weft unmount"));
    m.unmount();
    weft_ok(&["down", volume]);
    weft_ok(&["up", volume, "--mount", path]);
    fs::write(m.file("f"), b"there").unwrap();
    // A second `up` is not an error and changes nothing.
    assert!(weft_ok(&["up", volume, "--mount", path]).contains("was mounted on"));
    assert_eq!(fs::read(m.file("f")).unwrap(), b"there");
    weft_ok(&["down", volume]);
    assert!(!m.file("f").exists());
    weft_ok(&["up", volume]);
    assert_eq!(weft_ok(&["--volume", volume, "cat", "/f"]), "there");
}

#[test]
fn down_refuses_a_mount_by_any_name_or_address() {
    let Some(m) = Mounted::new() else { return };
    let (volume, path) = (m.volume.to_str().unwrap(), m.path.to_str().unwrap());
    m.unmount();
    let address = fs::read_to_string(m.volume.join("volume.address")).unwrap();
    let port = address.trim().rsplit_once(':').unwrap().1;
    let (address, other) = (address.trim(), format!("localhost:{port}"));
    let key = m.volume.join("volume.key");
    let by = |address| ["--address", address, "--key-file", key.to_str().unwrap()];
    let folder = ["--volume", volume];
    let log = format!("log={volume}/log/mount.log");
    for (volume_is, options) in [
        (&folder[..], "fsname=grid"),
        (&by(address), &log),
        (&by(&other), &log),
        (&by(&other), &format!("fsname=/nowhere,{log}")),
    ] {
        let mount = ["mount", path, "-o", options];
        weft_ok(&[volume_is, &mount].concat());
        let output = weft(&["down", volume]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{volume_is:?} {options}");
        assert!(words.contains(&format!("weft unmount {path}")), "{words}");
        fs::write(m.file("f"), options).unwrap();
        m.unmount();
    }
    // The command does not confuse another volume with this one, whatever its name.
    let another = Mounted::with_options(&format!("fsname={volume}")).unwrap();
    weft_ok(&["down", volume]);
    fs::write(another.file("f"), b"goes on").unwrap();
}

#[test]
fn the_log_of_a_mount_names_files_by_their_paths() {
    use std::io::Write;

    let Some(m) = Mounted::new() else { return };
    fs::create_dir_all(m.file("a/b")).unwrap();
    fs::write(m.file("a/b/older"), b"x").unwrap();
    fs::rename(m.file("a/b/older"), m.file("a/b/renamed")).unwrap();
    for pid in [
        process_of(&m, "io", Some("0")),
        process_of(&m, "io", Some("1")),
    ] {
        kill(pid);
    }
    for file in ["a/b/new", "a/b/renamed"] {
        let file = fs::File::create(m.file(file)).unwrap();
        (&file).write_all(&vec![7; 1 << 20]).unwrap();
        assert!(file.sync_all().is_err());
    }
    let name = format!("mount{}.log", m.path.to_str().unwrap().replace('/', "-"));
    let said = fs::read_to_string(m.volume.join("log").join(name)).unwrap();
    let lost: Vec<&str> = said.lines().filter(|l| l.contains("are lost")).collect();
    for path in ["/a/b/new", "/a/b/renamed"] {
        let of = format!(" of {path} (file ");
        assert!(lost.iter().any(|line| line.contains(&of)), "{said}");
        assert!(
            said.contains(&format!(": write {path} on server ")),
            "{said}"
        );
    }
    assert!(!said.contains("in directory "), "{said}");
}

#[test]
fn a_mount_by_address_has_a_log_that_names_the_server_it_waits_for() {
    let Some(m) = Mounted::new() else { return };
    m.unmount();
    let (volume, path) = (m.volume.to_str().unwrap(), m.path.to_str().unwrap());
    let address = fs::read_to_string(m.volume.join("volume.address")).unwrap();
    let key = m.volume.join("volume.key");
    let mount = |options| {
        let by = ["--address", address.trim(), "--key-file"];
        let on = [key.to_str().unwrap(), "mount", path, "-o", options];
        weft_ok(&[&by[..], &on].concat());
    };
    let name = format!("mount{}.log", path.replace('/', "-"));
    let log = Path::new("/var/log/weft").join(name);
    mount("");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let source = format!("source={}", address.trim());
    assert!(said().contains(&source), "{}: {}", log.display(), said());
    kill(m.nodes()[1]);
    // In another process: a child of this one would wait when it closes inherited descriptors.
    let script = "head -c 4M /dev/zero > f && sync f";
    let mut writes = Command::new("bash")
        .args(["-c", script])
        .current_dir(path)
        .spawn()
        .unwrap();
    wait_until("the log names the server that the mount waits for", || {
        said().contains("waiting for server 0 at ")
    });
    weft_ok(&["up", volume]);
    assert!(writes.wait().unwrap().success());
    wait_until("the log reports that the server is back", || {
        said().contains("server 0 at ") && said().contains("answers again")
    });
    m.unmount();
    fs::remove_file(&log).unwrap();
    let elsewhere = m.beside("logs").join("own.log");
    mount(&format!("log={}", elsewhere.display()));
    m.unmount();
    assert!(fs::read_to_string(elsewhere).unwrap().contains("mounted"));
    assert!(!log.exists());
}

#[test]
fn impossible_mounts_explain_why() {
    let Some(m) = Mounted::new() else { return };
    let volume = m.volume.to_str().unwrap();
    let beside = m.beside("dir");
    fs::write(beside.join("file"), b"").unwrap();
    for (path, options, word) in [
        (m.path.clone(), "", "already"),
        (beside.join("missing"), "", "mkdir"),
        (beside.join("file"), "", "not a directory"),
        (beside.clone(), "fast", "no mount option"),
    ] {
        let output = weft(&[
            "--volume",
            volume,
            "mount",
            path.to_str().unwrap(),
            "-o",
            options,
        ]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(word), "{words}");
    }
    let output = weft(&["unmount", beside.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no volume is mounted"));
}

#[test]
fn a_strict_mount_sees_writes_of_another_at_once() {
    use std::io::Write;
    let Some(m) = Mounted::with_options("strict") else {
        return;
    };
    let other = m.further("other", "strict");
    let mut writer = fs::File::create(m.file("f")).unwrap();
    let reader = {
        writer.write_all(b"one").unwrap();
        fs::File::open(other.join("f")).unwrap()
    };
    for round in 0..10_u64 {
        writer.write_all(b"more").unwrap();
        let mut buffer = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&reader, &mut buffer, 3 + 4 * round).unwrap();
        assert_eq!(&buffer, b"more");
        assert_eq!(reader.metadata().unwrap().len(), 7 + 4 * round);
    }
}

/// Every child process closes inherited descriptors and ignores the result of close.
#[test]
fn a_loss_reported_to_a_childs_close_is_still_reported_by_fsync() {
    use std::os::unix::fs::FileExt;

    let Some(m) = Mounted::new() else { return };
    let path = m.file("f");
    let file = fs::File::create(&path).unwrap();
    file.write_all_at(&vec![b'A'; 1_000_000], 0).unwrap();
    file.sync_all().unwrap();
    let copy = file.try_clone().unwrap();
    for pid in m.nodes() {
        kill(pid);
    }
    file.write_all_at(&vec![b'B'; 500_000], 0).unwrap();
    // This one ignores it.
    drop(copy);
    weft_ok(&["up", m.volume.to_str().unwrap()]);
    let error = file.sync_all().unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    file.sync_all().unwrap();
}
