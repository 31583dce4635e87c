//! Writing again what is there: whole chunks, parts of them, and what a checkpoint shares.

use anyhow::Result;
use weft_client::Volume;

use super::{Amount, Bench, MIB, share, show, write_all};

const CHUNK: u32 = 256 << 10;

pub(super) async fn run(bench: &Bench, volume: &Volume, amount: &Amount) -> Result<()> {
    let bytes = (amount.mib / 4).max(1) * MIB;
    smaller_requests(bench, volume, amount, bytes).await?;
    larger_chunks(bench, volume, amount, bytes).await?;
    after_checkpoint(bench, volume, amount, bytes).await
}

/// Requests of less than a chunk, as many bytes of them in flight: what each request costs is in
/// it.
async fn smaller_requests(
    bench: &Bench,
    volume: &Volume,
    amount: &Amount,
    bytes: u64,
) -> Result<()> {
    let file = bench.file(volume, Some(CHUNK)).await?;
    let chunk = u64::from(CHUNK);
    let sizes = [chunk, chunk / 2, chunk / 4, 100_000];
    let mut rates = sizes.map(|_| Vec::new());
    write_all(&file, bytes, chunk, amount.depth(chunk)).await?;
    for round in 0..=bench.runs {
        for (size, rates) in sizes.iter().zip(&mut rates) {
            let rate = write_all(&file, bytes / size * size, *size, amount.depth(*size)).await?;
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
    Ok(())
}

/// Requests of one size, of which one to 16 make a chunk: what it costs to rewrite part of a chunk.
async fn larger_chunks(bench: &Bench, volume: &Volume, amount: &Amount, bytes: u64) -> Result<()> {
    let chunks = [1, 2, 4, 16].map(|times| times * CHUNK);
    let mut files = Vec::new();
    for chunk in chunks {
        let file = bench.file(volume, Some(chunk)).await?;
        write_all(
            &file,
            bytes,
            u64::from(chunk),
            amount.depth(u64::from(chunk)),
        )
        .await?;
        files.push((file, Vec::new()));
    }
    for round in 0..=bench.runs {
        for (file, rates) in &mut files {
            let rate = write_all(
                file,
                bytes,
                u64::from(CHUNK),
                amount.depth(u64::from(CHUNK)),
            )
            .await?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    for (chunk, (_, rates)) in chunks.iter().zip(&files) {
        let what = format!("weft: 256 KiB at a time, chunks of {} KiB", chunk >> 10);
        show(&what, "MiB/s", rates);
    }
    for (chunk, (_, part)) in chunks.iter().zip(&files).skip(1) {
        let what = format!(
            "a part of {} KiB against whole chunks (aim 80 %)",
            chunk >> 10
        );
        share(&what, part, &files[0].1);
    }
    Ok(())
}

async fn after_checkpoint(
    bench: &Bench,
    volume: &Volume,
    amount: &Amount,
    bytes: u64,
) -> Result<()> {
    let file = bench.file(volume, None).await?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    write_all(&file, bytes, MIB, amount.depth(MIB)).await?;
    for round in 0..=bench.runs {
        let own = write_all(&file, bytes, MIB, amount.depth(MIB)).await?;
        let name = round.to_string();
        volume.make_checkpoint(file.path(), &name).await?;
        let shared = write_all(&file, bytes, MIB, amount.depth(MIB)).await?;
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
