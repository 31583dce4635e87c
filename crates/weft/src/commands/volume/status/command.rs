use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::{ServerMapReply, Volume};

use super::answers::{self, REFUSED, ServerAnswer, UP};
use super::print::print;
use super::rows::{ClientRow, DiskRow, ReplicaRow, Report, Row};
use crate::args::Global;
use crate::remote::connect;
use crate::remote::servers::{IN_SYNC, refusal};
use crate::terminal::output;
use crate::volume_config::{Config, NodeName, ServerName, ServerSection, lock_of};

/// Show whether a volume is running, the state of its servers, and how full they are
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft status /tmp/volume
  weft --address host:4700 --key-file volume.key status --json

Exit code 0: everything is up; 1: a node is down, a replica is not in sync, a disk failed or is missing, file data is known to be lost (`weft fsck` lists \
it), or the volume cannot be reached.
The JSON always has the same keys; unknown values are null. For a volume that is not running, it shows what the volume's folder \
tells.")]
pub(crate) struct Status {
    /// Folder of the volume [default: the volume that the global options name]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, mut global: Global) -> Result<ExitCode> {
        if let Some(dir) = self.dir {
            global.name_folder(dir);
        }
        let config = match global.folder() {
            Some(folder) if global.address().is_none() => Some(Config::read(folder)?),
            _ => None,
        };
        let options = connect::options(&global)?;
        let meta_address = options.address.clone();
        let map = connect::block_on(async {
            let volume = Volume::connect(options).await?;
            let map = volume.server_map().await?;
            let answers = answers::all(&volume, &map).await;
            let clients = volume.clients().await.ok();
            Ok((map, answers, clients))
        });
        let (map, answers, clients) = match map {
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
        let mut report = report(&map, answers, meta_address, config.as_ref())?;
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

/// The report if the metadata service does not answer, from the volume's folder: which nodes there
/// are, and which of them have a process.
fn silent(config: &Config, meta_address: String) -> Result<Report> {
    let row = |node: NodeName, address: String, metrics: Option<String>| -> Result<Row> {
        let is_here = node.folder(config).is_ok();
        let running = is_here
            .then(|| lock_of(config, node))
            .transpose()?
            .flatten();
        let pid = running.map(|running| running.pid);
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
            addressed: None,
            replicas: Vec::new(),
            missing: 0,
            refusal: None,
        })
    };
    let server = |s: &ServerSection| {
        let node = NodeName::Server(s.name());
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
        redundant: None,
        clients: None,
    })
}

fn report(
    map: &ServerMapReply,
    mut answers: BTreeMap<u32, ServerAnswer>,
    meta_address: String,
    config: Option<&Config>,
) -> Result<Report> {
    let pid = |node: NodeName| -> Result<Option<i32>> {
        // The configuration of this machine may not name all nodes.
        let named = config.filter(|c| node.folder(c).is_ok());
        Ok(named
            .map(|c| lock_of(c, node))
            .transpose()?
            .flatten()
            .map(|r| r.pid))
    };
    let mut servers = Vec::new();
    for server in &map.servers {
        let mut replicas = Vec::new();
        let mut primary = ServerName::of(server.id);
        for replica in &server.replicas {
            let node = ServerName {
                id: server.id,
                replica: replica.number,
            };
            if replica.primary {
                primary = node;
            }
            replicas.push(ReplicaRow::of(node, replica, pid(NodeName::Server(node))?));
        }
        let pid = pid(NodeName::Server(primary))?;
        let Some(ServerAnswer {
            state,
            disks,
            losses,
            addressed,
        }) = answers.remove(&server.id)
        else {
            continue;
        };
        servers.push(Row {
            node: NodeName::Server(ServerName::of(server.id)).to_string(),
            address: server.address.clone(),
            state,
            pid,
            capacity: Some(server.usage.capacity),
            used: Some(server.usage.used),
            available: Some(server.usage.available),
            metrics: server.metrics.clone(),
            disks,
            losses,
            addressed,
            replicas,
            missing: server.missing,
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
        addressed: None,
        replicas: Vec::new(),
        missing: 0,
        refusal: None,
    };
    let lost = |row: &Row| row.disks.iter().flatten().any(DiskRow::is_lost);
    let replicas = || servers.iter().flat_map(|s| &s.replicas);
    let redundant = replicas()
        .next()
        .map(|_| replicas().all(|r| r.state == IN_SYNC) && servers.iter().all(|s| s.missing == 0));
    Ok(Report {
        volume: map.volume.clone(),
        epoch: Some(map.epoch),
        files: Some(map.files),
        pending: Some(map.intents),
        up: !map.rolled_back
            && redundant != Some(false)
            && servers.iter().all(|s| s.state == UP && !lost(s)),
        meta,
        servers,
        redundant,
        clients: None,
    })
}
