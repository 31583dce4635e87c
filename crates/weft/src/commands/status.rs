use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use weft_client::{
    ConnectedClient, DiskCondition, DiskReport, Server, ServerMapReply, ServerState, Volume,
};
use weft_store::DiskState;

mod asked;

use asked::{Asked, REFUSED, UP};

use crate::args::Global;
use crate::remote::connect;
use crate::terminal::output::{self, bytes};
use crate::volume_config::{Config, NodeName, ServerSection, lock_of};

/// Show whether a volume runs, its servers, and how full they are
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft status /tmp/volume
  weft --address host:4700 --key-file volume.key status --json

Exit code 0: everything is up; 1: something is not (a disk that failed or is missing, too), bytes of files are known to be lost \
(`weft fsck` names them), or the volume cannot be reached.
JSON has the same keys whatever is up; what is not known is null. Of a volume that is not running it is printed, too, as \
far as the volume's folder tells.")]
pub(crate) struct Status {
    /// Folder of the volume; without it, the volume that the global options name
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Every key is always there; what nobody could say is `null`.
#[derive(Serialize)]
struct Report {
    volume: String,
    epoch: Option<u64>,
    files: Option<u64>,
    pending: Option<u64>,
    up: bool,
    meta: Row,
    servers: Vec<Row>,
    /// Mounts and other programs that are connected.
    clients: Option<Vec<ClientRow>>,
}

#[derive(Serialize)]
struct ClientRow {
    address: String,
    name: String,
    /// RFC 3339.
    since: String,
}

impl ClientRow {
    fn of(client: ConnectedClient) -> ClientRow {
        let since = Duration::from_nanos(client.since.unsigned_abs());
        let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + since);
        ClientRow {
            address: client.address,
            name: client.name,
            since: since.to_string(),
        }
    }
}

#[derive(Serialize)]
struct Row {
    node: String,
    address: String,
    state: &'static str,
    pid: Option<i32>,
    capacity: Option<u64>,
    used: Option<u64>,
    available: Option<u64>,
    metrics: String,
    /// Of a server that could be asked.
    disks: Option<Vec<DiskRow>>,
    /// What is lost of what a server held, as far as it could be asked.
    losses: Option<LossRow>,
    /// Why a server that is there takes no part, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

/// Bytes that are known to be lost: reading them fails.
#[derive(Serialize)]
struct LossRow {
    files: u64,
    ranges: u64,
    bytes: u64,
    /// There is more than was counted.
    more: bool,
}

#[derive(Serialize)]
struct DiskRow {
    number: u32,
    path: String,
    state: &'static str,
    reason: String,
    used: u64,
    available: u64,
    errors: u64,
}

impl DiskRow {
    fn of(disk: DiskReport) -> DiskRow {
        let state = match DiskCondition::try_from(disk.condition) {
            Ok(DiskCondition::InUse) => DiskState::InUse,
            Ok(DiskCondition::Full) => DiskState::Full,
            Ok(DiskCondition::Missing) => DiskState::Missing,
            Ok(DiskCondition::Closed) => DiskState::Closed,
            Ok(DiskCondition::Failed | DiskCondition::Unknown) | Err(_) => DiskState::Failed,
        };
        DiskRow {
            number: disk.number,
            path: disk.path,
            state: words(state),
            reason: disk.reason,
            used: disk.used,
            available: disk.available,
            errors: disk.errors,
        }
    }

    fn is_lost(&self) -> bool {
        [DiskState::Failed, DiskState::Missing]
            .map(words)
            .contains(&self.state)
    }
}

/// A disk's state in words.
pub(crate) fn words(state: DiskState) -> &'static str {
    match state {
        DiskState::InUse => "in use",
        DiskState::Full => "full",
        DiskState::Failed => "failed",
        DiskState::Missing => "missing",
        DiskState::Closed => "no new data",
    }
}

