//! Cautious operations of real processes, some of which are killed with kill −9.

mod ends_support;
mod files_support;

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ends_support::Ends;
use files_support::{Volume, weft};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// On all three servers.
const LENGTH: usize = 1 << 20;

fn kill_server(volume: &Volume, number: usize) {
    let status = volume.json("status --json");
    let pid = status["servers"][number]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The byte that the whole file consists of, or what the read failed with.
fn read_same(volume: &Volume, line: &str) -> Result<u8, String> {
    let read = volume.command(line.split_whitespace());
    let read = { read }.stdin(Stdio::null()).output().unwrap();
    if !read.status.success() {
        return Err(String::from_utf8_lossy(&read.stderr).into_owned());
    }
    assert_eq!(read.stdout.len(), LENGTH);
    let first = read.stdout[0];
    let differs = read.stdout.iter().position(|byte| *byte != first);
    assert_eq!(differs, None, "a mixture of {first} and another write");
    Ok(first)
}

#[test]
fn readers_see_whole_writes_while_writers_and_servers_are_killed() {
    const ROUNDS: u64 = 100;
    let volume = Volume::up();
    let line = format!("/state 0:{LENGTH} --cautious");
    volume.feed(&format!("write {line}"), &vec![1; LENGTH]);
    let read = format!("read {line}");
    let done = AtomicBool::new(false);
    let mut random = SmallRng::seed_from_u64(3);
    std::thread::scope(|scope| {
        let ends = Ends(&done);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = std::collections::BTreeSet::new();
                    while !done.load(Ordering::SeqCst) {
                        seen.extend(read_same(&volume, &read));
                    }
                    seen
                })
            })
            .collect();
        let mut killed = 0;
        for round in 0..ROUNDS {
            // What a writer has decided and a server only staged is lost if both die (design 0031).
            let kills_server = round % 20 == 19;
            if kills_server {
                read_same(&volume, &read).unwrap();
            }
            let mut writers: Vec<_> = (0..2)
                .map(|n| {
                    let byte = 2 + (2 * round + n) as u8;
                    volume.start(&format!("write {line}"), &vec![byte; LENGTH])
                })
                .collect();
            std::thread::sleep(Duration::from_micros(random.random_range(0..8000)));
            if kills_server {
                kill_server(&volume, random.random_range(0..3));
                let up = weft().arg("up").arg(volume.path("volume")).output();
                assert!(up.unwrap().status.success());
            } else {
                let _ = writers[0].kill();
            }
            for writer in writers {
                killed += u32::from(!writer.wait_with_output().unwrap().status.success());
            }
        }
        drop(ends);
        assert!(killed > 0, "no writer was killed");
        for reader in readers {
            assert!(reader.join().unwrap().len() > 3, "readers saw too little");
        }
    });
    // Nobody waits for the dead.
    let began = Instant::now();
    read_same(&volume, &read).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn caution_and_groups_exclude_each_other() {
    let volume = Volume::up();
    let error = volume.fails("read /f 0:1 --cautious --group g/1/0", 2);
    assert!(error.contains("--cautious"), "{error}");
}
