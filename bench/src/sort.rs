//! FastMeshSort's time on 1, 2 and 4 servers.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::show;
use crate::volume::Setting;

pub(crate) fn run(setting: &Setting, mib: u64) -> Result<()> {
    for servers in [1, 2, 4] {
        let running = setting.volume(servers, "512 MiB")?;
        let mut seconds = Vec::new();
        for run in 0..setting.runs {
            let path = format!("/{run}");
            setting.weft(&[
                "--volume",
                running.dir(),
                "create",
                &path,
                "--cells",
                "4",
                "--bsu",
                "64K",
            ])?;
            put(setting, running.dir(), &path, mib, run as u64 + 1)?;
            let out = setting.weft(&[
                "--volume",
                running.dir(),
                "sort",
                &path,
                "--record",
                "64",
                "--key",
                "0..16",
                "--procs",
                "4",
                "--json",
            ])?;
            let report: serde_json::Value = serde_json::from_slice(&out.stdout)?;
            seconds.push(
                report["seconds"]
                    .as_f64()
                    .context("the sort reports its seconds")?
                    * 1e3,
            );
            setting.weft(&["--volume", running.dir(), "rm", &path])?;
        }
        show(
            &format!("sort of {mib} MiB, 64-byte records, {servers} servers"),
            "ms",
            &seconds,
        );
    }
    Ok(())
}

/// Fills a file with pseudo-random records through `weft put`.
fn put(setting: &Setting, dir: &str, path: &str, mib: u64, seed: u64) -> Result<()> {
    let mut child = Command::new(setting.binary())
        .args(["--volume", dir, "put", path])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = child
        .stdin
        .take()
        .context("the child has a standard input")?;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut block = vec![0; 1 << 20];
    for _ in 0..mib {
        for word in block.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        input.write_all(&block)?;
    }
    drop(input);
    anyhow::ensure!(child.wait()?.success(), "weft put failed");
    Ok(())
}
