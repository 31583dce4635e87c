//! The rebuild of a lost machine: how long it takes beside what its link allows, and what clients
//! keep of their speed meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures_util::future::try_join_all;
use weft_client::{Access, ConnectOptions, File, NewLayout, Volume};
use weft_layout::ViewOffset;
use weft_suite::LinkedVolume;

use crate::volume::{Setting, block_on};

const MIB: u64 = 1 << 20;
/// How long clients work to find their speed without a rebuild.
const UNDISTURBED: Duration = Duration::from_secs(15);
/// Clients at work, each with one request in flight.
const CLIENTS: u64 = 4;
/// A rebuild that takes longer has failed.
const PATIENCE: Duration = Duration::from_mins(10);

/// What is measured of one number of servers.
struct Found {
    /// Seconds of a rebuild without clients, and what the link allows.
    rebuild: (f64, f64),
    /// MiB per second of clients before a rebuild, and during one.
    clients: (f64, f64),
    /// Seconds of that rebuild.
    beside_clients: f64,
}

pub(crate) fn run(setting: &Setting, servers: &[u32], link: u64, mib: u64) -> Result<()> {
    println!(
        "{mib} MiB on servers with two replicas, links of {link} MiB/s; one machine is lost and comes back empty"
    );
    println!(
        "servers | rebuild s | link allows s | share | clients MiB/s | during rebuild | share | rebuild s"
    );
    for servers in servers {
        if *servers < 2 {
            bail!("the replicas of one server would be on one machine: at least 2 servers");
        }
        let found = block_on(measure(setting, *servers, link, mib))?;
        let (took, allowed) = found.rebuild;
        let (before, during) = found.clients;
        println!(
            "{servers:7} | {took:9.1} | {allowed:13.1} | {:4.0} % | {before:13.1} | {during:14.1} | {:4.0} % | {:9.1}",
            100.0 * allowed / took,
            100.0 * during / before,
            found.beside_clients,
        );
    }
    Ok(())
}

async fn measure(setting: &Setting, servers: u32, link: u64, mib: u64) -> Result<Found> {
    let started =
        LinkedVolume::with_links(setting.weft(), &setting.folder, (servers, 2), link * MIB);
    let mut linked = started.context("network namespaces are needed: run as root")??;
    let volume = Volume::connect(ConnectOptions::from_folder(linked.path())?).await?;
    until_redundancy_is(&volume, true).await?;
    let layout = NewLayout {
        cells: Some(servers),
        bsu: Some(MIB),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o600).layout(&layout);
    let file = volume.attach("/data", access).await?;
    let view = file.canonical()?;
    for step in 0..mib.div_ceil(16) {
        let writes = (step * 16..(step * 16 + 16).min(mib))
            .map(|at| view.write_at(ViewOffset(at * MIB), content(at)));
        try_join_all(writes).await?;
    }
    file.sync().await?;

    // A machine has a replica of two servers, of which each has its share of the bytes.
    let allowed = 2.0 * mib as f64 / f64::from(servers) / link as f64;
    linked.lose(0)?;
    until_redundancy_is(&volume, false).await?;
    let began = Instant::now();
    linked.replace(0)?;
    until_redundancy_is(&volume, true).await?;
    let took = began.elapsed().as_secs_f64();

    let work = Work::default();
    let undisturbed = async {
        let before = work.rate_for(UNDISTURBED).await;
        linked.lose(0)?;
        until_redundancy_is(&volume, false).await?;
        linked.replace(0)?;
        let (began, moved) = (Instant::now(), work.moved());
        until_redundancy_is(&volume, true).await?;
        let seconds = began.elapsed().as_secs_f64();
        let during = (work.moved() - moved) as f64 / MIB as f64 / seconds;
        work.ended.store(true, Ordering::Relaxed);
        Ok::<_, anyhow::Error>((before, during, seconds))
    };
    let clients = try_join_all((0..CLIENTS).map(|client| work.of_client(&file, client, mib)));
    let ((before, during, beside_clients), _) = tokio::try_join!(undisturbed, clients)?;
    file.close().await?;
    Ok(Found {
        rebuild: (took, allowed),
        clients: (before, during),
        beside_clients,
    })
}

/// What clients do all the time.
#[derive(Default)]
struct Work {
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Work {
    fn moved(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    async fn rate_for(&self, time: Duration) -> f64 {
        let (began, moved) = (Instant::now(), self.moved());
        tokio::time::sleep(time).await;
        (self.moved() - moved) as f64 / MIB as f64 / began.elapsed().as_secs_f64()
    }

    /// Reads and writes a mebibyte in turn, all over the file; every byte read is compared.
    async fn of_client(&self, file: &File, client: u64, mib: u64) -> Result<()> {
        let view = file.canonical()?;
        let mut at = client * mib / CLIENTS;
        let mut read = vec![0; MIB as usize];
        while !self.ended.load(Ordering::Relaxed) {
            at = (at + 37) % mib;
            view.read_at(ViewOffset(at * MIB), &mut read).await?;
            if read != content(at) {
                bail!("wrong bytes at {at} MiB");
            }
            // The same bytes: clients meet at times.
            view.write_at(ViewOffset(at * MIB), content(at)).await?;
            self.bytes.fetch_add(2 * MIB, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What is at a mebibyte of the file.
fn content(at: u64) -> Bytes {
    let mut state = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..MIB / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect::<Vec<u8>>().into()
}

/// Waits until every replica is there and in sync, or until one is not.
async fn until_redundancy_is(volume: &Volume, whole: bool) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let map = volume.server_map().await?;
        let mut replicas = map.servers.iter().flat_map(|server| &server.replicas);
        if replicas.all(|replica| replica.in_sync && replica.up) == whole {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("after {PATIENCE:?} the replicas are still as they were");
}
