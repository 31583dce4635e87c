//! Consistency policies of mounts, directories and files, as programs see them.

mod mount_support;

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use mount_support::{Mounted, sh, weft, weft_ok};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, getxattr, removexattr, setxattr};
use rustix::io::Errno;

const POLICY: &str = "user.weft.policy";
const LENGTH: usize = 300_000;

fn policy(path: &Path) -> Result<String, Errno> {
    let mut value = [0; 256];
    let length = getxattr(path, POLICY, &mut value[..])?;
    Ok(String::from_utf8(value[..length].to_vec()).unwrap())
}

fn set(path: &Path, policy: &str) -> Result<(), Errno> {
    setxattr(path, POLICY, policy.as_bytes(), XattrFlags::empty())
}

fn addressed(directory: &Path) {
    let layout = b"storage=addressed chunk=16KiB bsu=16KiB";
    setxattr(directory, "user.weft.layout", layout, XattrFlags::empty()).unwrap();
}

#[test]
fn mounts_with_a_coherent_policy_see_each_others_writes_at_once() {
    let Some(m) = Mounted::with_options("policy=seq-2") else {
        return;
    };
    let other = m.further("other", "policy=seq-2");
    let plain = m.further("plain", "");
    fs::create_dir(m.file("d")).unwrap();
    addressed(&m.file("d"));
    fs::write(m.file("d/f"), vec![0; LENGTH]).unwrap();
    // A plain file under the same mount is there, too.
    fs::write(m.file("p"), b"plain").unwrap();
    assert_eq!(fs::read(other.join("p")).unwrap(), b"plain");
    let open = |path: &Path| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    };
    let files = [m.file("d/f"), other.join("d/f"), plain.join("d/f")].map(|p| open(&p));
    for n in 0..120_usize {
        let (writer, reader) = (&files[n % 3], &files[(n + n / 3) % 2]);
        writer.write_all_at(&vec![n as u8; LENGTH], 0).unwrap();
        if n % 3 == 2 {
            // The mount without a policy keeps what it writes until a sync.
            writer.sync_all().unwrap();
        }
        let mut found = vec![0; LENGTH];
        reader.read_exact_at(&mut found, 0).unwrap();
        assert!(
            found.iter().all(|byte| *byte == n as u8),
            "{n}: {}",
            found[0]
        );
    }
}

