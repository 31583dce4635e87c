use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use weft_client::{
    ScrubFault, ScrubFinding, ScrubRequest, ScrubState, ScrubStatusReply, ServerId, Volume,
};
use weft_layout::size;

use crate::args::Global;
use crate::limits::{SCRUB_POLL_INTERVAL, SCRUB_STALL_TIMEOUT};
use crate::remote::{Location, RemotePath, Visit, Walk, connect, servers};
use crate::terminal::output::{self, bytes};
use crate::terminal::{Problems, interrupt, name, progress};

/// The fault of data that is known to be lost: it has no place on a disk.
const LOST: &str = "lost";

/// Read everything that the servers hold, and report damaged data
///
/// Every server reads its chunks in the background and compares them with their checksums. A
/// server with replicas mends what is damaged, and compares all replicas. Reads and writes of
/// clients take precedence. An interrupted scrub continues where it stopped.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft scrub /tmp/volume
  weft scrub --server 2 --rate 50M
  weft scrub --json

Exit code 0: no damage, or all of it was mended; 1: damage was found, or a server could not be asked; 130 or 143: interrupted.")]
pub(crate) struct Scrub {
    /// Folder of the volume [default: the volume that the global options name]
    dir: Option<PathBuf>,
    /// Scrub only this server; can be repeated
    #[arg(long, value_name = "N")]
    server: Vec<u32>,
    /// Limit on the bytes that each server reads per second [default: 256M]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    rate: Option<u64>,
    /// Start over even if the last scrub was interrupted
    #[arg(long)]
    anew: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    bytes: u64,
    chunks: u64,
    bad_blocks: u64,
    findings_not_told: u64,
    /// Bad blocks that were read from another replica and written anew.
    mended_blocks: u64,
    /// What other replicas could not read or had otherwise, and was sent to them anew.
    replica_bytes: u64,
    replica_files: u64,
    unreachable: Vec<u32>,
    findings: Vec<Row>,
    index: Vec<IndexRow>,
}

/// A file of a server's index that is not what was written.
#[derive(Serialize)]
struct IndexRow {
    server: u32,
    what: String,
}

/// A range of bad blocks.
#[derive(Serialize)]
struct Row {
    server: u32,
    file: u64,
    paths: Vec<String>,
    cell: u32,
    fork: String,
    chunk: u64,
    first_block: u32,
    blocks: u32,
    disk: u32,
    disk_block: u64,
    fault: &'static str,
    mended: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// How the scrub of one server ended.
enum Ended {
    Done(ScrubStatusReply),
    Interrupted,
    Unreachable,
}

impl Scrub {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if let Some(dir) = &self.dir {
            global.name_folder(dir.clone());
        }
        if self.rate == Some(0) {
            bail!("a rate of 0 bytes never ends: give --rate a positive size");
        }
        connect::block_on(self.scrub(&global))
    }

    async fn scrub(&self, global: &Global) -> Result<ExitCode> {
        let volume = connect::volume(global).await?;
        let servers = servers::named(&volume, &self.server).await?;
        let bar = progress::of_bytes("scrub", None);
        let problems = Problems::beside(bar.clone());
        let far: Mutex<BTreeMap<u32, (u64, u64)>> = Mutex::default();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let show = |server: u32, status: &ScrubStatusReply| {
            let mut far = far.lock();
            far.insert(server, (status.bytes, status.total.max(status.bytes)));
            bar.set_length(far.values().map(|f| f.1).sum());
            bar.set_position(far.values().map(|f| f.0).sum());
            // At a low rate nothing else shows progress.
            bar.set_message(match status.rests {
                ..2000 => "scrub".to_owned(),
                rests => format!("scrub (server {server} continues in {} s)", rests / 1000),
            });
        };
        let all = join_all(servers.iter().map(|server| {
            let (volume, problems, stopped, show) = (&volume, &problems, stopped.clone(), &show);
            async move {
                let ended = self.of_server(volume, *server, problems, stopped, show);
                (*server, ended.await)
            }
        }));
        let orderly = interrupt::Orderly::begin()?;
        tokio::pin!(all);
        let ended = tokio::select! {
            ended = &mut all => ended,
            _ = interrupt::asked() => {
                stop.send_replace(true);
                all.await
            }
        };
        drop(orderly);
        bar.finish_and_clear();
        if let Some(signal) = interrupt::pending()
            && ended.iter().any(|(_, e)| matches!(e, Ended::Interrupted))
        {
            return Err(
                signal.ended("the servers have stopped; the next `weft scrub` continues from here")
            );
        }
        self.report(&volume, &problems, ended).await
    }

