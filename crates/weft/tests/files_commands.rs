//! Every file command once, as users of the Unix tools expect it, and the messages about bad input.

mod files_support;

use std::io::Read;
use std::process::Stdio;

use files_support::{Volume, bytes, weft};

#[test]
fn layouts_are_set_at_creation_inherited_and_then_fixed() {
    let volume = Volume::up();
    volume.text("create /a --cells 4 --bsu 4K --servers 2,0 --chunk 64K --mode 0640");
    let stat = &volume.json("stat --json /a")[0];
    assert_eq!(stat["layout"]["cells"], 4);
    assert_eq!(stat["layout"]["bsu"], 4096);
    assert_eq!(stat["layout"]["chunk"], 65_536);
    assert_eq!(stat["layout"]["servers"], serde_json::json!([2, 0]));
    assert_eq!((&stat["mode"], &stat["size"]), (&"0640".into(), &0.into()));
    assert!(volume.fails("create /a --cells 1", 1).contains("exists"));
    assert!(
        volume
            .fails("put /a --cells 5", 1)
            .contains("another layout")
    );

    volume.text("mkdir /d");
    volume.text("create --directory /d --cells 7 --bsu 3");
    volume.feed("put /d/file", b"inherits");
    let stat = &volume.json("stat --json /d/file")[0];
    assert_eq!(
        (&stat["layout"]["cells"], &stat["layout"]["bsu"]),
        (&7.into(), &3.into())
    );
    let forks = stat["forks"].as_array().unwrap();
    let length = |cell: usize| forks[cell]["length"].as_u64().unwrap();
    assert_eq!((forks.len(), length(0), length(1), length(2)), (3, 3, 3, 2));
    assert!(volume.text("stat /d/file").contains("7 cells, BSU 3 B"));
    // What an option does not name stays; no option at all clears the layout.
    let inherited = |options: &str, name: &str| {
        volume.text(&format!("create --directory /d {options}"));
        volume.text(&format!("create /d/{name}"));
        let stat = &volume.json(&format!("stat --json /d/{name}"))[0];
        ["cells", "bsu", "storage"].map(|field| stat["layout"][field].to_string())
    };
    let addressed = "\"addressed\"";
    assert_eq!(
        inherited("--addressed --bsu 8K", "a"),
        ["7", "8192", addressed]
    );
    assert_eq!(inherited("--policy rel-1", "b"), ["7", "8192", addressed]);
    assert_eq!(
        inherited("--servers 0 --cells 2", "c"),
        ["2", "8192", addressed]
    );
    assert_eq!(inherited("--cells 3", "d"), ["3", "8192", addressed]);
    assert_eq!(inherited("", "e")[2], "\"plain\"");
}

#[test]
fn directories_are_made_listed_and_removed() {
    let volume = Volume::up();
    volume.text("mkdir -p /a/b/c -m 0750");
    volume.text("mkdir -p /a/b/c");
    assert!(volume.fails("mkdir /a", 1).contains("exists"));
    assert!(volume.fails("mkdir /x/y", 1).contains("no such file"));
    volume.feed("put /a/.hidden", b"");
    volume.feed("put /a/file", b"12345");
    assert_eq!(volume.text("ls /a"), "b\nfile\n");
    assert_eq!(volume.text("ls -a /a"), ".hidden\nb\nfile\n");
    assert_eq!(
        volume.text("ls -R /a"),
        "/a:\nb\nfile\n\n/a/b:\nc\n\n/a/b/c:\n"
    );
    assert_eq!(volume.text("ls -d /a"), "/a\n");
    let long = volume.text("ls -l /a");
    assert!(long.contains("-rw-r--r-- 1"), "{long}");
    assert!(
        volume.text("ls -ld /a/b/c").starts_with("drwxr-x---"),
        "{long}"
    );
    let json = volume.json("ls --json /a");
    assert_eq!(json[1]["path"], "/a/file");
    assert_eq!(json[1]["size"], 5);

    assert!(volume.fails("rm /a", 1).contains("-r"));
    assert!(volume.fails("rm -d /a", 1).contains("not empty"));
    volume.text("rm -d /a/b/c");
    volume.text("rm -r /a");
    assert!(volume.fails("rm /a", 1).contains("no such file"));
    volume.text("rm -f /a");
    assert!(volume.fails("rm -r /", 1).contains("cannot remove /"));
    assert_eq!(volume.text("ls"), "");
}

#[test]
fn listings_and_removals_work_page_by_page() {
    let volume = Volume::up();
    let folder = volume.path("many");
    std::fs::create_dir(&folder).unwrap();
    for i in 0..2300 {
        std::fs::write(folder.join(format!("f{i:05}")), b"").unwrap();
    }
    volume.run([
        "cp".as_ref(),
        "-r".as_ref(),
        folder.as_os_str(),
        "weft:/many".as_ref(),
    ]);
    let names: Vec<String> = volume.text("ls /many").lines().map(str::to_owned).collect();
    let expected: Vec<String> = (0..2300).map(|i| format!("f{i:05}")).collect();
    assert_eq!(names, expected);
    volume.text("rm -r /many");
    assert_eq!(volume.text("ls"), "");
}

