use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{FileKind, FsckOptions, FsckProgress, FsckReport, Volume};
use weft_layout::{FileId, ServerId};
use weft_proto::upkeep::DiskCondition;

use super::rows::{NotChecked, Report, Row};
use super::{offline, replicas, words};
use crate::args::Global;
use crate::limits::{FSCK_NAMED_MAX, OPEN_FILES_POLL_INTERVAL, OPEN_FILES_TIMEOUT};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output::{self, bytes};
use crate::terminal::{interrupt, name, progress};

/// Check the consistency of a volume, and repair it with --repair
///
/// The check compares names, cells, chunks and blocks with each other. Without --repair no stored
/// data is changed, except that --offline starts and stops the nodes, and that a damaged second
/// copy of a server's tables is replaced, which is reported once. The volume can be in use
/// meanwhile. Cells without a name go to /lost+found. Data that cannot be read is dropped and
/// reported; of a damaged log that is everything after the damage. Bytes that this may have changed
/// are then not proven, and reading them fails. Restore the files that a repair reports from a
/// backup.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft fsck /tmp/volume                      check only, while the volume is in use
  weft fsck /tmp/volume --repair             check and repair
  weft fsck /tmp/volume --data --json        also read every block
  weft fsck --accept /data/grid              from now on, lost bytes of the file read as zeros and unproven ones as they are
  weft fsck --accept-server 2                the same for unproven bytes, and bytes lost by formatting, of all files on a server
  weft fsck --offline /tmp/volume --repair   a stopped volume, even one whose stores do not open

Some bytes are known to be lost, for instance by an earlier repair. Others are not proven to be what was written last, because a
server lost part of its log or runs from an older copy of its folder. Every check reports them until they are written again, their
file is removed or restored, or --accept replaces lost bytes by zeros and makes the others readable. The same holds for what a
server held before it was formatted again, in files and in checkpoints. --repair alone accepts nothing.

Exit code: 0: no errors; 1: all errors are repaired; 4: errors are left; 8: the check failed or is incomplete; 16: wrong usage;
130 or 143: interrupted.")]
pub(crate) struct Fsck {
    /// Folder of the volume [default: the volume that the global options name]
    #[arg(conflicts_with = "offline")]
    dir: Option<PathBuf>,
    /// Check the stopped volume in this folder
    #[arg(long, value_name = "DIR")]
    offline: Option<PathBuf>,
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
    /// Also read every block and compare it with its checksum, as `weft scrub` does; with --repair,
    /// also compare the replicas of each server, and make them equal
    #[arg(long)]
    data: bool,
    /// Before the check, replace lost bytes of this file by zeros, in its cells and checkpoints,
    /// and make unproven bytes readable; can be repeated
    #[arg(long, value_name = "FILE", value_parser = remote::parser())]
    accept: Vec<RemotePath>,
    /// Before the check, make unproven bytes of all files on this server readable, and replace what
    /// it held before it was formatted again by zeros; can be repeated
    #[arg(long, value_name = "SERVER", conflicts_with = "offline")]
    accept_server: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Waits until a restarted metadata service knows which files are open. The check skips the sizes
/// of open files, and until then all files count as open.
async fn wait_for_clients(volume: &Volume) -> Result<()> {
    let began = Instant::now();
    let mut said = false;
    while volume.server_map().await?.recovering && began.elapsed() < OPEN_FILES_TIMEOUT {
        if !std::mem::replace(&mut said, true) {
            output::say(
                "weft: the metadata service has just restarted after a crash; waiting until clients have reported their open files",
            );
        }
        tokio::time::sleep(OPEN_FILES_POLL_INTERVAL).await;
    }
    Ok(())
}

impl Fsck {
    pub(crate) fn run(self, mut global: Global) -> ExitCode {
        if let Some(dir) = &self.dir {
            global.name_folder(dir.clone());
        }
        match connect::block_on(self.fsck(&global)) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                let error = connect::explained(&global, error);
                output::say(format_args!("weft: {}", output::error(&error)));
                interrupt::exit_code(&error).unwrap_or(ExitCode::from(8))
            }
        }
    }

    async fn fsck(&self, global: &Global) -> Result<u8> {
        let report = match &self.offline {
            None => {
                let volume = connect::volume(global).await?;
                wait_for_clients(&volume).await?;
                Box::pin(self.check(&volume, Vec::new())).await?
            }
            Some(dir) => {
                let mut offline = offline::Offline::open(dir, self.repair).await?;
                let obstacles = std::mem::take(&mut offline.obstacles);
                let result = Box::pin(self.check(&offline.volume, obstacles)).await;
                offline.close().await?;
                result?
            }
        };
        if self.json {
            output::json(&report)?;
        } else {
            print(&report, self.repair)?;
        }
        let mut code = 0;
        if report.repaired > 0 {
            code = 1;
        }
        if report.left > 0 || report.findings_not_kept > 0 {
            code = 4;
        }
        if !report.not_checked.is_empty() {
            code |= 8;
        }
        Ok(code)
    }

    /// Checks a volume that can be connected to. `before`: findings from opening it.
    async fn check(&self, volume: &Volume, before: Vec<Row>) -> Result<Report> {
        let mut before = before;
        let mut accepted_files = BTreeMap::new();
        for path in &self.accept {
            let (file, rows) = accept(volume, path).await?;
            accepted_files.insert(file, path);
            before.extend(rows);
        }
        for server in &self.accept_server {
            let accepted = volume.accept_unproven(ServerId(*server)).await?;
            if accepted.ranges > 0 {
                let amount = (accepted.ranges, accepted.bytes);
                before.push(words::accepted_all(*server, amount));
            }
        }
        let bar = progress::of_bytes("fsck", None);
        let show = |now: FsckProgress| {
            // An inode counts as much as the bytes that are read for it.
            let weigh = |(inodes, bytes): (u64, u64)| inodes * 512 + bytes;
            bar.set_length(weigh((now.inodes.1, now.bytes.1)));
            bar.set_position(weigh((now.inodes.0, now.bytes.0)));
            bar.set_message(format!(
                "fsck: {}, {}",
                output::count(now.files, "file"),
                output::count(now.repairs, "repair")
            ));
        };
        let options = FsckOptions {
            repair: self.repair,
            data: self.data,
            accept_files: accepted_files.keys().copied().collect(),
            accept_servers: self.accept_server.iter().copied().map(ServerId).collect(),
        };
        let check = async { Ok(volume.fsck(options, &show).await?) };
        let found = interrupt::guard(check, || {
            let done = if self.repair {
                "repairs made so far are kept"
            } else {
                "nothing was changed"
            };
            format!("the check is not complete; {done}; the same command starts over")
        });
        let found = found.await;
        bar.finish_and_clear();
        let mut report = report_of(found?);
        let before = not_found_again(before, &mut report.findings);
        report.findings.splice(0..0, before);
        for (file, path) in accepted_files {
            let found = |row: &Row| row.file == Some(file.0) && row.repaired.is_some();
            if !report.findings.iter().any(found) {
                output::say(format_args!(
                    "weft: {path}: no bytes of it are known to be lost"
                ));
            }
        }
        report.findings.extend(missing_disks(volume).await?);
        if self.data && self.repair {
            report.findings.extend(replicas::compare(volume).await?);
        }
        report.replicas_behind = replicas::behind(volume).await?;
        name_files(volume, &mut report.findings).await?;
        let repaired = report
            .findings
            .iter()
            .filter(|row| row.repaired.is_some())
            .count();
        report.repaired = repaired as u64;
        report.left = (report.findings.len() - repaired) as u64;
        Ok(report)
    }
}