    /// Starts the scrub of a server and waits for its end. A server that was restarted meanwhile
    /// begins again.
    async fn of_server(
        &self,
        volume: &Volume,
        server: u32,
        problems: &Problems,
        mut stopped: tokio::sync::watch::Receiver<bool>,
        show: &impl Fn(u32, &ScrubStatusReply),
    ) -> Ended {
        let id = ServerId(server);
        let request = |run, anew| ScrubRequest {
            run,
            rate: self.rate.unwrap_or(0),
            anew,
        };
        let mut status = problems.note(volume.scrub(id, request(true, self.anew)).await);
        let mut said = String::new();
        let mut far = (0, Instant::now());
        while let Some(now) = status {
            show(server, &now);
            if now.trouble.is_empty() || now.bytes != far.0 {
                far = (now.bytes, Instant::now());
            } else if far.1.elapsed() > SCRUB_STALL_TIMEOUT {
                problems.say(format_args!(
                    "server {server}: its scrub makes no progress and continues in the background"
                ));
                return Ended::Unreachable;
            }
            if !now.trouble.is_empty() && now.trouble != said {
                said.clone_from(&now.trouble);
                problems.say(format_args!(
                    "server {server}: the scrub is stalled: {said}"
                ));
            }
            match ScrubState::try_from(now.state) {
                Ok(ScrubState::Done) => return Ended::Done(now),
                Ok(ScrubState::Running) => {}
                _ => {
                    // It was restarted, or another user stopped it.
                    status = problems.note(volume.scrub(id, request(true, false)).await);
                    continue;
                }
            }
            tokio::select! {
                biased;
                // On an error no signal can arrive any more, so none is waited for.
                Ok(_) = stopped.wait_for(|stop| *stop) => {
                    problems.note(volume.scrub(id, request(false, false)).await);
                    return Ended::Interrupted;
                }
                () = tokio::time::sleep(SCRUB_POLL_INTERVAL) => {}
            }
            status = problems.note(volume.scrub_status(id).await);
        }
        Ended::Unreachable
    }

    async fn report(
        &self,
        volume: &Volume,
        problems: &Problems,
        ended: Vec<(u32, Ended)>,
    ) -> Result<ExitCode> {
        let mut report = Report {
            bytes: 0,
            chunks: 0,
            bad_blocks: 0,
            findings_not_told: 0,
            mended_blocks: 0,
            replica_bytes: 0,
            replica_files: 0,
            unreachable: Vec::new(),
            findings: Vec::new(),
            index: Vec::new(),
        };
        for (server, ended) in ended {
            match ended {
                Ended::Done(status) => {
                    report.bytes += status.bytes;
                    report.chunks += status.chunks;
                    report.bad_blocks += status.bad;
                    report.findings_not_told += status.more;
                    report.mended_blocks += status.mended;
                    report.replica_bytes += status.replica_bytes;
                    report.replica_files += status.replica_files;
                    let (index, blocks): (Vec<_>, Vec<_>) = status
                        .findings
                        .into_iter()
                        .partition(|f| f.fault == ScrubFault::Index as i32);
                    let rows = blocks.into_iter().map(|f| row(server, f));
                    report.findings.extend(rows);
                    report.bad_blocks -= index.len() as u64;
                    let rows = index.into_iter().map(|f| IndexRow {
                        server,
                        what: f.reason,
                    });
                    report.index.extend(rows);
                }
                Ended::Interrupted | Ended::Unreachable => report.unreachable.push(server),
            }
        }
        name_files(volume, problems, &mut report.findings).await;
        if self.json {
            output::json(&report)?;
        } else {
            print(&report)?;
        }
        let fine = report.bad_blocks == report.mended_blocks
            && report.index.is_empty()
            && report.unreachable.is_empty();
        Ok(if fine {
            problems.exit_code()
        } else {
            ExitCode::FAILURE
        })
    }
}