#[test]
fn a_policy_is_set_by_attribute_and_command_and_inherited() {
    let Some(m) = Mounted::new() else { return };
    let d = m.file("d");
    fs::create_dir(&d).unwrap();
    assert_eq!(policy(&d), Err(Errno::NODATA));
    assert_eq!(set(&d, "seq-9"), Err(Errno::INVAL));
    set(&d, "for-2").unwrap();
    fs::create_dir(d.join("inside")).unwrap();
    fs::write(d.join("inside/f"), b"x").unwrap();
    assert_eq!(policy(&d.join("inside/f")).unwrap(), "for-2");
    let volume = m.volume.to_str().unwrap();
    let on_volume = |arguments: &[&str]| weft_ok(&[&["--volume", volume], arguments].concat());
    on_volume(&["policy", "nfs", "/d/inside/f"]);
    assert_eq!(policy(&d.join("inside/f")).unwrap(), "nfs");
    assert!(on_volume(&["stat", "/d/inside/f"]).contains("nfs"));
    on_volume(&["policy", "none", "/d/inside/f"]);
    assert_eq!(policy(&d.join("inside/f")), Err(Errno::NODATA));
    removexattr(&d, POLICY).unwrap();
    assert_eq!(policy(&d), Err(Errno::NODATA));
    // Only the owner sets it.
    set(&d, "posix").unwrap();
    sh(
        &m.path,
        "chmod 777 . d; ! setpriv --reuid 1000 --regid 1000 --clear-groups setfattr -n user.weft.policy -v nfs d 2>/dev/null",
    );
    assert_eq!(policy(&d).unwrap(), "posix");
    let list = weft_ok(&["policy"]);
    for name in [
        "posix",
        "seq-1",
        "seq-2",
        "for-1",
        "for-2",
        "rel-1",
        "session",
        "nfs",
        "immutable",
    ] {
        assert!(list.contains(name), "{list}");
    }
    let wrong = weft(&["--volume", volume, "mount", "/nowhere", "-o", "policy=seq"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        !wrong.status.success() && said.contains("there are posix, seq-1"),
        "{said}"
    );
}

#[test]
fn an_immutable_file_is_written_by_the_open_that_makes_it() {
    let Some(m) = Mounted::with_options("policy=immutable") else {
        return;
    };
    let path = m.file("f");
    // An empty one is not written yet.
    fs::File::create(&path).unwrap();
    let volume = m.volume.to_str().unwrap();
    weft_ok(&["--volume", volume, "create", "/g", "--policy", "immutable"]);
    fs::write(m.file("g"), b"first").unwrap();
    assert!(fs::write(m.file("g"), b"again").is_err());
    fs::write(&path, vec![7; LENGTH]).unwrap();
    let again = OpenOptions::new().write(true).open(&path);
    let refused = again.err().and_then(|error| error.raw_os_error());
    assert_eq!(refused, Some(Errno::PERM.raw_os_error()));
    assert!(fs::read(&path).unwrap() == vec![7; LENGTH]);
    fs::remove_file(&path).unwrap();
}

/// Whatever the policy, one mount is one machine to its programs: sizes, writes and truncations
/// show at once in every open of a file.
#[test]
fn opens_of_one_mount_see_sizes_writes_and_truncations_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = format!("policies={}", folder.path().display());
    let Some(m) = Mounted::with_options(&options) else {
        return;
    };
    plug_in(folder.path(), "mine", &delaying(28));
    let policies = [
        "posix", "seq-1", "seq-2", "for-1", "for-2", "rel-1", "session", "nfs", "mine",
    ];
    for name in policies {
        let d = m.file(name);
        fs::create_dir(&d).unwrap();
        addressed(&d);
        set(&d, name).unwrap();
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true);
            options.truncate(false).open(path).unwrap()
        };
        let size = |file: &fs::File| file.metadata().unwrap().len();
        for n in 0..20_u64 {
            let mut file = open(&d.join(format!("new{n}")));
            let length = 1 + n * n * 2003;
            let bytes = vec![n as u8 + 1; length as usize];
            file.write_all_at(&bytes, 0).unwrap();
            assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), length, "{name}");
            file.write_all(b"END").unwrap();
            assert_eq!(size(&file), length + 3, "{name}");
            let mut found = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut found).unwrap();
            assert!(found == [&bytes[..], b"END"].concat(), "{name}, file {n}");
        }
        let path = d.join("shared");
        let opens = [open(&path), open(&path)];
        let read = |file: &fs::File| {
            let mut found = vec![0xee; 2 * LENGTH];
            let length = file.read_at(&mut found, 0).unwrap();
            found.truncate(length);
            found
        };
        let mut expected = vec![b'o'; LENGTH];
        let check = |expected: &[u8], after: &str| {
            for file in &opens {
                assert_eq!(size(file), expected.len() as u64, "{name}: {after}");
                assert!(read(file) == expected, "{name}: {after}");
            }
        };
        for round in 0..2 {
            let (one, two) = (&opens[round], &opens[1 - round]);
            one.write_all_at(&vec![b'o'; LENGTH], 0).unwrap();
            expected.resize(LENGTH, b'o');
            check(&expected, "a write");
            one.set_len(100).unwrap();
            expected.truncate(100);
            check(&expected, "a truncation");
            two.set_len(200_000).unwrap();
            expected.resize(200_000, 0);
            check(&expected, "growth");
            two.write_all_at(b"new", 50_000).unwrap();
            expected[50_000..50_003].copy_from_slice(b"new");
            check(&expected, "a small write");
            // The later write wins, also if a policy delays both.
            one.write_all_at(b"first", 60_000).unwrap();
            two.write_all_at(b"second", 60_002).unwrap();
            one.write_all_at(b"last", 60_006).unwrap();
            expected[60_000..60_010].copy_from_slice(b"fisecolast");
            check(&expected, "writes of both");
            one.write_all_at(b"lost", 210_000).unwrap();
            two.set_len(200_000).unwrap();
            check(&expected, "a truncation of another's write");
            fallocate(one, FallocateFlags::ZERO_RANGE, 49_999, 3).unwrap();
            expected[49_999..50_002].fill(0);
            check(&expected, "a clear");
            sh(&d, "truncate -s 5 shared");
            expected.truncate(5);
            check(&expected, "a truncation by path");
            sh(&d, "printf more >> shared");
            expected.extend_from_slice(b"more");
            check(&expected, "an append by path");
            expected.fill(b'o');
        }
    }
}