/// Replaces lost bytes of a file by zeros. Returns the file, and a row for each server that had
/// lost some of it.
async fn accept(volume: &Volume, path: &RemotePath) -> Result<(FileId, Vec<Row>)> {
    let attributes = volume.stat(path).await?;
    if remote::kind(&attributes) != FileKind::Regular {
        bail!("{path} is not a regular file: only those have bytes to accept");
    }
    let mut rows = Vec::new();
    for server in volume.server_map().await?.servers {
        let id = ServerId(server.id);
        let accepted = volume.accept_losses(id, FileId(attributes.id)).await?;
        if accepted.ranges > 0 {
            let amount = (accepted.ranges, accepted.bytes);
            rows.push(words::accepted(server.id, attributes.id, amount));
        }
    }
    Ok((FileId(attributes.id), rows))
}

fn report_of(found: FsckReport) -> Report {
    let unreachable = found.unreachable.into_iter();
    Report {
        inodes: found.inodes,
        files: found.files,
        cells: found.cells,
        chunks: found.chunks,
        bytes: found.bytes,
        repaired: 0,
        left: 0,
        findings_not_kept: found.not_kept,
        not_checked: unreachable
            .map(|(server, reason)| NotChecked {
                server: server.0,
                reason,
            })
            .collect(),
        findings: found.found.into_iter().map(words::row).collect(),
        replicas_behind: Vec::new(),
    }
}

/// Drops findings from before the check that the check itself reports again. A repair while a store
/// opened may have turned bytes into lost or unproven ones; these are reported once, in their
/// current state.
fn not_found_again(before: Vec<Row>, findings: &mut [Row]) -> Vec<Row> {
    let is_now = |row: &Row, now: &Row| {
        let place = |row: &Row| (row.file, row.server, row.cell, row.fork.clone());
        let left = now.lost.is_some() && now.repaired.is_none();
        row.file.is_some() && left && place(row) == place(now)
    };
    let kept = before.into_iter().filter_map(|row| {
        let Some(now) = findings.iter_mut().find(|now| is_now(&row, now)) else {
            return Some(row);
        };
        // The finding of the check covers the truncated log, but not what is wrong with a chunk.
        if let Some(chunk) = row.chunk.filter(|_| !words::is_of_log(&row)) {
            now.what = format!("{}; of chunk {chunk}, {}", now.what, row.what);
        }
        None
    });
    kept.collect()
}