impl Status {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if let Some(dir) = self.dir {
            global.volume = Some(dir);
            global.address = None;
        }
        let config = match &global.volume {
            Some(folder) if global.address.is_none() => Some(Config::read(folder)?),
            _ => None,
        };
        let options = connect::options(&global)?;
        let meta_address = options.address.clone();
        let map = connect::block_on(async {
            let volume = Volume::connect(options).await?;
            let map = volume.server_map().await?;
            let asked = asked::all(&volume, &map).await;
            let clients = volume.clients().await.ok();
            Ok((map, asked, clients))
        });
        let (map, asked, clients) = match map {
            Ok(found) => found,
            Err(error) => {
                if let Some(config) = &config {
                    if self.json {
                        output::json(&silent(config, meta_address)?)?;
                    }
                    connect::not_running(config)?;
                }
                return Err(error);
            }
        };
        let mut report = report(&map, asked, meta_address, config.as_ref())?;
        let clients = clients.map(|all| all.into_iter().map(ClientRow::of));
        report.clients = clients.map(Iterator::collect);
        if self.json {
            output::json(&report)?;
        } else {
            print(&report)?;
        }
        let lost = |row: &Row| row.losses.as_ref().is_some_and(|lost| lost.ranges > 0);
        Ok(if report.up && !report.servers.iter().any(lost) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// What the volume's folder tells where the metadata service does not answer: which nodes there are, and which of them
/// have a process.
fn silent(config: &Config, meta_address: String) -> Result<Report> {
    let row = |node: NodeName, address: String, metrics: Option<String>| -> Result<Row> {
        let pid = lock_of(config, node)?.map(|running| running.pid);
        let up = pid.is_some() && node != NodeName::Meta;
        Ok(Row {
            node: node.to_string(),
            address,
            state: if up { "up" } else { "down" },
            pid,
            capacity: None,
            used: None,
            available: None,
            metrics: metrics.unwrap_or_default(),
            disks: None,
            losses: None,
            refusal: None,
        })
    };
    let server = |s: &ServerSection| {
        let node = NodeName::Server(s.id);
        row(node, s.address.clone(), s.metrics.clone())
    };
    let servers: Result<Vec<Row>> = config.servers.iter().map(server).collect();
    Ok(Report {
        volume: config.volume.name.clone(),
        epoch: None,
        files: None,
        pending: None,
        up: false,
        meta: row(NodeName::Meta, meta_address, config.meta.metrics.clone())?,
        servers: servers?,
        clients: None,
    })
}

fn report(
    map: &ServerMapReply,
    mut asked: BTreeMap<u32, Asked>,
    meta_address: String,
    config: Option<&Config>,
) -> Result<Report> {
    let pid = |node: NodeName| -> Result<Option<i32>> {
        Ok(config
            .map(|c| lock_of(c, node))
            .transpose()?
            .flatten()
            .map(|r| r.pid))
    };
    let mut servers = Vec::new();
    for server in &map.servers {
        let pid = pid(NodeName::Server(server.id))?;
        let Some(Asked {
            state,
            disks,
            losses,
        }) = asked.remove(&server.id)
        else {
            continue;
        };
        servers.push(Row {
            node: NodeName::Server(server.id).to_string(),
            address: server.address.clone(),
            state,
            pid,
            capacity: Some(server.usage.capacity),
            used: Some(server.usage.used),
            available: Some(server.usage.available),
            metrics: server.metrics.clone(),
            disks,
            losses,
            refusal: (state == REFUSED).then(|| refusal(server)),
        });
    }
    let meta = Row {
        node: NodeName::Meta.to_string(),
        address: meta_address,
        state: if map.rolled_back { REFUSED } else { UP },
        pid: pid(NodeName::Meta)?,
        capacity: None,
        used: None,
        available: None,
        metrics: config
            .and_then(|c| c.meta.metrics.clone())
            .unwrap_or_default(),
        disks: None,
        losses: None,
        refusal: None,
    };
    let lost = |row: &Row| row.disks.iter().flatten().any(DiskRow::is_lost);
    Ok(Report {
        volume: map.volume.clone(),
        epoch: Some(map.epoch),
        files: Some(map.files),
        pending: Some(map.intents),
        up: !map.rolled_back && servers.iter().all(|s| s.state == UP && !lost(s)),
        meta,
        servers,
        clients: None,
    })
}

fn print(report: &Report) -> Result<()> {
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
    print_losses(report)?;
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

/// Who uses the volume now.
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

/// What is known to be lost.
fn print_losses(report: &Report) -> Result<()> {
    for row in &report.servers {
        let Some(lost) = row.losses.as_ref().filter(|lost| lost.ranges > 0) else {
            continue;
        };
        if lost.files == 0 {
            output::line(format!(
                "{}: files of which it has nothing may have had bytes there, and reading those fails; `weft fsck` names them, and `weft fsck --repair` ends this when there are none",
                row.node
            ))?;
            continue;
        }
        let least = if lost.more { "at least " } else { "" };
        let files = output::count(lost.files, "file");
        output::line(format!(
            "{}: {least}{} of {files} are lost or not proven, and reading them fails; `weft fsck` names them",
            row.node,
            bytes(lost.bytes)
        ))?;
    }
    Ok(())
}

/// The disks, where a server has several or something is wrong with one.
fn print_disks(report: &Report) -> Result<()> {
    let usual = |row: &Row| {
        let disks = row.disks.as_deref().unwrap_or_default();
        disks.len() <= 1 && disks.iter().all(|d| d.state == words(DiskState::InUse))
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

/// Waits until the metadata service has heard of every server; returns what is to be said of nodes that are refused because
/// their folders are older than what they said before.
pub(crate) fn wait_for_servers(config: &Config, deadline: Instant) -> Result<Vec<String>> {
    let options = weft_client::ConnectOptions::from_folder(&config.base)?;
    connect::block_on(async {
        let volume = Volume::connect(options).await?;
        loop {
            let map = volume.server_map().await?;
            let has: Vec<u32> = map.servers.iter().map(|server| server.id).collect();
            config.check_servers_are(&has, &config.nodes())?;
            let (mut missing, mut refused) = (Vec::new(), Vec::new());
            for server in &map.servers {
                match ServerState::try_from(server.state) {
                    Ok(ServerState::Up) => {}
                    Ok(ServerState::RolledBack) => refused.push(refusal(server)),
                    _ => missing.push(NodeName::Server(server.id).to_string()),
                }
            }
            if missing.is_empty() {
                if map.rolled_back {
                    refused.push(SERVICE_REFUSED.to_owned());
                }
                return Ok(refused);
            }
            if Instant::now() > deadline {
                bail!(
                    "the metadata service has not heard of {}",
                    missing.join(", ")
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

/// What to do about a server that is refused.
pub(crate) fn refusal(server: &Server) -> String {
    let (id, newest) = (server.id, newest(server));
    format!(
        "server {id} is refused: its folder is older than what the server said before{newest}, or a copy of it runs already. Put the newest \
         copy of the folder back; or take this one by `weft server accept-rollback {id}`: what was written to it since is lost, and reading \
         its files is an error until each is written anew, restored or accepted"
    )
}

/// How old the folder of a server that is refused is.
pub(crate) fn newest(server: &Server) -> String {
    match u64::try_from(server.newest) {
        Ok(nanos) if nanos > 0 => {
            let time = UNIX_EPOCH + Duration::from_nanos(nanos);
            let time = humantime::format_rfc3339_seconds(time);
            format!(" (its newest bytes were written at {time})")
        }
        _ => String::new(),
    }
}

/// What to do about a metadata service that went back.
pub(crate) const SERVICE_REFUSED: &str = "the metadata service is refused: its folder is older than what the servers heard of it. Put the newest copy of the \
     folder back; or take this one by `weft server accept-rollback metadata`, and names and small files that were changed since are lost";
