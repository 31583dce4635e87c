//! Many small pieces by one call, beside the same bytes in one piece and beside one call for each;
//! and what a small read waits for while others stream. On a volume that runs:
//!
//! ```sh
//! weft up /tmp/v --servers 4 --cache 256MiB
//! cargo run --release -p weft-client --example requests -- /tmp/v 64 9 [write|read|turned|small ...]
//! ```
//! The numbers: MiB of all clients together, rounds; medians are told.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use weft_client::{Access, ConnectOptions, NewLayout, OpenView, Transfer, Volume};
use weft_layout::{Order, Pattern, Subfile, View, ViewOffset};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const CLIENTS: u64 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, mib, rounds, wanted @ ..] = &args[..] else {
        return Err("give a volume's folder, MiB and rounds".into());
    };
    let (bytes, rounds) = (mib.parse::<u64>()? << 20, rounds.parse()?);
    let wants = |what: &str| wanted.is_empty() || wanted.iter().any(|w| w == what);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let options = ConnectOptions::from_folder(Path::new(folder))?;
        clients.push(Volume::connect(options).await?);
    }
    for record in [64, 4096] {
        let views = open_all(&clients, &format!("/interleaved-{record}")).await?;
        let case = Case {
            views,
            share: bytes / CLIENTS,
            record,
        };
        case.warm().await?;
        for (what, write) in [("write", true), ("read", false)] {
            if wants(what) {
                case.measure(what, write, rounds).await?;
            }
        }
    }
    if wants("turned") {
        for bsu in [512, 4 << 10, 64 << 10] {
            transposed(&clients[0], bytes, bsu, rounds).await?;
        }
        turned(&clients, bytes, rounds).await?;
    }
    if wants("small") {
        small(folder, &clients, bytes).await?;
    }
    Ok(())
}

async fn open_all(clients: &[Volume], path: &str) -> Result<Vec<OpenView>> {
    let layout = NewLayout {
        bsu: Some(64 << 10),
        ..NewLayout::default()
    };
    let mut views = Vec::new();
    for client in clients {
        let access = Access::read_write().create(0o644).layout(&layout);
        views.push(client.attach(path, access).await?.canonical()?);
    }
    Ok(views)
}

/// Records of a size, interleaved among the clients.
struct Case {
    views: Vec<OpenView>,
    /// Bytes of each client.
    share: u64,
    record: u64,
}

impl Case {
    fn contiguous(&self, client: u64) -> Transfer {
        Transfer::of(Pattern::bytes(self.share)).at(ViewOffset(client * self.share))
    }

    fn strided(&self, client: u64) -> Transfer {
        let every = (self.record * CLIENTS).cast_signed();
        let records = Pattern::bytes(self.record)
            .every(every)
            .times(self.share / self.record);
        Transfer::of(records).at(ViewOffset(client * self.record))
    }

    async fn warm(&self) -> Result<()> {
        self.all_write(Self::contiguous).await?;
        self.all_write(Self::strided).await?;
        self.all_read(Self::strided).await?;
        Ok(())
    }

    async fn measure(&self, what: &str, write: bool, rounds: usize) -> Result<()> {
        let (mut whole, mut strided) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            if write {
                whole.push(self.all_write(Self::contiguous).await?);
                strided.push(self.all_write(Self::strided).await?);
            } else {
                whole.push(self.all_read(Self::contiguous).await?);
                strided.push(self.all_read(Self::strided).await?);
            }
        }
        let single = self.one_by_one(write).await?;
        let (whole, strided) = (median(whole), median(strided));
        println!(
            "{what} of {}-byte records: strided {strided:.0} MiB/s, {:.0} % of contiguous ({whole:.0}), {:.0} x of one \
             call each",
            self.record,
            100.0 * strided / whole,
            strided / single,
        );
        Ok(())
    }

    async fn all_write(&self, transfer: impl Fn(&Self, u64) -> Transfer) -> Result<f64> {
        let data = Bytes::from(vec![5; self.share as usize]);
        let started = Instant::now();
        let writes = (0..).zip(&self.views).map(|(i, view)| {
            let (transfer, data) = (transfer(self, i), data.clone());
            async move { view.write_with(&transfer, data).await }
        });
        let moved: u64 = try_join_all(writes).await?.into_iter().sum();
        let rate = mib_per_second(moved, started);
        self.views[0].file().sync().await?;
        Ok(rate)
    }

    async fn all_read(&self, transfer: impl Fn(&Self, u64) -> Transfer) -> Result<f64> {
        let mut buffers = vec![vec![1; self.share as usize]; self.views.len()];
        let started = Instant::now();
        let all = (0..).zip(&self.views).zip(&mut buffers);
        let reads = all.map(|((i, view), buffer)| {
            let transfer = transfer(self, i);
            async move { view.read_with(&transfer, buffer).await }
        });
        let moved: u64 = try_join_all(reads).await?.into_iter().sum();
        Ok(mib_per_second(moved, started))
    }

    /// For half a second: the rest would take minutes.
    async fn one_by_one(&self, write: bool) -> Result<f64> {
        let (started, record) = (Instant::now(), self.record);
        let clients = (0..).zip(&self.views).map(|(client, view)| async move {
            let mut buffer = vec![1; record as usize];
            let data = Bytes::from(buffer.clone());
            let mut moved = 0;
            for i in 0..self.share / record {
                let at = ViewOffset((i * CLIENTS + client) * record);
                moved += if write {
                    view.write_at(at, data.clone()).await?
                } else {
                    view.read_at(at, &mut buffer).await?
                };
                if started.elapsed() > Duration::from_millis(500) {
                    break;
                }
            }
            Ok::<_, weft_client::Error>(moved)
        });
        let moved: u64 = try_join_all(clients).await?.into_iter().sum();
        Ok(mib_per_second(moved, started))
    }
}

