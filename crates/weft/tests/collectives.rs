//! Groups of real processes: they come from anywhere, die, and are replaced.

mod files_support;

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
fn a_member_that_is_killed_leaves_its_place_to_another_process() {
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
fn a_member_that_is_killed_and_not_replaced_is_named_to_the_others() {
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
            error.contains("member 1 of group `ranks` did not come"),
            "{error}"
        );
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(volume.text("cat /file"), "");
}

#[test]
fn what_is_no_group_says_why() {
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
    ] {
        let output = volume.command(line.split_whitespace()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{line}");
        assert!(error.contains(word), "{line}: {error}");
    }
}
