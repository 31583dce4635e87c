//! kill −9: acknowledged commits survive the kill of the process.
//!
//! The test runs itself as a child that commits and acknowledges on standard output. The parent
//! kills the child, opens the engine and checks all acknowledged commits.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use weft_kv::{FjallKv, FjallOptions, KvError, OrderedKv, Space, transact_with};

const FOLDER: &str = "WEFT_KV_KILL_FOLDER";
const KEYS: Space = Space("keys");
const TWINS: Space = Space("twins");

fn value(number: u64) -> Vec<u8> {
    // Up to several KiB, so that journal entries exceed the journal's buffer.
    vec![number as u8; (number % 97) as usize * 61]
}

/// The child process: commits pairs until it is killed. As an ordinary test it does nothing.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let kv = FjallKv::open(&folder, FjallOptions::default()).unwrap();
    let start = transact_with(&kv, |txn| {
        let next = txn.get(KEYS, b"next")?;
        let next = next.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
        Ok::<_, KvError>(next)
    })
    .unwrap();
    let mut out = std::io::stdout().lock();
    for number in start.. {
        kv.transact(&mut |txn| {
            txn.put(KEYS, b"next", &(number + 1).to_be_bytes());
            txn.put(KEYS, &number.to_be_bytes(), &value(number));
            txn.put(TWINS, &number.to_be_bytes(), &value(number));
            Ok(())
        })
        .unwrap();
        writeln!(out, "\nacknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn acknowledged_commits_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_that_commits_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        let mut acknowledged = 0;
        let mut kill_at = 300 + round * 171;
        for number in numbers {
            assert!(number >= next, "a number was committed twice");
            next = number + 1;
            acknowledged += 1;
            kill_at -= 1;
            if kill_at == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(
            acknowledged >= 300,
            "the child died too early to prove anything"
        );
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        let snapshot = kv.snapshot().unwrap();
        for number in 0..next {
            let key = number.to_be_bytes();
            assert_eq!(
                snapshot.get(KEYS, &key).unwrap(),
                Some(value(number)),
                "{number}"
            );
            assert_eq!(
                snapshot.get(TWINS, &key).unwrap(),
                Some(value(number)),
                "{number}"
            );
        }
        // Only the commit that the kill interrupted may be present without an acknowledgement, and
        // it is complete.
        let key = next.to_be_bytes();
        let caught = snapshot.get(KEYS, &key).unwrap();
        assert_eq!(caught, snapshot.get(TWINS, &key).unwrap());
        assert_eq!(snapshot.get(KEYS, &(next + 1).to_be_bytes()).unwrap(), None);
        next += u64::from(caught.is_some());
    }
}
