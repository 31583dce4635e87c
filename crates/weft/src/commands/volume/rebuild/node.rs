//! A node that takes the place of replicas that stay away, on its own machine.
//!
//! Each machine has one node that does so, and each lost replica an order of machines. The later a
//! machine comes in it, the longer its node waits: so a spare comes first, and the next machine
//! only if the one before it does not act. Two that ask at once cost nothing: the metadata service
//! gives the place to one.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use weft_client::ServerMapReply;
use weft_server::{Node, ServerMaps};

use super::absences::{Absence, Absences};
use super::hosts::{host_of, hosts};
use crate::commands::volume::new_node::{Place, free_address};
use crate::limits::{REBUILD_POLL_INTERVALS, REBUILD_STEPS, STATUS_TIMEOUT};
use crate::volume_config::{Config, FILE, ServerName, ServerSection};

/// From now on a node lets new replicas on its machine take the place of those that stay away.
pub(in crate::commands::volume) fn replace_lost(
    node: &Node,
    config: &Config,
    section: Option<ServerSection>,
) {
    if let (Some(section), Some(maps)) = (section, node.server_maps()) {
        tokio::spawn(look(maps, config.clone(), section));
    }
}

/// Looks at the server map for ever.
async fn look(maps: ServerMaps, config: Config, section: ServerSection) {
    let Some(after) = config.volume.rebuild_after.0 else {
        return;
    };
    if let Some(reason) = hindrance(&config, &section) {
        tracing::info!(
            reason,
            "replicas that stay away are not rebuilt by this node"
        );
        return;
    }
    let own = section.name();
    let (shortest, longest) = REBUILD_POLL_INTERVALS;
    let interval = (after / 60).clamp(shortest, longest);
    let mut absences = Absences::default();
    let mut refused: HashMap<ServerName, Instant> = HashMap::new();
    loop {
        sleep(interval).await;
        let Ok(Ok(map)) = timeout(STATUS_TIMEOUT, maps.now()).await else {
            // Nobody counts as away.
            absences.forget();
            continue;
        };
        let now = Instant::now();
        refused.retain(|_, since| now.duration_since(*since) < after);
        let mut found = absences.look(&map, now);
        found.retain(|absence| !refused.contains_key(&absence.name));
        let mut due = found.iter().filter_map(|absence| {
            let domain = due(&map, own, absence, after, now)?;
            Some((absence.name, domain))
        });
        let Some((lost, domain)) = due.next() else {
            continue;
        };
        tracing::info!(%lost, "a new replica on this machine takes the place of one that stays away");
        let replaced = replaced(config.clone(), section.clone(), lost, domain).await;
        if let Err(error) = replaced {
            let error = format!("{error:#}");
            tracing::warn!(%lost, error, "cannot take the place of a replica that stays away");
            refused.insert(lost, Instant::now());
        }
    }
}

/// Why a node may not get another one beside it; none: it may.
fn hindrance(config: &Config, section: &ServerSection) -> Option<&'static str> {
    let folder = config.at(&section.folder);
    if config.path.file_name().is_none_or(|name| name != FILE) {
        Some("its configuration is not named weft.toml")
    } else if folder.parent() != Some(&config.base) {
        Some("its folder is not beside its configuration")
    } else if section.bind.is_some() {
        Some("it is bound to another address than it has")
    } else if !section.data || !section.disks.is_empty() {
        Some("it has disks of its own")
    } else if section.capacity.is_some() {
        Some("its capacity is limited")
    } else {
        None
    }
}

/// Whether it is this node's turn to take a place; in which failure domain the node is.
fn due(
    map: &ServerMapReply,
    own: ServerName,
    absence: &Absence,
    after: Duration,
    now: Instant,
) -> Option<String> {
    let (shortest, longest) = REBUILD_STEPS;
    let step = (after / 15).clamp(shortest, longest);
    let mut order = hosts(map, absence.name).into_iter().zip(1..);
    let ((_, domain), place) = order.find(|((name, _), _)| *name == own)?;
    (absence.lasts(now) >= after + step * place).then_some(domain)
}

/// Runs `weft server replace` on a thread of its own, so that this one can go on.
async fn replaced(
    config: Config,
    section: ServerSection,
    lost: ServerName,
    domain: String,
) -> Result<()> {
    let (done, end) = oneshot::channel();
    std::thread::Builder::new()
        .name("rebuild".to_owned())
        .spawn(move || {
            let _ = done.send(replace(&config, &section, lost, &domain));
        })?;
    end.await.context("the thread has ended")?
}

fn replace(config: &Config, section: &ServerSection, lost: ServerName, domain: &str) -> Result<()> {
    // What was interrupted goes on first.
    let lost = match Place::of_last(&config.base)? {
        Some(Place::Instead(begun)) => begun,
        _ => lost,
    };
    let address = free_address(host_of(&section.address))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--volume").arg(&config.base);
    command.args(["server", "replace", &lost.to_string(), "--listen", &address]);
    if !domain.is_empty() {
        command.args(["--domain", domain]);
    }
    command
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE");
    let status = command.stdin(Stdio::null()).status()?;
    if !status.success() {
        bail!("`weft server replace {lost}` has failed ({status})");
    }
    Ok(())
}
