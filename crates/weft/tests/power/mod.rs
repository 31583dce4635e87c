//! Power loss: a whole volume of real processes on a file system on a disk that loses what was not
//! flushed.
//!
//! `disk.rs` is the disk, `fuse.rs` shows it to the kernel as a file; a loop device makes it a
//! block device, ext4 lies on that, and flushes come to the disk as they would to a real one. The
//! machine's boot has another name after each cut, so servers know that power was lost. The volume
//! must then hold everything that was synced, a prefix of each server's other writes, every name
//! whose creation was acknowledged, and no wrong byte.

mod disk;
mod fuse;
mod load;
mod machine;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, ConnectOptions, File, NewLayout, Volume};

use super::WRITERS;
use load::{Base, Manifest};
use machine::Machine;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn connect(machine: &Machine) -> Volume {
    Volume::connect(ConnectOptions::from_folder(machine.volume()).unwrap())
        .await
        .unwrap()
}

async fn prepare(machine: &Machine) {
    let volume = connect(machine).await;
    volume.make_directory("/names", 0o755).await.unwrap();
    let layout = NewLayout {
        cells: Some(WRITERS as u32),
        bsu: Some(4096),
        chunk: Some(100_000),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach("/file", access).await.unwrap();
}

/// Runs the load until the power is cut at a random moment.
async fn run_until_cut(
    machine: &mut Machine,
    random: &mut SmallRng,
    manifest: &Arc<Mutex<Manifest>>,
) -> disk::Cut {
    let volume = connect(machine).await;
    let file: File = volume.attach("/file", Access::read_write()).await.unwrap();
    let round = random.random();
    let mut work = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        work.spawn(load::write_records(
            file.clone(),
            writer,
            round,
            manifest.clone(),
        ));
    }
    work.spawn(load::make_names(volume.clone(), round, manifest.clone()));
    work.spawn(load::sync_now_and_then(file.clone(), manifest.clone()));
    tokio::time::sleep(Duration::from_millis(random.random_range(100..500))).await;
    let cut = machine.cut(random);
    work.shutdown().await;
    cut
}

#[tokio::test(flavor = "multi_thread")]
async fn synced_writes_survive_power_loss() {
    let rounds = from_environment("WEFT_CASES").unwrap_or(3);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = from_environment("WEFT_SEED").unwrap_or(now.as_nanos() as u64);
    println!("WEFT_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let Some(mut machine) = Machine::new() else {
        return;
    };
    machine.up().unwrap();
    prepare(&machine).await;
    let mut base = Base::default();
    let (mut lost, mut total) = (0, Manifest::default());
    for round in 0..rounds {
        let manifest = Arc::new(Mutex::new(Manifest::default()));
        let cut = run_until_cut(&mut machine, &mut random, &manifest).await;
        machine
            .up()
            .unwrap_or_else(|e| panic!("round {round}: {e}"));
        let manifest = std::mem::take(&mut *manifest.lock().unwrap());
        let volume = connect(&machine).await;
        let verified = base.verify(&volume, &manifest).await;
        verified.unwrap_or_else(|e| panic!("round {round}, {cut:?}: {e}"));
        machine
            .check()
            .unwrap_or_else(|e| panic!("round {round}, {cut:?}: {e}"));
        lost += cut.lost + cut.torn;
        total.add(&manifest);
    }
    let (synced, names) = (total.synced(), total.names.len());
    println!(
        "{rounds} cuts: {synced} records synced before one, {names} names, {lost} writes of the disk lost or torn"
    );
    // A few power failures may all come right after a flush.
    assert!(
        synced > 50 && names > 5 && (lost > 0 || rounds < 10),
        "the load was too small to prove anything"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "shows that the test detects a disk that does not flush"]
async fn a_disk_that_lies_about_flushes_is_detected() {
    let mut random = SmallRng::seed_from_u64(1);
    let Some(mut machine) = Machine::new() else {
        return;
    };
    machine.up().unwrap();
    prepare(&machine).await;
    machine.settle();
    machine.disk().lie();
    let mut base = Base::default();
    for _ in 0..20 {
        let manifest = Arc::new(Mutex::new(Manifest::default()));
        run_until_cut(&mut machine, &mut random, &manifest).await;
        if machine.up().is_err() {
            return;
        }
        let manifest = std::mem::take(&mut *manifest.lock().unwrap());
        let found = tokio::time::timeout(Duration::from_secs(20), async {
            let volume = connect(&machine).await;
            base.verify(&volume, &manifest).await
        });
        if !matches!(found.await, Ok(Ok(()))) {
            return;
        }
    }
    panic!("no loss was detected after twenty cuts of a disk that lies");
}
