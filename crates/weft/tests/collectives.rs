//! Groups of real processes that die and are replaced.

mod files_support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

use files_support::Volume;

fn line(k: u32) -> String {
    format!("write /file 1/3x1000 --offset {k} --group ranks --members 3 --member {k} --timeout 20")
}

fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!error.contains("panicked"), "{error}");
    (output.status.success(), error)
}

#[test]
fn the_number_of_a_killed_member_is_free_for_another_process() {
    let volume = Volume::up();
    volume.feed("put /file", b"");
    let first = volume.start(&line(0), &[b'0'; 1000]);
    let mut killed = volume.start(&line(1), &[b'x'; 1000]);
    std::thread::sleep(Duration::from_millis(700));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let second = volume.start(&line(1), &[b'1'; 1000]);
    std::thread::sleep(Duration::from_millis(400));
    let third = volume.start(&line(2), &[b'2'; 1000]);
    for child in [first, second, third] {
        let (success, error) = ended(child);
        assert!(success, "{error}");
    }
    assert_eq!(volume.text("cat /file"), "012".repeat(1000));
}

#[test]
fn the_other_members_report_a_killed_member_that_was_not_replaced() {
    let volume = Volume::up();
    volume.feed("put /file", b"");
    let short = |k| line(k).replace("--timeout 20", "--timeout 6");
    let started = Instant::now();
    let others = [0, 2].map(|k| volume.start(&short(k), &[b'0'; 1000]));
    let mut killed = volume.start(&short(1), &[b'x'; 1000]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    for child in others {
        let (success, error) = ended(child);
        assert!(!success);
        assert!(
            error.contains("member 1 of group `ranks` did not arrive"),
            "{error}"
        );
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(volume.text("cat /file"), "");
}

#[test]
fn impossible_groups_explain_why() {
    let volume = Volume::up();
    volume.feed("put /file", b"some bytes");
    for (line, word) in [
        ("read /file 4 --group a", "--members"),
        ("read /file 4 --members 3 --member 1", "--group"),
        (
            "read /file 4 --group a --members 3 --member 3",
            "numbered from 0",
        ),
        (
            "read /file 4 --group a --members 2000 --member 3",
            "1..=1024",
        ),
        (
            "read /file 4 --group a --members 2 --member 1 --timeout=-1",
            "--timeout",
        ),
        (
            "read /file 4 --group a --members 2 --member 1 --timeout 0.1",
            "member 0 of group",
        ),
        ("create /new --group a", "--members"),
        (
            "create /new --group a --members 3 --member 3",
            "numbered from 0",
        ),
        (
            "create /new --group a --members 2 --member 1 --timeout 0.1",
            "member 0 of group",
        ),
        (
            "create --directory / --group a --members 2 --member 1",
            "--directory",
        ),
    ] {
        let output = volume.command(line.split_whitespace()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{line}");
        assert!(error.contains(word), "{line}: {error}");
    }
}

/// Attaches that the metadata service has done, by its metrics.
fn attaches(volume: &Volume) -> u64 {
    let config = std::fs::read_to_string(volume.path("volume/weft.toml")).unwrap();
    let meta = &config[config.find("[meta]").unwrap()..];
    let line = meta.lines().find(|l| l.starts_with("metrics")).unwrap();
    let mut stream = TcpStream::connect(line.split('"').nth(1).unwrap()).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let count = page
        .lines()
        .find(|l| l.starts_with("weft_calls_total{kind=\"Attach\"} "));
    // A kind without calls is not on the page.
    count.map_or(0, |l| l.rsplit(' ').next().unwrap().parse().unwrap())
}

fn create(volume: &Volume, what: &str, group: &str, member: u32) -> Child {
    let line = format!("create {what} --group {group} --members 4 --member {member} --timeout 30");
    volume.start(&line, b"")
}

fn printed(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_group_creates_or_opens_a_file_with_one_request() {
    let volume = Volume::up();
    let before = attaches(&volume);
    for (round, done) in [(0, "made"), (1, "found")] {
        // Members arrive in any order.
        let order = if round == 0 {
            [2, 0, 3, 1]
        } else {
            [0, 1, 2, 3]
        };
        let members = order.map(|member| {
            let child = create(
                &volume,
                "/grid /other --cells 5 --bsu 100",
                "makers",
                member,
            );
            std::thread::sleep(Duration::from_millis(30));
            child
        });
        for child in members {
            assert_eq!(printed(child), format!("{done} /grid\n{done} /other\n"));
        }
        assert_eq!(attaches(&volume), before + 2 * (round + 1));
    }
    let stat = volume.json("stat --json /grid");
    assert_eq!(stat[0]["layout"]["cells"], 5, "{stat}");
}

#[test]
fn a_group_that_requests_another_layout_fails_as_a_whole() {
    let volume = Volume::up();
    volume.text("create /grid --cells 2");
    let members = [0, 1, 2, 3].map(|member| create(&volume, "/grid --cells 3", "late", member));
    for child in members {
        let (success, error) = ended(child);
        assert!(!success && error.contains("another layout"), "{error}");
    }
}

#[test]
fn a_failed_creation_fails_for_all_members() {
    let volume = Volume::up();
    let members = [0, 1, 2, 3].map(|member| create(&volume, "/none/grid", "nowhere", member));
    let errors = members.map(ended);
    assert!(errors.iter().all(|(success, _)| !success), "{errors:?}");
    assert!(errors[0].1.contains("/none/grid"), "{}", errors[0].1);
    assert!(errors[1].1.contains("member 0"), "{}", errors[1].1);
}

#[test]
fn a_file_is_created_once_all_members_arrived_or_the_group_goes_on() {
    let volume = Volume::up();
    let killed = create(&volume, "/grid", "some", 1);
    std::thread::sleep(Duration::from_millis(300));
    let end = |mut child: Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let short = |member: u32, more: &str| {
        let line = format!("create /grid --group some --members 3 --member {member} --timeout 5");
        volume.start(&format!("{line} {more}"), b"")
    };
    end(killed);
    let died = short(2, "");
    let waiting = [short(0, ""), short(1, "")];
    end(died);
    for child in waiting {
        let (success, error) = ended(child);
        let missing = "member 2 of group `some` did not arrive";
        assert!(!success && error.contains(missing), "{error}");
    }
    volume.fails("stat /grid", 1);
    for child in [0, 1].map(|member| short(member, "--missing go-on")) {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"made /grid\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("went on without member 2"), "{said}");
    }
}
