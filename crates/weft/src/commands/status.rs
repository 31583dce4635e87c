use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use weft_client::{Server, ServerMapReply, ServerState, Volume};

use crate::Global;
use crate::connect;
use crate::output::{self, bytes};
use crate::volume_config::{Config, NodeName, lock_of};

/// Show whether a volume runs, its servers, and how full they are
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft status /tmp/volume
  weft --address host:4700 --key-file volume.key status --json

Exit code 0: everything is up; 1: something is not, or the volume cannot be reached.")]
pub(crate) struct Status {
    /// Folder of the volume; without it, the volume that the global options name
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    volume: String,
    epoch: u64,
    files: u64,
    pending: u64,
    up: bool,
    meta: Row,
    servers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    node: String,
    address: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    capacity: u64,
    used: u64,
    available: u64,
    metrics: String,
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
        let map =
            connect::block_on(async { Ok(Volume::connect(options).await?.server_map().await?) });
        let map = match map {
            Ok(map) => map,
            Err(error) => {
                if let Some(config) = &config
                    && lock_of(config, NodeName::Meta)?.is_none()
                {
                    let dir = config.base.display();
                    let running = config
                        .nodes()
                        .into_iter()
                        .filter(|n| matches!(lock_of(config, *n), Ok(Some(_))));
                    match running.count() {
                        0 => bail!("volume {dir} is not running; start it with `weft up {dir}`"),
                        n => bail!(
                            "the metadata service of volume {dir} is not running ({n} servers are); start it with `weft up {dir}`"
                        ),
                    }
                }
                return Err(error);
            }
        };
        let report = report(&map, meta_address, config.as_ref())?;
        if self.json {
            output::json(&report)?;
        } else {
            print(&report)?;
        }
        Ok(if report.up {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn state(server: &Server) -> &'static str {
    match ServerState::try_from(server.state).unwrap_or(ServerState::Unknown) {
        ServerState::Unknown => "never seen",
        ServerState::Up => "up",
        ServerState::Down => "down",
    }
}

fn report(map: &ServerMapReply, meta_address: String, config: Option<&Config>) -> Result<Report> {
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
        let mut state = state(server);
        if config.is_some() && pid.is_none() {
            // The lock is free: it is down, even if its last heartbeat is younger than that.
            state = "down";
        }
        servers.push(Row {
            node: NodeName::Server(server.id).to_string(),
            address: server.address.clone(),
            state,
            pid,
            capacity: server.usage.capacity,
            used: server.usage.used,
            available: server.usage.available,
            metrics: server.metrics.clone(),
        });
    }
    let meta = Row {
        node: NodeName::Meta.to_string(),
        address: meta_address,
        state: "up",
        pid: pid(NodeName::Meta)?,
        capacity: 0,
        used: 0,
        available: 0,
        metrics: config
            .and_then(|c| c.meta.metrics.clone())
            .unwrap_or_default(),
    };
    Ok(Report {
        volume: map.volume.clone(),
        epoch: map.epoch,
        files: map.files,
        pending: map.intents,
        up: servers.iter().all(|s| s.state == "up"),
        meta,
        servers,
    })
}

fn print(report: &Report) -> Result<()> {
    output::line(format!(
        "volume {}: {} files, server map epoch {}, {} operations pending",
        report.volume, report.files, report.epoch, report.pending
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
        let is_meta = row.node == "meta";
        let size = |n: u64| if is_meta { "-".to_owned() } else { bytes(n) };
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
    output::line(table)
}

/// Waits until the metadata service has heard of every server.
pub(crate) fn wait_for_servers(config: &Config, deadline: Instant) -> Result<()> {
    let options = weft_client::ConnectOptions::from_folder(&config.base)?;
    connect::block_on(async {
        let volume = Volume::connect(options).await?;
        loop {
            let map = volume.server_map().await?;
            let missing: Vec<String> = map
                .servers
                .iter()
                .filter(|s| state(s) != "up")
                .map(|s| NodeName::Server(s.id).to_string())
                .collect();
            if missing.is_empty() {
                return Ok(());
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
