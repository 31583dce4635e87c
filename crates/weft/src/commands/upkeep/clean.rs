use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use weft_client::{CleanReply, ServerId};

use crate::args::Global;
use crate::remote::{connect, servers};
use crate::terminal::output::{self, bytes, count};
use crate::terminal::{Problems, interrupt, progress};

/// Remove chunks of addressed files that no file and no checkpoint has any more
///
/// Servers do this on their own, about a minute after the last change. This command does it at
/// once, and shows what addressed files share. The volume stays in use.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft clean /tmp/volume
  weft clean --server 2 --json

Exit code 0: every server removed what it could; 1: a server failed, could not be asked, or lacks
chunks that files have.")]
pub(crate) struct Clean {
    /// Folder of the volume [default: the volume that the global options name]
    dir: Option<PathBuf>,
    /// Clean only this server; can be repeated
    #[arg(long, value_name = "N")]
    server: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    removed_bytes: u64,
    servers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    server: u32,
    /// Bytes that files and checkpoints refer to.
    referred_bytes: u64,
    /// Chunks that are stored.
    stored_chunks: u64,
    stored_bytes: u64,
    /// Chunks that this call removed.
    removed_chunks: u64,
    removed_bytes: u64,
    /// Chunks that files refer to and that are not stored, or were found damaged.
    missing_chunks: u64,
}

impl Row {
    fn of(server: u32, reply: CleanReply) -> Row {
        Row {
            server,
            referred_bytes: reply.named_bytes,
            stored_chunks: reply.chunks,
            stored_bytes: reply.chunk_bytes,
            removed_chunks: reply.removed,
            removed_bytes: reply.removed_bytes,
            missing_chunks: reply.missing,
        }
    }
}

impl Clean {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if let Some(dir) = &self.dir {
            global.name_folder(dir.clone());
        }
        connect::block_on(self.clean(&global))
    }

    async fn clean(&self, global: &Global) -> Result<ExitCode> {
        let volume = connect::volume(global).await?;
        let servers = servers::named(&volume, &self.server).await?;
        let bar = progress::of_things("clean", "servers", servers.len() as u64);
        let problems = Problems::beside(bar.clone());
        let asked = servers.into_iter().map(|server| {
            let (volume, problems, bar) = (&volume, &problems, &bar);
            async move {
                let reply = problems.note(volume.clean(ServerId(server), true).await);
                bar.inc(1);
                reply.map(|reply| Row::of(server, reply))
            }
        });
        let all = async { Ok(join_all(asked).await) };
        let rows = interrupt::guard(all, || {
            "servers that were asked may still remove chunks; nothing else is left to do".to_owned()
        });
        let rows = rows.await;
        bar.finish_and_clear();
        let rows: Vec<Row> = rows?.into_iter().flatten().collect();
        for row in rows.iter().filter(|row| row.missing_chunks > 0) {
            let what = format!(
                "server {} lacks {} that files have, or has them damaged: `weft fsck` lists the files; \
                 write those bytes anew, or restore the files from a copy",
                row.server,
                count(row.missing_chunks, "chunk")
            );
            problems.note::<(), _>(Err(anyhow::anyhow!(what)));
        }
        let report = Report {
            removed_bytes: rows.iter().map(|row| row.removed_bytes).sum(),
            servers: rows,
        };
        if self.json {
            output::json(&report)?;
        } else {
            print(&report)?;
        }
        Ok(problems.exit_code())
    }
}

fn print(report: &Report) -> Result<()> {
    let mut table = output::table(&["SERVER", "FILES REFER TO", "STORED", "CHUNKS", "REMOVED"]);
    for row in &report.servers {
        table.add_row(vec![
            row.server.to_string(),
            bytes(row.referred_bytes),
            bytes(row.stored_bytes),
            row.stored_chunks.to_string(),
            bytes(row.removed_bytes),
        ]);
    }
    output::line(table)?;
    output::line(format!("{} removed", bytes(report.removed_bytes)))
}
