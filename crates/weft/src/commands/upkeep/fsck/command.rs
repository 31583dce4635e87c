use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use weft_client::{FileKind, FsckOptions, FsckProgress, FsckReport, Volume};
use weft_layout::{FileId, ServerId};
use weft_proto::upkeep::DiskCondition;

use super::rows::{NotChecked, Report, Row};
use super::{offline, words};
use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output::{self, bytes};
use crate::terminal::{interrupt, name, progress};

/// The most files whose names are looked up.
const NAMED_MAX: usize = 10_000;

/// Check a volume for disagreements between names, cells, chunks and blocks, and repair them
///
/// Without --repair nothing that is stored is changed (--offline starts the nodes in this process,
/// and they note that; a second copy of a server's tables is made anew by itself, which is told
/// once). Both ways it runs while the volume is used. What cannot be placed goes to /lost+found.
/// What cannot be read is gone on without, and named: of a damaged log that is everything behind
/// the damage. What that may have changed is not proven from then on, and reading it fails. Restore
/// the files that a repair names from a copy.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft fsck /tmp/volume                      look, while the volume is in use
  weft fsck /tmp/volume --repair             repair as well
  weft fsck /tmp/volume --data --json        read every block, too
  weft fsck --accept /data/grid              what is lost of the file reads as zeros from now on, what is not proven as it is
  weft fsck --accept-server 2                the same for what is not proven, or was formatted away, of all files on a server
  weft fsck --offline /tmp/volume --repair   a stopped volume, also one whose stores refuse to open

Bytes that are known to be lost, by an earlier repair for instance, or that are not proven to be what was written last, because a
server lost a part of its log or runs from an older copy of its folder, are named by every check until they are written anew, their
file is removed or restored, or --accept makes zeros of what is lost and shows what there is of the rest. So is what a server held
that was formatted anew, in files and in their checkpoints. --repair alone accepts nothing.

Exit code: 0: nothing is wrong; 1: all that was wrong is repaired; 4: something that is wrong is left; 8: the check could not be
made, or not wholly; 16: wrong usage; 130 or 143: interrupted.")]
pub(crate) struct Fsck {
    /// Folder of the volume; without it, the volume that the global options name
    #[arg(conflicts_with = "offline")]
    dir: Option<PathBuf>,
    /// Check the stores of a stopped volume in this folder
    #[arg(long, value_name = "DIR")]
    offline: Option<PathBuf>,
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
    /// Read every block and compare it with its checksum, as `weft scrub` does
    #[arg(long)]
    data: bool,
    /// Make zeros of what is lost of this file, in its cells and checkpoints, and show what is not
    /// proven, before the check; can be given several times
    #[arg(long, value_name = "FILE", value_parser = remote::parser())]
    accept: Vec<RemotePath>,
    /// Show what is not proven of all files on the server of this number, before the check, and
    /// make zeros of what it held before it was formatted anew; can be given several times
    #[arg(long, value_name = "SERVER", conflicts_with = "offline")]
    accept_server: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Longer than clients may take to report their open files.
const CLIENTS_TELL: Duration = Duration::from_mins(1);

/// Waits until a service that was started after it had died knows which files are open: sizes of
/// those are not looked at, and until then they are all.
async fn wait_for_clients(volume: &Volume) -> Result<()> {
    let began = Instant::now();
    let mut said = false;
    while volume.server_map().await?.recovering && began.elapsed() < CLIENTS_TELL {
        if !std::mem::replace(&mut said, true) {
            output::say(
                "the metadata service was started a moment ago, after it had died: waiting until clients have told what they have open",
            );
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
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
                self.check(&volume, Vec::new()).await?
            }
            Some(dir) => {
                let mut offline = offline::Offline::open(dir, self.repair).await?;
                let obstacles = std::mem::take(&mut offline.obstacles);
                let result = self.check(&offline.volume, obstacles).await;
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

    /// Checks a volume that can be connected to; `before`: what was found on the way there.
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
                "what was repaired stays so"
            } else {
                "nothing was changed"
            };
            format!("the check is not complete; {done}; the same command begins again")
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
                    "weft: {path}: nothing of it is known to be lost"
                ));
            }
        }
        report.findings.extend(missing_disks(volume).await?);
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

/// Makes zeros of what is lost of a file; which file that is, and a row for each server that had
/// lost something of it.
async fn accept(volume: &Volume, path: &RemotePath) -> Result<(FileId, Vec<Row>)> {
    let attributes = volume.stat(path).await?;
    if remote::kind(&attributes) != FileKind::Regular {
        bail!("{path}: only files have bytes that can be lost");
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
    }
}

/// What was found on the way to the check, without what the check finds of the same bytes after it.
/// What opening a store repaired of a cell may be that its bytes are known to be lost since, or in
/// doubt: they are said once, as they are now.
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
        // What was cut with the log's end the finding says itself; what is wrong with a chunk it
        // does not.
        if let Some(chunk) = row.chunk.filter(|_| !words::is_of_log(&row)) {
            now.what = format!("{}; of chunk {chunk}, {}", now.what, row.what);
        }
        None
    });
    kept.collect()
}

/// Disks that are not there: what lies on them cannot be read, and is whole again when they are
/// back.
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
    let wanted: Vec<u64> = wanted.into_iter().take(NAMED_MAX).collect();
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
            None if repair => text.push_str(" -- left as it is"),
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
    fn bytes_that_are_lost_since_a_store_was_opened_are_said_once() {
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
        assert!(what.contains("of chunk 3, what says where"), "{what}");
        assert!(!what.contains("bytes are lost"), "{what}");
    }
}