/// Compiles a plug-in into the folder of a mount's policies.
fn plug_in(folder: &Path, name: &str, text: &str) {
    let (source, new) = (folder.join("new.c"), folder.join("new"));
    fs::write(&source, text).unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weft-policy/include");
    let include = header.display();
    sh(
        folder,
        &format!("cc -std=c99 -shared -fPIC -I{include} -o new new.c"),
    );
    fs::rename(new, folder.join(format!("{name}.so"))).unwrap();
}

/// A policy that delays writes until a close, and refuses to sync with this errno.
fn delaying(errno: u32) -> String {
    format!(
        "#include \"weft_policy.h\"
        static int pre_sync(struct weft_call *call, void *handle) {{
            (void)handle; call->core->because(call, \"no syncs here\"); return -{errno}; }}
        static const struct weft_policy table = {{ .size = sizeof(struct weft_policy),
            .version = WEFT_POLICY_VERSION, .name = \"mine\", .summary = \"writes leave at a close\",
            .values = {{ .size = sizeof(struct weft_policy_values), .delay_ms = 3600000 }}, .pre_sync = pre_sync }};
        const struct weft_policy *weft_policy(void) {{ return &table; }}"
    )
}

#[test]
fn a_mount_picks_up_and_replaces_plugins_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let options = format!("policies={}", folder.path().display());
    let Some(m) = Mounted::with_options(&options) else {
        return;
    };
    let reader = m.further("reader", "");
    fs::write(m.file("f"), vec![1; LENGTH]).unwrap();
    assert_eq!(set(&m.file("f"), "mine"), Err(Errno::INVAL));
    plug_in(folder.path(), "mine", &delaying(28));
    set(&m.file("f"), "mine").unwrap();
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(m.file("f")).unwrap()
    };
    let byte = |file: &fs::File| {
        let mut found = [0];
        file.read_exact_at(&mut found, 1000).unwrap();
        found[0]
    };
    let file = open();
    let other = fs::File::open(reader.join("f")).unwrap();
    assert_eq!(byte(&other), 1);
    file.write_all_at(&vec![2; LENGTH], 0).unwrap();
    let fresh = || byte(&fs::File::open(reader.join("f")).unwrap());
    // It waits, unless the kernel asks for the size, which sends it.
    assert!([1, 2].contains(&fresh()));
    assert_eq!(byte(&file), 2);
    let refused = file.sync_all().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(28));
    // The file that is open keeps the plug-in that it has.
    plug_in(folder.path(), "mine", &delaying(5));
    let again = open();
    let errno = |file: &fs::File| file.sync_all().unwrap_err().raw_os_error();
    assert_eq!((errno(&file), errno(&again)), (Some(28), Some(5)));
    again.write_all_at(&vec![3; LENGTH], 0).unwrap();
    drop(again);
    assert_eq!(fresh(), 3, "a close sends what waits");
    drop(file);
    // What cannot be loaded is named, and the file is used as one with `posix`.
    fs::write(folder.path().join("mine.so"), "no library").unwrap();
    let list = weft(&["policy", "--policies", folder.path().to_str().unwrap()]);
    let said = String::from_utf8(list.stderr).unwrap();
    assert!(
        !list.status.success() && said.contains("mine.so cannot be used"),
        "{said}"
    );
    let file = open();
    file.write_all_at(&vec![4; LENGTH], 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fresh(), 4);
    assert!(weft_ok(&["policy", "--header"]).contains("WEFT_POLICY_VERSION"));
}

