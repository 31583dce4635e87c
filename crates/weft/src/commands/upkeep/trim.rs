use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use weft_client::{ServerId, TrimReply};

use crate::args::Global;
use crate::remote::{connect, servers};
use crate::terminal::output::{self, bytes};
use crate::terminal::{Problems, interrupt, progress};

/// Return free space to the file systems or devices that hold the volume
///
/// Servers do this on their own: ten seconds after the last write, they return the space of removed
/// files, deleted checkpoints and the log to the file system (`fallocate`) or the device
/// (`BLKDISCARD`). This command does it at once. The volume stays in use.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft trim /tmp/volume
  weft trim --server 2 --json

Exit code 0: every server returned what it could; 1: a server failed, or could not be asked.")]
pub(crate) struct Trim {
    /// Folder of the volume [default: the volume that the global options name]
    dir: Option<PathBuf>,
    /// Trim only this server; can be repeated
    #[arg(long, value_name = "N")]
    server: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    given_back: u64,
    servers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    server: u32,
    /// Bytes of free blocks that went back by this call.
    given_back: u64,
    /// Bytes of blocks in use.
    used: u64,
    /// Bytes that blocks take on the machine.
    held: u64,
}

impl Row {
    fn of(server: u32, reply: TrimReply) -> Row {
        Row {
            server,
            given_back: reply.bytes,
            used: reply.used,
            held: reply.held,
        }
    }
}

impl Trim {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if let Some(dir) = &self.dir {
            global.name_folder(dir.clone());
        }
        connect::block_on(self.trim(&global))
    }

    async fn trim(&self, global: &Global) -> Result<ExitCode> {
        let volume = connect::volume(global).await?;
        let servers = servers::named(&volume, &self.server).await?;
        let bar = progress::of_things("trim", "servers", servers.len() as u64);
        let problems = Problems::beside(bar.clone());
        let asked = servers.into_iter().map(|server| {
            let (volume, problems, bar) = (&volume, &problems, &bar);
            async move {
                let reply = problems.note(volume.trim(ServerId(server)).await);
                bar.inc(1);
                reply.map(|reply| Row::of(server, reply))
            }
        });
        let all = async { Ok(join_all(asked).await) };
        let rows = interrupt::guard(all, || {
            "servers that were asked may still return space; nothing else is left to do".to_owned()
        });
        let rows = rows.await;
        bar.finish_and_clear();
        let rows: Vec<Row> = rows?.into_iter().flatten().collect();
        let report = Report {
            given_back: rows.iter().map(|row| row.given_back).sum(),
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
    let mut table = output::table(&["SERVER", "RETURNED", "USED", "ON DISK"]);
    for row in &report.servers {
        table.add_row(vec![
            row.server.to_string(),
            bytes(row.given_back),
            bytes(row.used),
            bytes(row.held),
        ]);
    }
    output::line(table)?;
    output::line(format!("{} returned", bytes(report.given_back)))
}
