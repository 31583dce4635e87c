//! Whole files in order: written with a sync, read when nothing is in memory.

use anyhow::Result;
use weft_client::Volume;

use super::{Amount, Bench, MIB, read_places, share, show, write_all};
use crate::disk;

pub(super) async fn run(bench: &Bench, volume: &Volume, amount: &Amount) -> Result<()> {
    let (mib, depth) = (amount.mib, amount.depth(MIB));
    let places: Vec<u64> = (0..mib).map(|i| i * MIB).collect();
    let (mut writes, mut reads) = (Pairs::default(), Pairs::default());
    // Once before, which does not count: the first touch of memory is not what is measured.
    for round in 0..=bench.runs {
        let direct = bench.folder.join(bench.name());
        let weft = bench.file(volume, None).await?;
        let limit = disk::direct_write(&direct, mib, depth)?;
        let before = bench.running.cpu_seconds()?;
        let rate = write_all(&weft, mib * MIB, MIB, depth).await?;
        let write_cpu = bench.running.cpu_seconds()? - before;

        bench.running.restart()?;
        let view = weft.canonical()?;
        let cold_limit = disk::direct_read(&direct, &places, MIB as usize, depth)?;
        let before = bench.running.cpu_seconds()?;
        let seconds = read_places(&view, &places, MIB as usize, depth).await?;
        let read_cpu = bench.running.cpu_seconds()? - before;
        if round > 0 {
            let gib = mib as f64 / 1024.0;
            writes.add(rate, limit, write_cpu / gib);
            reads.add(
                mib as f64 / seconds,
                mib as f64 / cold_limit,
                read_cpu / gib,
            );
        }
    }
    let pieces = format!("1 MiB, {depth} in flight");
    writes.show(&format!("sequential write, {pieces}, sync"), "(aim 90 %)");
    reads.show(&format!("sequential read, {pieces}, cold"), "(aim 90 %)");
    Ok(())
}

/// Weft's figures beside the disk's.
#[derive(Default)]
struct Pairs {
    weft: Vec<f64>,
    direct: Vec<f64>,
    cpu: Vec<f64>,
}

impl Pairs {
    fn add(&mut self, weft: f64, direct: f64, cpu: f64) {
        self.weft.push(weft);
        self.direct.push(direct);
        self.cpu.push(cpu * 1000.0);
    }

    fn show(&self, what: &str, aim: &str) {
        show(&format!("direct: {what}"), "MiB/s", &self.direct);
        show(&format!("weft: {what}"), "MiB/s", &self.weft);
        share(
            &format!("share of direct I/O {aim}"),
            &self.weft,
            &self.direct,
        );
        show("the server's processor time", "ms/GiB", &self.cpu);
    }
}