fn row(server: u32, finding: ScrubFinding) -> Row {
    let fault = match ScrubFault::try_from(finding.fault) {
        Ok(ScrubFault::Checksum) => "wrong checksum",
        Ok(ScrubFault::Unreadable) => "unreadable",
        Ok(ScrubFault::Entry) => "damaged entry",
        Ok(ScrubFault::Lost) => LOST,
        Ok(ScrubFault::Index | ScrubFault::Unknown) | Err(_) => "unknown",
    };
    Row {
        server,
        file: finding.file,
        paths: Vec::new(),
        cell: finding.cell,
        fork: finding.fork,
        chunk: finding.chunk,
        first_block: finding.first,
        blocks: finding.blocks,
        disk: finding.disk,
        disk_block: finding.place,
        fault,
        mended: finding.mended,
        reason: finding.reason,
    }
}

/// Finds the names of damaged files by a walk over the namespace: files do not hold their names.
async fn name_files(volume: &Volume, problems: &Problems, rows: &mut [Row]) {
    let wanted: BTreeSet<u64> = rows.iter().map(|r| r.file).collect();
    if wanted.is_empty() {
        return;
    }
    let found: Mutex<BTreeMap<u64, BTreeSet<String>>> = Mutex::default();
    let look = |visit, location: Location, attributes: weft_client::Attributes| {
        if visit == Visit::File && wanted.contains(&attributes.id) {
            let path = name::escape(location.path().as_ref());
            found.lock().entry(attributes.id).or_default().insert(path);
        }
        async { Ok(()) }
    };
    let root = RemotePath::new(b"/".to_vec());
    if let Some(attributes) = problems.note(volume.stat(&root).await) {
        Walk::new(volume, problems, look)
            .from(root, attributes)
            .await;
    }
    let found = found.into_inner();
    for row in rows {
        let paths = found.get(&row.file).into_iter().flatten();
        row.paths = paths.cloned().collect();
    }
}

/// Whether it is one of the chunks that files share by their names.
fn is_chunk(row: &Row) -> bool {
    row.file == weft_store::ADDRESSED.0
}

fn print(report: &Report) -> Result<()> {
    if !report.findings.is_empty() {
        let mut table = output::table(&[
            "SERVER", "FILE", "CELL", "FORK", "CHUNK", "BLOCKS", "DISK", "FAULT", "PATH",
        ]);
        for row in &report.findings {
            let blocks = match row.blocks {
                0 if row.reason.starts_with("on replica") => "-".to_owned(),
                0 => "all".to_owned(),
                1 => row.first_block.to_string(),
                n => format!("{}-{}", row.first_block, row.first_block + n - 1),
            };
            let fault = match row.reason.as_str() {
                "" => row.fault.to_owned(),
                reason => format!("{}: {reason}", row.fault),
            };
            let fault = if row.mended {
                format!("{fault}, mended")
            } else {
                fault
            };
            table.add_row(vec![
                row.server.to_string(),
                if is_chunk(row) {
                    "-".to_owned()
                } else {
                    row.file.to_string()
                },
                row.cell.to_string(),
                row.fork.clone(),
                row.chunk.to_string(),
                blocks,
                if row.fault == LOST || row.reason.starts_with("on replica") {
                    "-".to_owned()
                } else {
                    format!("{}:{}", row.disk, row.disk_block)
                },
                fault,
                if is_chunk(row) {
                    "(a chunk of addressed files: `weft fsck` lists them)".to_owned()
                } else if row.paths.is_empty() {
                    "(no name found)".to_owned()
                } else {
                    row.paths.join(", ")
                },
            ]);
        }
        output::line(table)?;
    }
    for row in &report.index {
        output::line(format!("server {}: index: {}", row.server, row.what))?;
    }
    if report.findings_not_told > 0 {
        output::line(format!(
            "and {} more",
            output::count(report.findings_not_told, "finding")
        ))?;
    }
    if !report.unreachable.is_empty() {
        let servers: Vec<String> = report.unreachable.iter().map(u32::to_string).collect();
        output::line(format!("not scrubbed: server {}", servers.join(", ")))?;
    }
    if report.replica_files > 0 {
        output::line(format!(
            "{} of {} were damaged or different on other replicas, and sent anew",
            bytes(report.replica_bytes),
            output::count(report.replica_files, "file")
        ))?;
    }
    let mended = match report.mended_blocks {
        0 => String::new(),
        mended => format!(", {mended} of them mended"),
    };
    output::line(format!(
        "{} in {} read, {}{mended}",
        bytes(report.bytes),
        output::count(report.chunks, "chunk"),
        output::count(report.bad_blocks, "bad block")
    ))
}