/// A grid of BSUs, read by rows and by columns: one view each.
async fn transposed(client: &Volume, bytes: u64, bsu: u64, rounds: usize) -> Result<()> {
    const CELLS: u32 = 64;
    let layout = NewLayout {
        cells: Some(CELLS),
        bsu: Some(bsu),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = client.attach(&format!("/grid-{bsu}"), access).await?;
    let all = Bytes::from(vec![4; bytes as usize]);
    file.canonical()?.write_at(ViewOffset(0), all).await?;
    let whole = Subfile {
        vbs: bytes / bsu / u64::from(CELLS),
        vn: 1,
        hbs: u64::from(CELLS),
        hn: 1,
        index: 0,
        order: Order::Row,
    };
    let rows = file.view(View::Subfile(whole))?;
    let order = Order::Default;
    let columns = file.view(View::Subfile(Subfile { order, ..whole }))?;
    let all = Transfer::of(Pattern::bytes(bytes));
    let what = format!("a grid of {CELLS} cells, BSUs of {bsu} bytes");
    compare(&what, [(&rows, &all), (&columns, &all)], bytes, rounds).await
}

/// Reads the same bytes by rows and by columns, in turns.
async fn compare(
    what: &str,
    ways: [(&OpenView, &Transfer); 2],
    bytes: u64,
    rounds: usize,
) -> Result<()> {
    let mut buffer = vec![1; bytes as usize];
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        for ((view, transfer), rates) in ways.iter().zip(&mut rates) {
            let started = Instant::now();
            let moved = view.read_with(transfer, &mut buffer).await?;
            rates.push(mib_per_second(moved, started));
        }
    }
    let [matching, crossing] = rates.map(median);
    println!(
        "{what}: by columns {crossing:.0} MiB/s, {:.0} % of by rows ({matching:.0})",
        100.0 * crossing / matching
    );
    Ok(())
}

/// A matrix stored by rows, read by columns: the last index of memory is the first of the file.
async fn turned(clients: &[Volume], bytes: u64, rounds: usize) -> Result<()> {
    let view = open_all(&clients[..1], "/matrix").await?.remove(0);
    let side = (bytes / 8).isqrt();
    let whole = side * side * 8;
    view.write_at(ViewOffset(0), Bytes::from(vec![2; whole as usize]))
        .await?;
    let by_rows = Transfer::of(Pattern::bytes(whole));
    let elements = Pattern::bytes(8)
        .every((side * 8).cast_signed())
        .times(side);
    let by_columns = Transfer::of(elements.every(8).times(side));
    let ways = [(&view, &by_rows), (&view, &by_columns)];
    compare(&format!("a matrix of {side} x {side}"), ways, whole, rounds).await
}

/// How long a read of 4 KiB by a client of its own takes: alone, and while the others stream.
async fn small(folder: &str, clients: &[Volume], bytes: u64) -> Result<()> {
    let views = open_all(clients, "/streamed").await?;
    let all = Bytes::from(vec![3; bytes as usize]);
    views[0].write_at(ViewOffset(0), all).await?;
    let alone = probed(folder, bytes).await?;
    let streams = views.iter().map(|view| async move {
        let mut buffer = vec![0; bytes as usize];
        loop {
            view.read_at(ViewOffset(0), &mut buffer).await?;
        }
        #[expect(unreachable_code, reason = "the type of the error")]
        Ok::<(), weft_client::Error>(())
    });
    let among = tokio::select! {
        done = probed(folder, bytes) => done?,
        ended = try_join_all(streams) => return Err(format!("{ended:?}").into()),
    };
    println!(
        "a read of 4 KiB: alone p50 {:?}, p99 {:?}; while {CLIENTS} clients stream p50 {:?}, p99 {:?}",
        alone.0, alone.1, among.0, among.1
    );
    Ok(())
}

async fn probed(folder: &str, bytes: u64) -> Result<(Duration, Duration)> {
    let folder = folder.to_owned();
    let probe = move || probe(&folder, bytes).map_err(|e| e.to_string());
    Ok(tokio::task::spawn_blocking(probe).await??)
}

/// The middle and the 99th percentile of many small reads, on a thread of their own.
#[tokio::main(flavor = "current_thread")]
async fn probe(folder: &str, bytes: u64) -> Result<(Duration, Duration)> {
    let client = Volume::connect(ConnectOptions::from_folder(Path::new(folder))?).await?;
    let view = open_all(&[client], "/streamed").await?.remove(0);
    let mut took = Vec::new();
    let mut buffer = [0; 4096];
    for i in 0..500_u64 {
        let at = i * 7919 * 4096 % (bytes - 4096);
        let started = Instant::now();
        view.read_at(ViewOffset(at), &mut buffer).await?;
        took.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    took.sort();
    Ok((took[took.len() / 2], took[took.len() * 99 / 100]))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn mib_per_second(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / f64::from(1 << 20) / started.elapsed().as_secs_f64()
}