/// Missing disks: data on them cannot be read until they are back.
async fn missing_disks(volume: &Volume) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for server in volume.server_map().await?.servers {
        // A server that does not answer is listed among those that were not checked.
        let Ok(reply) = volume.disks(ServerId(server.id)).await else {
            continue;
        };
        let missing = reply
            .disks
            .into_iter()
            .filter(|disk| disk.condition == DiskCondition::Missing as i32);
        rows.extend(missing.map(|disk| words::missing(server.id, &disk)));
    }
    Ok(rows)
}

/// Looks up the names of the files in the findings: files do not hold their names.
async fn name_files(volume: &Volume, rows: &mut [Row]) -> Result<()> {
    let wanted: BTreeSet<u64> = rows.iter().filter_map(|row| row.file).collect();
    let wanted: Vec<u64> = wanted.into_iter().take(FSCK_NAMED_MAX).collect();
    let mut found: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for some in wanted.chunks(1000) {
        for (file, path) in volume.names_of(some).await? {
            found.entry(file).or_default().insert(name::escape(&path));
        }
    }
    for row in rows {
        let paths = row.file.and_then(|file| found.get(&file));
        row.paths = paths.into_iter().flatten().cloned().collect();
    }
    Ok(())
}

fn print(report: &Report, repair: bool) -> Result<()> {
    for row in &report.findings {
        let mut text = words::place(row);
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&row.what);
        match &row.repaired {
            Some(done) => {
                text.push_str(" -- repaired: ");
                text.push_str(done);
            }
            None if repair => text.push_str(" -- not repaired"),
            None => {}
        }
        output::line(text)?;
    }
    if report.findings_not_kept > 0 {
        output::line(format!(
            "and {} more",
            output::count(report.findings_not_kept, "finding")
        ))?;
    }
    for replica in &report.replicas_behind {
        output::line(format!(
            "{} is not in sync ({}): `weft server list` shows how far it has come",
            replica.node, replica.state
        ))?;
    }
    for server in &report.not_checked {
        output::line(format!(
            "server {} was not checked: {}",
            server.server, server.reason
        ))?;
    }
    output::line(format!(
        "{}, {} in {}, {} in {}: {}",
        output::count(report.inodes, "inode"),
        output::count(report.files, "file"),
        output::count(report.cells, "cell"),
        bytes(report.bytes),
        output::count(report.chunks, "chunk"),
        match (report.repaired, report.left) {
            (0, 0) if report.not_checked.is_empty() => "nothing is wrong".to_owned(),
            (0, 0) => "nothing is wrong in what was checked".to_owned(),
            (repaired, 0) => format!("{repaired} repaired"),
            (0, left) if !repair && report.findings.iter().any(|row| row.repairable) =>
                format!("{left} wrong; --repair repairs what can be"),
            (0, left) if !repair => format!("{left} wrong"),
            (repaired, left) => format!("{repaired} repaired, {left} left"),
        }
    ))
}

#[cfg(test)]
mod tests {
    use weft_client::{Fault, Finding, Found};
    use weft_proto::io::ForkPlace;

    use super::*;

    #[test]
    fn bytes_lost_while_a_store_opened_are_reported_once() {
        let row = |fault: Fault, file, cell, done: bool| {
            let place = ForkPlace {
                cell,
                fork: "data".to_owned(),
            };
            let finding = Finding {
                fault: fault as i32,
                file,
                server: Some(0),
                place: Some(place),
                chunk: (fault != Fault::Unproven).then_some(3),
                found: 10,
                ..Finding::default()
            };
            let done = done.then(|| "done".to_owned());
            words::row(Found { finding, done })
        };
        let before = vec![
            row(Fault::Unreadable, 7, 1, true),
            row(Fault::Entry, 7, 1, true),
            row(Fault::Unreadable, 7, 2, true),
            row(Fault::IndexRecord, 0, 0, true),
        ];
        let mut findings = vec![row(Fault::Unproven, 7, 1, false)];
        let kept = not_found_again(before, &mut findings);
        let kept: Vec<_> = kept.iter().map(|row| (row.file, row.cell)).collect();
        assert_eq!(kept, [(Some(7), Some(2)), (None, Some(0))]);
        let what = &findings[0].what;
        assert!(
            what.contains("of chunk 3, the entry of the chunk"),
            "{what}"
        );
        assert!(!what.contains("bytes are lost"), "{what}");
    }
}
