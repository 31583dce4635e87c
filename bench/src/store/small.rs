//! 4 KiB here and there: written with a sync each, read when nothing is in memory.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use weft_client::{OpenView, Volume};
use weft_layout::ViewOffset;

use super::{Amount, Bench, MIB, read_places, share, show, write_all};
use crate::disk;

const DEPTH: usize = 16;
const SIZE: u64 = 4096;
/// Places of a list request, and such requests in flight.
const LISTED: usize = 16;
const LISTS: usize = 4;

/// Different blocks of a file in no order; the same ones for the same round.
fn places(bytes: u64, count: u64, round: u64) -> Vec<u64> {
    let blocks = bytes / SIZE;
    // A step that shares no factor with the number of blocks meets each once.
    let mut step = (blocks / 2 + 7919) | 1;
    while gcd(step, blocks) > 1 {
        step += 2;
    }
    let at = |i: u64| ((i + round * count).wrapping_mul(step)) % blocks * SIZE;
    (0..count.min(blocks)).map(at).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) async fn run(bench: &Bench, volume: &Volume, amount: &Amount) -> Result<()> {
    let (bytes, count) = (amount.mib * MIB, amount.small);
    let direct = bench.folder.join(bench.name());
    disk::direct_write(&direct, amount.mib, 8)?;
    let weft = bench.file(volume, None).await?;
    write_all(&weft, bytes, MIB, 8).await?;
    let view = weft.canonical()?;
    let data = &Bytes::from(vec![7; SIZE as usize]);
    let mut writes = (Vec::new(), Vec::new());
    let mut reads = (Vec::new(), Vec::new());
    let mut lists = (Vec::new(), Vec::new());
    // What noise touches least: the server's processor time for each.
    let mut busy = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=bench.runs {
        let places = places(bytes, count, round as u64);
        let limit = disk::direct_write_synced(&direct, &places, SIZE as usize, DEPTH)?;
        let (before, started, view) = (bench.running.cpu_seconds()?, Instant::now(), &view);
        stream::iter(&places)
            .map(|at| async move { view.write_at_synced(ViewOffset(*at), data.clone()).await })
            .buffer_unordered(DEPTH)
            .try_collect::<Vec<u64>>()
            .await?;
        let seconds = started.elapsed().as_secs_f64();
        let writing = bench.running.cpu_seconds()? - before;
        bench.running.restart()?;
        // The first call after a restart connects.
        view.read_at(ViewOffset(0), &mut [0]).await?;
        let cold_limit = disk::direct_read(&direct, &places, SIZE as usize, DEPTH)?;
        let before = bench.running.cpu_seconds()?;
        let cold = read_places(view, &places, SIZE as usize, DEPTH).await?;
        let reading = bench.running.cpu_seconds()? - before;
        bench.running.restart()?;
        view.read_at(ViewOffset(0), &mut [0]).await?;
        let deep_limit = disk::direct_read(&direct, &places, SIZE as usize, LISTED * LISTS)?;
        let before = bench.running.cpu_seconds()?;
        let listed = read_lists(view, &places).await?;
        let listing = bench.running.cpu_seconds()? - before;
        if round > 0 {
            let rate = |seconds: f64| places.len() as f64 / seconds;
            writes.0.push(rate(seconds));
            writes.1.push(rate(limit));
            reads.0.push(rate(cold));
            reads.1.push(rate(cold_limit));
            lists.0.push(rate(listed));
            lists.1.push(rate(deep_limit));
            let each = |seconds: f64| seconds * 1e6 / places.len() as f64;
            busy.0.push(each(writing));
            busy.1.push(each(reading));
            busy.2.push(each(listing));
        }
    }
    show(
        "direct: random write, 4 KiB, sync, depth 16",
        "/s",
        &writes.1,
    );
    show("weft: random write, 4 KiB, sync, depth 16", "/s", &writes.0);
    share("share of direct I/O (aim 50 %)", &writes.0, &writes.1);
    show("the server's processor time", "us each", &busy.0);
    show("direct: random read, 4 KiB, depth 16, cold", "/s", &reads.1);
    show("weft: random read, 4 KiB, depth 16, cold", "/s", &reads.0);
    share("share of direct I/O (aim 80 %)", &reads.0, &reads.1);
    show("the server's processor time", "us each", &busy.1);
    let deep = format!("4 KiB, depth {}, cold", LISTED * LISTS);
    show(&format!("direct: random read, {deep}"), "/s", &lists.1);
    let listed = format!("weft: the same as lists of {LISTED}, {LISTS} in flight");
    show(&listed, "/s", &lists.0);
    share("share of direct I/O", &lists.0, &lists.1);
    show("the server's processor time", "us each", &busy.2);
    Ok(())
}

/// Reads small blocks as list requests; seconds.
async fn read_lists(view: &OpenView, places: &[u64]) -> Result<f64> {
    let started = Instant::now();
    stream::iter(places.chunks(LISTED))
        .map(|places| async move {
            let mut buffers = vec![[0_u8; SIZE as usize]; places.len()];
            let of = buffers.iter_mut().zip(places);
            let mut list: Vec<_> = of
                .map(|(buffer, at)| (ViewOffset(*at), &mut buffer[..]))
                .collect();
            view.read_list(&mut list).await
        })
        .buffer_unordered(LISTS)
        .try_collect::<Vec<u64>>()
        .await?;
    Ok(started.elapsed().as_secs_f64())
}
