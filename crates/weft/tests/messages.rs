//! Error messages: they name the file, what happened and what to do, and cannot control a terminal.

mod files_support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;

use files_support::{Volume, weft};

/// The error message of a command that fails.
fn complaint<S: AsRef<OsStr>>(volume: &Volume, args: &[S]) -> String {
    let output = volume.command(args).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn names_in_messages_cannot_control_a_terminal() {
    let volume = Volume::shared();
    volume.text("mkdir /names");
    let names: [&[u8]; 4] = [
        b"/names/nope\x1b[31mX",
        "/names/\u{202e}gpj".as_bytes(),
        b"/names/\xff\xfe",
        b"/names/a\nweft: all is well",
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        for command in ["rm", "stat", "cat", "rmdir", "fork", "ls"] {
            let mut args = vec![OsString::from(command)];
            if command == "fork" {
                args.push("ls".into());
            }
            args.push(name.to_owned());
            let said = complaint(&volume, &args);
            let commands = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{fffd}".contains(c);
            assert!(!said.contains(commands), "{command}: {said:?}");
            if command != "rmdir" {
                assert_eq!(said.lines().count(), 1, "{command}: {said:?}");
            }
        }
    }
    let said = complaint(&volume, &["rm", "/names/nope\u{1b}[31mX"]);
    let copies = said.matches("/names/nope\\u{1b}[31mX").count();
    assert_eq!(copies, said.matches("nope").count(), "{said}");
    // Words of the command line itself, and a local path.
    for args in [["ls", "--\u{1b}[2Jx"], ["\u{1b}[2Jx", "/"]] {
        let said = complaint(&volume, &args);
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert!(said.contains("\\u{1b}[2Jx"), "{said:?}");
    }
    let said = complaint(&volume, &["import", "/no\u{1b}[2Jx", "/names/f"]);
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn tables_and_logs_cannot_control_a_terminal() {
    let volume = Volume::shared();
    volume.text("mkdir /tables");
    volume.feed("put /tables/f", b"x");
    volume.run(["checkpoint", "create", "/tables/f", "c\u{1b}[2Jx"]);
    let table = volume.text("checkpoint list /tables/f");
    assert!(table.contains("c\\u{1b}[2Jx"), "{table}");
    let lines = volume.run(["stat", "/tables/f"]);
    assert!(!lines.contains(&0x1b));
}

#[test]
fn errors_name_the_file_by_its_path() {
    let volume = Volume::shared();
    volume.text("mkdir /quota");
    volume.text("quota set --tree /quota --bytes 1MiB");
    let input = vec![7; 3 << 20];
    let output = volume.start("put /quota/large", &input);
    let output = output.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("/quota/large"), "{said}");
    assert!(!said.contains("file "), "{said}");
    let hint = "`weft quota show /quota/large` shows which";
    assert!(
        said.contains("leaves no more") && said.contains(hint),
        "{said}"
    );
}

#[test]
fn a_missing_file_is_reported_as_missing() {
    let volume = Volume::shared();
    volume.text("mkdir /there");
    volume.feed("put /there/f", b"abc");
    let nofile = volume.path("nofile.dat");
    let line = format!("export /there/f {} --compare", nofile.display());
    let said = volume.fails(&line, 1);
    assert!(said.contains("nofile.dat does not exist"), "{said}");
    for line in ["put /there/new/", "create /there/new/"] {
        let said = volume.fails(line, 1);
        assert!(!said.contains("is a directory"), "{said}");
        assert!(said.contains("slash"), "{said}");
    }
}

#[test]
fn a_message_names_a_path_once() {
    let volume = Volume::shared();
    assert_eq!(
        volume.fails("cat /nowhere", 1),
        "weft: attach /nowhere: no such file or directory\n"
    );
}

#[test]
fn errors_about_missing_things_explain_where_to_look() {
    let volume = Volume::shared();
    volume.text("mkdir /look");
    volume.feed("put /look/f", b"abc");
    let key = volume.path("volume/volume.key");
    let by_address = format!("--address nowhere --key-file {} ls", key.display());
    for (line, words) in [
        (
            "fork rm /look/f none",
            "has a fork \"none\": list its forks with `weft fork ls`",
        ),
        (
            "fork rm /look/f none --cell 0",
            "cell 0 of /look/f has no fork",
        ),
        ("fork create /look/f x --cell 99", "/look/f"),
        (
            "export /look/f /nowhere/at/all",
            "there is no directory /nowhere/at",
        ),
        (
            "server accept-rollback x",
            "`x` is not a server: give the number",
        ),
        (by_address.as_str(), "write HOST:PORT"),
    ] {
        let said = volume.fails(line, 1);
        assert!(said.contains(words), "{line}: {said}");
        assert!(!said.contains("digit"), "{line}: {said}");
    }
}

#[test]
fn times_in_json_are_rfc_3339() {
    let volume = Volume::shared();
    volume.text("mkdir /times");
    volume.feed("put /times/f", b"abc");
    volume.text("checkpoint create /times/f now");
    let listed = volume.json("ls --json /times");
    let stat = volume.json("stat --json /times/f");
    let checkpoints = volume.json("checkpoint list --json /times/f");
    let status = volume.json("status --json");
    for time in [
        &listed[0]["modified"],
        &stat[0]["modified"],
        &stat[0]["accessed"],
        &stat[0]["changed"],
        &stat[0]["created"],
        &stat[0]["forks"][0]["modified"],
        &checkpoints[0]["made"],
        &status["clients"][0]["since"],
    ] {
        let Some(time) = time.as_str() else {
            assert!(time.is_null(), "{time}");
            continue;
        };
        let parsed = humantime::parse_rfc3339(time).unwrap();
        let ago = parsed.elapsed().unwrap_or_default();
        assert!(ago.as_secs() < 600, "{time}");
    }
    assert!(stat[0]["modified"].is_string(), "{stat}");
}

#[test]
fn a_count_of_one_is_singular() {
    let volume = Volume::shared();
    volume.text("mkdir /one");
    volume.text("create /one/f --cells 1");
    volume.feed("put /one/f", b"abc");
    let grid = volume.text("grid /one/f --ascii");
    assert!(grid.contains("in 1 cell on 1 server,"), "{grid}");
    let stat = volume.text("stat /one/f");
    assert!(stat.contains("1 cell,"), "{stat}");
}

#[test]
fn the_kind_of_a_call_is_a_label_of_its_metric() {
    let volume = Volume::shared();
    let status = volume.json("status --json");
    let address = status["meta"]["metrics"].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let calls = page.lines().filter(|l| l.starts_with("weft_calls"));
    let calls: Vec<&str> = calls.collect();
    assert!(calls.len() > 1, "{page}");
    for line in calls {
        assert!(line.starts_with("weft_calls_total{kind=\""), "{line}");
    }
    let types = page.lines().filter(|l| *l == "# TYPE weft_calls counter");
    assert_eq!(types.count(), 1);
    assert!(page.contains("weft_stage_seconds_count{kind=\""), "{page}");
}

#[test]
fn misuse_is_reported_with_help() {
    let folder = tempfile::tempdir().unwrap();
    let said = |line: &str| {
        let output = weft()
            .env("WEFT_VOLUME", folder.path())
            .args(line.split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    for line in ["cat", "mv /a", "read /f", "sort", "checkpoint create /f"] {
        let text = said(line);
        assert!(text.contains("Usage: weft"), "{line}: {text}");
        assert!(!text.contains("--volume"), "{line}: {text}");
    }
    for line in [
        "down /v --wait x",
        "explain /f --pieces -",
        "up /v --servers 1.5",
    ] {
        let text = said(line);
        assert!(!text.contains("digit"), "{line}: {text}");
        assert!(text.contains("a whole number is needed"), "{line}: {text}");
    }
    for line in ["sort-pat", "bench-worke", "duplicates-worke"] {
        let text = said(line);
        let hidden = ["sort-path", "worker"].iter().any(|w| text.contains(w));
        assert!(!hidden, "{line}: {text}");
    }
}

#[test]
fn an_address_needs_an_existing_key() {
    let said = |args: &[&str], code| {
        let output = weft().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let by = ["--address", "127.0.0.1:1"];
    let text = said(&[&by[..], &["ls", "/"]].concat(), 2);
    let usage = "Usage: weft --address 127.0.0.1:1 --key-file <FILE>";
    assert!(text.contains(usage), "{text}");
    let fsck = said(&[&by[..], &["fsck"]].concat(), 16);
    assert_eq!(fsck, text);
    let path = tempfile::tempdir().unwrap();
    let mount = ["mount", path.path().to_str().unwrap()];
    let missing = path.path().join("none.key").display().to_string();
    let option = format!("key_file={missing}");
    for args in [
        [&by[..], &["--key-file", &missing, "ls", "/"]].concat(),
        [&by[..], &["--key-file", &missing], &mount].concat(),
        [&by[..], &mount, &["-o", &option]].concat(),
        [&["--volume", by[1]], &mount[..], &["-o", &option]].concat(),
    ] {
        let text = said(&args, 1);
        let words = format!("there is no key file {missing}: name");
        assert!(text.contains(&words), "{args:?}: {text}");
    }
}

#[test]
fn an_empty_environment_variable_counts_as_unset() {
    let folder = tempfile::tempdir().unwrap();
    let said = |variable: &str| {
        let mut command = weft();
        command.env(variable, "").current_dir(&folder);
        let output = command.args(["ls", "/"]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    for variable in ["WEFT_VOLUME", "WEFT_ADDRESS", "WEFT_KEY_FILE"] {
        let text = said(variable);
        assert!(text.contains("no volume named"), "{variable}: {text}");
    }
    let output = weft().args(["--volume", "", "ls", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "no variable, but a mistake");
}

#[test]
fn a_file_in_place_of_a_volume_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"x").unwrap();
    for command in ["up", "down", "status"] {
        let output = weft().arg(command).arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("file"), "{command}: {said}");
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
