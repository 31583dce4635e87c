//! Appends of programs that open, append and close, as a shell's `>>` does.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::mount_support::{Mounted, sh};

fn append(path: &Path, what: &[u8]) {
    let mut file = fs::File::options().append(true).open(path).unwrap();
    file.write_all(what).unwrap();
}

/// The kernel tells a mount of a close when the program has gone on: the next open comes before the end of the last.
#[test]
fn what_is_appended_right_after_a_close_is_at_the_end() {
    let Some(m) = Mounted::new() else { return };
    for round in 0..400_usize {
        let length = [10, 9_000, 17_000, 600_000][round % 4];
        let path = m.file(&format!("f{round}"));
        fs::write(&path, vec![b'o'; length]).unwrap();
        append(&path, b"appended");
        let mut expected = vec![b'o'; length];
        expected.extend_from_slice(b"appended");
        assert!(
            fs::read(&path).unwrap() == expected,
            "round {round}, {length} bytes"
        );
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn processes_that_open_for_each_append_lose_nothing() {
    const RECORDS: usize = 200;
    let Some(m) = Mounted::new() else { return };
    for before in [0, 1_000, 20_000] {
        let path = m.file(&format!("log{before}"));
        fs::write(&path, vec![b'o'; before]).unwrap();
        // Processes of their own, as a shell's are.
        let script = format!(
            "for p in 1 2 3; do (for i in $(seq {RECORDS}); do printf '%d.%07d\\n' $p $i >> log{before}; done) & done; wait"
        );
        sh(&m.path, &script);
        let data = fs::read(&path).unwrap();
        assert!(
            data[..before].iter().all(|b| *b == b'o'),
            "{before}: what was there is gone"
        );
        let mut lines: Vec<&str> = std::str::from_utf8(&data[before..])
            .unwrap()
            .lines()
            .collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(
            (lines.len(), data.len()),
            (3 * RECORDS, before + 3 * RECORDS * 10)
        );
    }
}

/// What others open and close meanwhile changes nothing for who appends.
#[test]
fn opens_beside_an_append_lose_nothing() {
    let Some(m) = Mounted::new() else { return };
    for round in 0..60 {
        let path = m.file(&format!("f{round}"));
        fs::write(&path, [b'o'; 1000]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5 {
                    drop(fs::File::options().write(true).open(&path).unwrap());
                }
            });
            for _ in 0..5 {
                append(&path, b"NEW");
            }
        });
        let data = fs::read(&path).unwrap();
        assert_eq!(
            (&data[..1000], &data[1000..]),
            (&[b'o'; 1000][..], &b"NEWNEWNEWNEWNEW"[..]),
            "round {round}"
        );
    }
}
