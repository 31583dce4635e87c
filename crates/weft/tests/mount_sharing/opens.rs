//! What an open shows of bytes that another mount has not sent.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::ahead::{calls, live};
use super::open;
use crate::mount_support::{Mounted, kill, wait_until, weft};

/// Less than the age at which a mount sends dirty bytes by itself.
const AT_ONCE: Duration = Duration::from_secs(1);
/// An open waits so long for bytes that another mount cannot send yet.
const UNSENT_TIMEOUT: Duration = Duration::from_secs(4);

/// Another mount that follows changes.
fn other(m: &Mounted) -> PathBuf {
    let other = m.further("other", "");
    wait_until("the watch is live", || calls(&other, "Watch") > 1);
    other
}

/// The kernel discards attributes while it hears of changes: it must not take the file for empty.
#[test]
fn a_read_right_after_an_open_finds_what_another_mount_wrote() {
    const ROUNDS: usize = 600;
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let (path, theirs) = (m.file("renewed"), other(&m).join("renewed"));
    fs::write(&path, b"").unwrap();
    let mut empty = 0;
    for _ in 0..ROUNDS {
        open(&path).set_len(0).unwrap();
        fs::write(&theirs, [b'x'; 512]).unwrap();
        empty += usize::from(
            fs::File::open(&path)
                .unwrap()
                .read_at(&mut [0; 8], 0)
                .unwrap()
                != 8,
        );
    }
    // The kernel may take a reply later than a mount waits for that.
    assert!(empty <= ROUNDS / 100, "{empty} of {ROUNDS} reads");
}

#[test]
fn an_open_shows_what_another_mount_has_written_and_not_sent() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let (other, mut late) = (other(&m), 0);
    let mut expect = |path: PathBuf, expected: &[u8], what: &str| {
        let began = Instant::now();
        let read = fs::read(&path).unwrap();
        let elapsed = began.elapsed();
        late += u32::from(elapsed >= AT_ONCE);
        let told = elapsed < UNSENT_TIMEOUT;
        assert!(
            read == expected || !told,
            "{}: {what}: {} bytes",
            path.display(),
            read.len()
        );
    };
    for (name, length) in [("small", 5_000_usize), ("large", 300_001)] {
        // A new file, whose name the other mount does not know yet.
        let file = open(&m.file(name));
        let mut expected = vec![1; length];
        file.write_all_at(&expected, 0).unwrap();
        expect(other.join(name), &expected, "new");
        // One that both have looked up, changed in a few places.
        for round in 2..6_u8 {
            let at = usize::from(round) * 811;
            file.write_all_at(&[round; 3], at as u64).unwrap();
            expected[at..at + 3].fill(round);
            expect(other.join(name), &expected, &format!("round {round}"));
        }
        // The mount's own readers see it without an open.
        file.write_all_at(b"!", 0).unwrap();
        expected[0] = b'!';
        let mut first = [0];
        open(&m.file(name)).read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first, *b"!");
        // The command line, and an open for writing.
        let volume = m.beside("volume");
        let volume = volume.to_str().unwrap();
        let cat = weft(&["--volume", volume, "cat", &format!("/{name}")]);
        assert!(cat.stdout == expected, "{name}: the command line");
        let writer = open(&other.join(name));
        writer.write_all_at(b"?", 1).unwrap();
        expected[1] = b'?';
        expect(m.file(name), &expected, "both write");
        assert_eq!(writer.metadata().unwrap().len(), length as u64);
    }
    // Without the question, each read would wait for the age of the bytes or be wrong.
    assert!(late <= 6, "{late} of 12 reads");
}

#[test]
fn a_mount_that_keeps_a_small_file_asks_again_while_another_has_it_open_for_writing() {
    let Some(m) = Mounted::new() else { return };
    let other = other(&m);
    fs::write(m.file("kept"), b"before").unwrap();
    for _ in 0..3 {
        assert_eq!(fs::read(other.join("kept")).unwrap(), b"before");
    }
    let file = open(&m.file("kept"));
    file.write_all_at(b"during", 0).unwrap();
    assert_eq!(fs::read(other.join("kept")).unwrap(), b"during");
    file.write_all_at(b"later!", 0).unwrap();
    assert_eq!(fs::read(other.join("kept")).unwrap(), b"later!");
    drop(file);
    assert_eq!(fs::read(other.join("kept")).unwrap(), b"later!");
}

#[test]
fn an_open_does_not_wait_for_a_killed_mount_that_had_bytes() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let other = other(&m);
    fs::write(m.file("f"), b"closed").unwrap();
    let file = open(&m.file("f"));
    file.write_all_at(b"CLOSED", 0).unwrap();
    kill(m.process());
    let began = Instant::now();
    let read = fs::read(other.join("f")).unwrap();
    // The service has heard of its end: it does not wait 5 s for an answer.
    assert!(began.elapsed() < UNSENT_TIMEOUT);
    assert!(read == b"closed" || read == b"CLOSED", "{read:?}");
}
