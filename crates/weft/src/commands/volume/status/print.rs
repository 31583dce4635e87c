//! The report of `weft status` for people.

use anyhow::Result;
use weft_store::DiskState;

use super::answers::REFUSED;
use super::rows::{AddressedRow, Report, Row};
use crate::remote::servers::{IN_SYNC, SERVICE_REFUSED};
use crate::terminal::output::{self, bytes};
use crate::volume_config::disk_state;

pub(super) fn print(report: &Report) -> Result<()> {
    let count =
        |n: Option<u64>, what| n.map_or_else(|| format!("? {what}s"), |n| output::count(n, what));
    output::line(format!(
        "volume {}: {}, server map epoch {}, {} pending",
        report.volume,
        count(report.files, "file"),
        report
            .epoch
            .map_or_else(|| "?".to_owned(), |n| n.to_string()),
        count(report.pending, "operation")
    ))?;
    let mut table = output::table(&[
        "NODE",
        "STATE",
        "ADDRESS",
        "PID",
        "USED",
        "AVAILABLE",
        "METRICS",
    ]);
    for row in std::iter::once(&report.meta).chain(&report.servers) {
        let size = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), bytes);
        table.add_row(vec![
            row.node.clone(),
            row.state.to_owned(),
            row.address.clone(),
            row.pid.map_or_else(|| "-".to_owned(), |p| p.to_string()),
            size(row.used),
            size(row.available),
            if row.metrics.is_empty() {
                "-".into()
            } else {
                format!("http://{}/metrics", row.metrics)
            },
        ]);
    }
    output::line(table)?;
    print_replicas(report)?;
    print_losses(report)?;
    print_addressed(report)?;
    print_disks(report)?;
    print_clients(report)?;
    for row in &report.servers {
        if let Some(refusal) = &row.refusal {
            output::line(refusal)?;
        }
    }
    if report.meta.state == REFUSED {
        output::line(SERVICE_REFUSED)?;
    }
    Ok(())
}

/// The replicas, if there are any, and whether all data is as redundant as it should be.
fn print_replicas(report: &Report) -> Result<()> {
    let Some(redundant) = report.redundant else {
        return Ok(());
    };
    let mut table = output::table(&[
        "NODE",
        "ROLE",
        "STATE",
        "ADDRESS",
        "PID",
        "USED",
        "AVAILABLE",
    ]);
    for replica in report.servers.iter().flat_map(|row| &row.replicas) {
        table.add_row(vec![
            replica.node.clone(),
            replica.role.to_owned(),
            replica.state.to_owned(),
            replica.address.clone(),
            replica
                .pid
                .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            bytes(replica.used),
            bytes(replica.available),
        ]);
    }
    output::line("")?;
    output::line(table)?;
    if redundant {
        return output::line("redundancy: every server has all its replicas in sync");
    }
    for row in &report.servers {
        let all = row.replicas.len();
        let in_sync = row.replicas.iter().filter(|r| r.state == IN_SYNC).count();
        if row.missing > 0 {
            output::line(format!(
                "redundancy: {} waits for {} in the place of what was drained",
                row.node,
                output::count(row.missing as usize, "replica")
            ))?;
        }
        if in_sync == all {
            continue;
        }
        let left = row.replicas.iter().filter_map(|r| r.seconds_left).min();
        let until = match left {
            Some(seconds) => format!("for about {seconds} s, until another replica has caught up"),
            None => "until another replica has caught up".to_owned(),
        };
        let what = match in_sync {
            0 => "its data cannot be reached until one of them is back".to_owned(),
            1 => format!("{} exist once, {until}", bytes(row.used.unwrap_or(0))),
            more => format!("{more} copies are left"),
        };
        output::line(format!(
            "redundancy: {} has {in_sync} of {all} replicas in sync: {what}",
            row.node
        ))?;
    }
    Ok(())
}

/// The connected clients.
fn print_clients(report: &Report) -> Result<()> {
    let clients = report.clients.as_deref().unwrap_or_default();
    if clients.is_empty() {
        return Ok(());
    }
    let mut table = output::table(&["CLIENT", "ADDRESS", "SINCE"]);
    for client in clients {
        let name = if client.name.is_empty() {
            "a program"
        } else {
            &client.name
        };
        table.add_row(vec![name, &client.address, &client.since]);
    }
    output::line("")?;
    output::line(table)
}

/// The data that is known to be lost.
fn print_losses(report: &Report) -> Result<()> {
    for row in &report.servers {
        let Some(lost) = row.losses.as_ref().filter(|lost| lost.ranges > 0) else {
            continue;
        };
        if lost.files == 0 {
            output::line(format!(
                "{}: files without data there may have had some, and reading those bytes fails; `weft fsck` lists the files, and \
                 `weft fsck --repair` ends this if there are none",
                row.node
            ))?;
            continue;
        }
        let least = if lost.more { "at least " } else { "" };
        let files = output::count(lost.files, "file");
        output::line(format!(
            "{}: {least}{} of {files} are lost or not proven, and reading them fails; `weft fsck` lists them",
            row.node,
            bytes(lost.bytes)
        ))?;
    }
    Ok(())
}

/// What addressed files share, if there are any.
fn print_addressed(report: &Report) -> Result<()> {
    let rows = || {
        report
            .servers
            .iter()
            .filter_map(|row| row.addressed.as_ref())
    };
    let sum = |of: fn(&AddressedRow) -> u64| rows().map(of).sum::<u64>();
    let (referred, stored) = (sum(|r| r.referred_bytes), sum(|r| r.stored_bytes));
    let removed = sum(|r| r.removed_bytes);
    if referred == 0 && stored == 0 && removed == 0 {
        return Ok(());
    }
    let ratio = referred as f64 / stored.max(1) as f64;
    output::line(format!(
        "addressed files refer to {} and take {} ({ratio:.1} : 1), as of the last cleaning; {} were removed since the servers' start",
        bytes(referred),
        bytes(stored),
        bytes(removed)
    ))?;
    let missing = sum(|r| r.missing_chunks);
    if missing > 0 {
        output::line(format!(
            "{} of addressed files missing or damaged: `weft fsck` lists the files",
            output::count(missing, "chunk")
        ))?;
    }
    Ok(())
}

/// The disks, if a server has several or one is not in use.
fn print_disks(report: &Report) -> Result<()> {
    let usual = |row: &Row| {
        let disks = row.disks.as_deref().unwrap_or_default();
        disks.len() <= 1
            && disks
                .iter()
                .all(|d| d.state == disk_state(DiskState::InUse))
    };
    if report.servers.iter().all(usual) {
        return Ok(());
    }
    let mut table = output::table(&[
        "NODE",
        "DISK",
        "STATE",
        "PATH",
        "USED",
        "AVAILABLE",
        "ERRORS",
        "REASON",
    ]);
    for (row, disk) in report
        .servers
        .iter()
        .flat_map(|r| r.disks.iter().flatten().map(move |d| (r, d)))
    {
        table.add_row(vec![
            row.node.clone(),
            disk.number.to_string(),
            disk.state.to_owned(),
            if disk.path.is_empty() {
                "its folder".to_owned()
            } else {
                disk.path.clone()
            },
            bytes(disk.used),
            bytes(disk.available),
            disk.errors.to_string(),
            disk.reason.clone(),
        ]);
    }
    output::line("")?;
    output::line(table)
}
