//! Writing again what is there: whole chunks, parts of them, and what a checkpoint shares.

use anyhow::Result;
use weft_client::Volume;

use super::{Bench, MIB, share, show, write_all};

const DEPTH: usize = 8;
const CHUNK: u32 = 256 << 10;

pub(super) async fn run(bench: &Bench, volume: &Volume, mib: u64) -> Result<()> {
    let bytes = (mib / 4).max(1) * MIB;
    let file = bench.file(volume, Some(CHUNK)).await?;
    let chunk = u64::from(CHUNK);
    let sizes = [chunk, chunk / 2, chunk / 4, 100_000];
    let mut rates = sizes.map(|_| Vec::new());
    write_all(&file, bytes, chunk, DEPTH).await?;
    for round in 0..=bench.runs {
        for (size, rates) in sizes.iter().zip(&mut rates) {
            let rate = write_all(&file, bytes / size * size, *size, DEPTH).await?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    for (size, rates) in sizes.iter().zip(&rates) {
        let what = format!("weft: rewrite of 256 KiB chunks, {size} bytes at a time");
        show(&what, "MiB/s", rates);
    }
    for (size, part) in sizes.iter().zip(&rates).skip(1) {
        let what = format!("{size} bytes against whole chunks (aim 80 %)");
        share(&what, part, &rates[0]);
    }
    after_checkpoint(bench, volume, bytes).await
}

async fn after_checkpoint(bench: &Bench, volume: &Volume, bytes: u64) -> Result<()> {
    let file = bench.file(volume, None).await?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    write_all(&file, bytes, MIB, DEPTH).await?;
    for round in 0..=bench.runs {
        let own = write_all(&file, bytes, MIB, DEPTH).await?;
        let name = round.to_string();
        volume.make_checkpoint(file.path(), &name).await?;
        let shared = write_all(&file, bytes, MIB, DEPTH).await?;
        volume.remove_checkpoint(file.path(), &name).await?;
        if round > 0 {
            before.push(own);
            after.push(shared);
        }
    }
    show("weft: rewrite, 1 MiB, sync", "MiB/s", &before);
    show("weft: the same after a checkpoint", "MiB/s", &after);
    share("after a checkpoint (aim 80 %)", &after, &before);
    Ok(())
}
