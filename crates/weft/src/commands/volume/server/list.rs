//! `weft server list`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use weft_client::{Replica, Server, ServerState, Volume};

use crate::args::Global;
use crate::remote::connect;
use crate::remote::servers::{seconds_left, state_of_replica};
use crate::terminal::output::{self, bytes};
use crate::volume_config::ServerName;

/// List the servers and their replicas
#[derive(Args)]
#[command(after_help = "Examples:
  weft server list
  weft server list --json

STATE: `in sync` has every acknowledged write; `catching up` is being made equal, with an estimate of the time left; `leaving` \
goes when all that stay are in sync; `away` is not there.")]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    node: String,
    /// `only`, `primary` or `backup`.
    role: &'static str,
    state: &'static str,
    leaving: bool,
    domain: String,
    used: u64,
    available: u64,
    address: String,
    /// While it catches up: bytes that were compared, all bytes, and seconds left.
    compared: Option<u64>,
    total: Option<u64>,
    seconds_left: Option<u64>,
    /// Why it cannot catch up; empty: nothing hinders it.
    obstacle: String,
}

impl List {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode> {
        let options = connect::options(global)?;
        let map = connect::block_on(async {
            let volume = Volume::connect(options).await?;
            Ok(volume.server_map().await?)
        })?;
        let rows: Vec<Row> = map.servers.iter().flat_map(rows).collect();
        if self.json {
            output::json(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        let headings = [
            "NODE",
            "ROLE",
            "STATE",
            "DOMAIN",
            "USED",
            "AVAILABLE",
            "ADDRESS",
        ];
        let mut table = output::table(&headings);
        let mut obstacles = Vec::new();
        for row in rows {
            if !row.obstacle.is_empty() {
                obstacles.push(format!("{} cannot catch up: {}", row.node, row.obstacle));
            }
            let state = row.in_words();
            let domain = if row.domain.is_empty() {
                "-".into()
            } else {
                row.domain
            };
            table.add_row(vec![
                row.node,
                row.role.to_owned(),
                state,
                domain,
                bytes(row.used),
                bytes(row.available),
                row.address,
            ]);
        }
        output::line(table)?;
        for obstacle in obstacles {
            output::line(obstacle)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Row {
    fn in_words(&self) -> String {
        let mut words = vec![self.state.to_owned()];
        if let (Some(compared), Some(total @ 1..)) = (self.compared, self.total) {
            words.push(format!("{} of {}", bytes(compared), bytes(total)));
        }
        if let Some(left) = self.seconds_left {
            words.push(format!("{left} s left"));
        }
        if !self.obstacle.is_empty() {
            words.push("hindered".to_owned());
        }
        if self.leaving {
            words.push("leaving".to_owned());
        }
        words.join(", ")
    }
}

fn rows(server: &Server) -> Vec<Row> {
    if server.replicas.is_empty() {
        return vec![Row {
            node: ServerName::of(server.id).to_string(),
            role: "only",
            state: match server.state() {
                ServerState::Up => "up",
                ServerState::RolledBack => "refused",
                ServerState::Down | ServerState::Unknown => "away",
            },
            leaving: false,
            domain: String::new(),
            used: server.usage.used,
            available: server.usage.available,
            address: server.address.clone(),
            compared: None,
            total: None,
            seconds_left: None,
            obstacle: String::new(),
        }];
    }
    let row = |replica: &Replica| {
        let name = ServerName {
            id: server.id,
            replica: replica.number,
        };
        let progress = replica.progress.as_ref().filter(|_| !replica.in_sync);
        Row {
            node: name.to_string(),
            role: if replica.primary { "primary" } else { "backup" },
            state: state_of_replica(replica),
            leaving: replica.leaving,
            domain: replica.domain.clone(),
            used: replica.usage.used,
            available: replica.usage.available,
            address: replica.address.clone(),
            obstacle: progress.map_or_else(String::new, |p| p.obstacle.clone()),
            compared: progress.map(|p| p.done),
            total: progress.map(|p| p.total),
            seconds_left: seconds_left(replica),
        }
    };
    server.replicas.iter().map(row).collect()
}