#[test]
fn names_can_be_moved_and_linked() {
    let volume = Volume::up();
    volume.feed("put /a", b"a");
    volume.feed("put /b", b"b");
    volume.text("mkdir /d");
    assert!(volume.fails("mv -n /a /b", 1).contains("/b exists"));
    volume.text("mv --exchange /a /b");
    assert_eq!(
        (volume.text("cat /a"), volume.text("cat /b")),
        ("b".into(), "a".into())
    );
    volume.text("mv /a /b /d");
    assert_eq!(volume.text("ls /d"), "a\nb\n");
    assert!(
        volume
            .fails("mv /d/a /d/b /nowhere", 1)
            .contains("not a directory")
    );
    volume.text("ln /d/a /hard");
    volume.text("ln -s d/b /soft");
    assert_eq!(volume.text("cat /hard /soft"), "ba");
    assert!(volume.text("ls -l /soft").contains("/soft -> d/b"));
    assert_eq!(volume.json("stat --json /hard")[0]["links"], 2);
    assert_eq!(volume.json("stat --json /soft")[0]["target"], "d/b");
    assert!(volume.fails("ln -s x /soft", 1).contains("exists"));
    volume.text("ln -sf d/a /soft");
    assert_eq!(volume.text("cat /soft"), "b");
    volume.text("ln -f /d/a /hard");
    assert_eq!(volume.text("ls /"), "d\nhard\nsoft\n");
}

#[test]
fn attributes_can_be_changed() {
    let volume = Volume::up();
    volume.text("mkdir -p /d/e");
    volume.feed("put /d/e/f", b"x");
    volume.text("chmod 0600 /d/e/f");
    volume.text("chmod -R u+x,go=rX /d");
    let mode = |path: &str| volume.json(&format!("stat --json {path}"))[0]["mode"].clone();
    assert_eq!(
        (mode("/d/e/f"), mode("/d/e")),
        ("0755".into(), "0755".into())
    );
    assert!(volume.fails("chmod u+q /d", 2).contains("not a mode"));
    assert!(
        volume
            .fails("chown nobody-of-this-name /d", 2)
            .contains("no user")
    );
    if rustix::process::geteuid().is_root() {
        volume.text("chown -R 4711:4712 /d");
        let stat = &volume.json("stat --json /d/e/f")[0];
        assert_eq!((&stat["uid"], &stat["gid"]), (&4711.into(), &4712.into()));
        volume.text("chown root: /d");
        assert_eq!(volume.json("stat --json /d")[0]["uid"], 0);
        volume.text("ln -s nowhere /l");
        volume.text("chown -h 5 /l");
        assert_eq!(volume.json("stat --json /l")[0]["uid"], 5);
    }
    volume.text("truncate -s 3T /d/e/f /new");
    assert_eq!(volume.json("stat --json /new")[0]["size"], 3_u64 << 40);
    volume.text("truncate -s 1 /d/e/f");
    assert_eq!(volume.text("cat /d/e/f"), "x");
    volume.text("truncate -c -s 1 /missing");
    assert!(!volume.text("ls /").contains("missing"));
}

#[test]
fn bad_input_is_refused_with_advice() {
    let volume = Volume::up();
    volume.feed("put /a --cells 2 --bsu 4", b"12345678");
    for (line, code, word) in [
        ("cat /a --cell 2", 1, "the file has 2"),
        ("cat /a --subfile 1,1,1,4,4", 2, "no subfile 4"),
        ("cat /a --subfile 0,1,1,1,0", 2, "at least 1"),
        ("cat /a --partition 0,8,4", 2, "STRIDE"),
        (
            "cat /a --cell 0 --partition 0,1,1",
            2,
            "cannot be used with",
        ),
        ("cat /a --subfile 4E,4E,1,1,0", 1, "too long"),
        ("put /b --cells 65537", 2, "65536"),
        ("put /b --bsu 2T", 2, "choose 1 to"),
        ("put /b --chunk 1", 2, "choose 4096"),
        ("create /b --servers 0,0", 1, "more than once"),
        ("create /b --servers 9", 1, "9"),
        ("cat /missing", 1, "no such file"),
        ("cat /", 1, "directory"),
        ("cat /a/b", 1, "directory"),
        ("truncate -s 9E /a", 2, "too large"),
        ("truncate -s x /a", 2, "write a number"),
        ("cp /a /b", 2, "weft:/"),
        ("cp weft:a weft:/b", 2, "starts at its root"),
        ("explain / --length 1", 1, "no cells"),
    ] {
        let error = volume.fails(line, code);
        assert!(error.contains(word), "{line}: {error}");
    }
    let long = format!("ls /{}", "x".repeat(256));
    assert!(volume.fails(&long, 1).contains("too long"));
    let deep = format!("ls {}", "/x".repeat(2100));
    assert!(volume.fails(&deep, 1).contains("too long"));
    let empty = volume.command(["rm", ""]).output().unwrap();
    assert_eq!(empty.status.code(), Some(2));
    let nowhere = weft()
        .args(["--volume", "/nonexistent", "ls"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(error.contains("weft up"), "{error}");
    // None of it touched the file.
    assert_eq!(volume.text("cat /a"), "12345678");
}

#[test]
fn a_reader_that_goes_away_causes_no_panic() {
    let volume = Volume::up();
    volume.feed("put /big", &bytes(4, 20 << 20));
    for line in [
        "cat /big",
        "ls -lR /",
        "stat /big",
        "completions bash",
        "explain /big --all",
    ] {
        let mut child = volume
            .command(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut error = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 141)), "{line}: {code:?} {error}");
        assert_eq!(error, "", "{line}");
    }
}

#[test]
fn manual_pages_and_completions_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    assert!(weft().arg("man").arg(&pages).status().unwrap().success());
    for page in [
        "weft.1",
        "weft-cp.1",
        "weft-fork-create.1",
        "weft-explain.1",
    ] {
        assert!(pages.join(page).exists(), "{page}");
    }
    let script = weft()
        .args(["completions", "bash"])
        .output()
        .unwrap()
        .stdout;
    assert!(
        String::from_utf8(script)
            .unwrap()
            .contains("weft__subcmd__cp")
    );
}