/// What a mount and commands record, the referee judges; commands explain what they would send.
#[test]
fn recorded_runs_are_judged_and_chunks_are_explained() {
    let runs = tempfile::tempdir().unwrap();
    let history = runs.path().join("run");
    let options = format!("policy=seq-2,history={}", history.display());
    let Some(m) = Mounted::with_options(&options) else {
        return;
    };
    let volume = m.volume.to_str().unwrap();
    let on_volume = |arguments: &[&str]| weft_ok(&[&["--volume", volume], arguments].concat());
    on_volume(&[
        "create",
        "/f",
        "--addressed",
        "--chunk",
        "16K",
        "--bsu",
        "16K",
        "--policy",
        "seq-2",
    ]);
    assert!(on_volume(&["stat", "/f"]).contains("seq-2"));
    let data: Vec<u8> = (0..LENGTH as u32)
        .flat_map(|n| (n / 4).to_le_bytes())
        .take(LENGTH)
        .collect();
    fs::write(m.file("f"), &data).unwrap();
    assert!(fs::read(m.file("f")).unwrap() == data);
    let report = weft_ok(&["referee", history.to_str().unwrap()]);
    assert!(
        report.contains("0 violations, 0 reads that relied"),
        "{report}"
    );
    let json = weft_ok(&["referee", history.to_str().unwrap(), "--json"]);
    assert!(json.contains("\"findings\": []"), "{json}");
    // Somebody who did not record changes the file: then bytes are read that nobody wrote.
    let other = m.further("other", "");
    fs::write(other.join("f"), vec![9; LENGTH]).unwrap();
    assert!(fs::read(m.file("f")).unwrap() == vec![9; LENGTH]);
    let wrong = weft(&["referee", history.to_str().unwrap()]);
    let said = String::from_utf8(wrong.stdout).unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        said.contains("violation: /f, cell 0") && said.contains("no recorded client"),
        "{said}"
    );
    let none = weft(&["referee", runs.path().to_str().unwrap()]);
    assert!(
        String::from_utf8(none.stderr)
            .unwrap()
            .contains("WEFT_HISTORY")
    );
    // Of the first contents the servers have every chunk, but for what fills none as a whole.
    let local = runs.path().join("local");
    let mut changed = data.clone();
    changed[20_000] ^= 1;
    fs::write(&local, &changed).unwrap();
    let local = local.to_str().unwrap();
    let explained = on_volume(&["explain", "/f", "--from", local]);
    assert!(
        explained.contains("18 chunks as a whole, 1 of them lacking"),
        "{explained}"
    );
    assert!(
        explained.contains("sent") && explained.contains("there"),
        "{explained}"
    );
    on_volume(&["create", "/plain"]);
    let refused = weft(&["--volume", volume, "explain", "/plain", "--from", local]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("its chunks have no names"), "{said}");
    let unknown = weft(&["--volume", volume, "create", "/x", "--policy", "seq-2"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.contains("the file is plain"), "{said}");
    assert!(!m.file("x").exists());
}

/// What a mount without caches promises holds for a file with a policy, whatever the mount.
#[test]
fn programs_work_on_files_of_every_policy() {
    let Some(m) = Mounted::new() else { return };
    for name in [
        "posix", "seq-1", "seq-2", "for-1", "for-2", "rel-1", "session", "nfs",
    ] {
        let d = m.file(name);
        fs::create_dir(&d).unwrap();
        addressed(&d);
        set(&d, name).unwrap();
        sh(
            &d,
            "head -c 200000 /dev/urandom > a; cp a b; cmp a b; cat b >> a; [ $(stat -c %s a) = 400000 ]; \
             tail -c 200000 a | cmp - b; truncate -s 100000 a; head -c 100000 b | cmp - a; \
             dd if=b of=a bs=1000 seek=7 conv=notrunc status=none; tail -c +7001 a | head -c 200000 | cmp - b; \
             tar cf t.tar a b; mkdir x; tar xf t.tar -C x; cmp a x/a; mv x/a c; cmp a c; rm -r x; \
             sort -R b | sort > s1; sort b > s2; cmp s1 s2",
        );
    }
}
