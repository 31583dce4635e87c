//! Many small pieces by one call: beside one call for each piece, and beside the same bytes in one piece.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use weft_client::{Access, NewLayout, OpenView, Transfer, Volume};
use weft_layout::{Pattern, ViewOffset};

use crate::volume::{Setting, block_on};
use crate::{median, show};

const SERVERS: u32 = 4;
const CLIENTS: u64 = 4;

pub(crate) fn run(setting: &Setting, mib: u64) -> Result<()> {
    let running = setting.volume(SERVERS, "256 MiB")?;
    block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(running.connect().await?);
        }
        for record in [64, 4096] {
            interleaved(setting, &clients, mib << 20, record).await?;
        }
        transposed(setting, &clients[0], mib << 20).await
    })
}

async fn open(volume: &Volume, path: &str) -> Result<OpenView> {
    let layout = NewLayout {
        cells: Some(SERVERS),
        bsu: Some(64 << 10),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    Ok(volume.attach(path, access).await?.canonical()?)
}

/// Client `i` of four reads and writes every fourth record, from the `i`-th on.
async fn interleaved(setting: &Setting, clients: &[Volume], bytes: u64, record: u64) -> Result<()> {
    let path = format!("/interleaved-{record}");
    let mut views = Vec::new();
    for client in clients {
        views.push(open(client, &path).await?);
    }
    let share = bytes / CLIENTS;
    let strided = |client: u64| {
        let every = (record * CLIENTS).cast_signed();
        let records = Pattern::bytes(record).every(every).times(share / record);
        Transfer::of(records).at(ViewOffset(client * record))
    };
    let contiguous =
        |client: u64| Transfer::of(Pattern::bytes(share)).at(ViewOffset(client * share));
    println!("{record}-byte records of {CLIENTS} clients, interleaved:");
    let (mut write, mut read) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    // The first round warms caches and buffers.
    for round in 0..=setting.runs {
        let rates = [
            all_write(&views, share, contiguous).await?,
            all_write(&views, share, strided).await?,
            all_read(&views, share, contiguous).await?,
            all_read(&views, share, strided).await?,
        ];
        if round > 0 {
            for (values, rate) in write.iter_mut().chain(&mut read).zip(rates) {
                values.push(rate);
            }
        }
    }
    // The same bytes would take minutes one by one: a part of them shows the rate.
    let one_write = one_by_one(&views, record, share, true).await?;
    let one_read = one_by_one(&views, record, share, false).await?;
    for (what, [contiguous, strided], single) in
        [("write", &write, one_write), ("read", &read, one_read)]
    {
        show(&format!("{what}, contiguous"), "MiB/s", contiguous);
        show(&format!("{what}, one strided call each"), "MiB/s", strided);
        let strided = median(strided.clone());
        let aim = if record == 64 { 50 } else { 90 };
        let share = 100.0 * strided / median(contiguous.clone());
        println!("{what}, strided against contiguous (aim {aim} %) {share:>17.0} %");
        println!(
            "{what}, strided against one call per record {:>16.0} x  ({single:.2} MiB/s)",
            strided / single
        );
    }
    Ok(())
}

async fn all_write(
    views: &[OpenView],
    share: u64,
    transfer: impl Fn(u64) -> Transfer,
) -> Result<f64> {
    let data = Bytes::from(vec![5; share as usize]);
    let started = Instant::now();
    let writes = (0..).zip(views).map(|(i, view)| {
        let (transfer, data) = (transfer(i), data.clone());
        async move { view.write_with(&transfer, data).await }
    });
    let moved: u64 = try_join_all(writes).await?.into_iter().sum();
    let rate = mib_per_second(moved, started);
    ensure!(moved == share * CLIENTS, "{moved} bytes written");
    views[0].file().sync().await?;
    Ok(rate)
}

async fn all_read(
    views: &[OpenView],
    share: u64,
    transfer: impl Fn(u64) -> Transfer,
) -> Result<f64> {
    let mut buffers = vec![vec![1; share as usize]; views.len()];
    let started = Instant::now();
    let reads = (0..)
        .zip(views)
        .zip(&mut buffers)
        .map(|((i, view), buffer)| {
            let transfer = transfer(i);
            async move { view.read_with(&transfer, buffer).await }
        });
    let moved: u64 = try_join_all(reads).await?.into_iter().sum();
    let rate = mib_per_second(moved, started);
    ensure!(moved == share * CLIENTS, "{moved} bytes read");
    Ok(rate)
}

/// One call per record, for a second or so; MiB per second of all clients.
async fn one_by_one(views: &[OpenView], record: u64, share: u64, write: bool) -> Result<f64> {
    let started = Instant::now();
    let clients = (0..).zip(views).map(|(client, view)| async move {
        let mut buffer = vec![1; record as usize];
        let data = Bytes::from(buffer.clone());
        let mut moved = 0;
        for i in 0..share / record {
            let at = ViewOffset((i * CLIENTS + client) * record);
            moved += if write {
                view.write_at(at, data.clone()).await?
            } else {
                view.read_at(at, &mut buffer).await?
            };
            if started.elapsed().as_millis() > 1000 {
                break;
            }
        }
        anyhow::Ok(moved)
    });
    let moved: u64 = try_join_all(clients).await?.into_iter().sum();
    Ok(mib_per_second(moved, started))
}

/// A matrix stored by rows, read by columns: the last index of memory is the first of the file.
async fn transposed(setting: &Setting, client: &Volume, bytes: u64) -> Result<()> {
    let view = open(client, "/matrix").await?;
    let side = (bytes / 8).isqrt();
    let whole = side * side * 8;
    let data = Bytes::from(vec![2; whole as usize]);
    view.write_at(ViewOffset(0), data).await?;
    let row = (side * 8).cast_signed();
    let by_rows = Transfer::of(Pattern::bytes(whole));
    // Column after column: each an element of every row.
    let columns = Pattern::bytes(8)
        .every(row)
        .times(side)
        .every(8)
        .times(side);
    let by_columns = Transfer::of(columns);
    let mut buffer = vec![1; whole as usize];
    let (mut matching, mut turned) = (Vec::new(), Vec::new());
    for round in 0..=setting.runs {
        for (transfer, rates) in [(&by_rows, &mut matching), (&by_columns, &mut turned)] {
            let started = Instant::now();
            let moved = view.read_with(transfer, &mut buffer).await?;
            ensure!(moved == whole, "{moved} bytes read");
            if round > 0 {
                rates.push(mib_per_second(moved, started));
            }
        }
    }
    println!("a matrix of {side} x {side} elements of 8 bytes, stored by rows:");
    show("read by rows", "MiB/s", &matching);
    show("read by columns", "MiB/s", &turned);
    let share = 100.0 * median(turned) / median(matching);
    println!("by columns against by rows (aim 50 %) {share:>14.0} %");
    Ok(())
}

fn mib_per_second(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / f64::from(1 << 20) / started.elapsed().as_secs_f64()
}
