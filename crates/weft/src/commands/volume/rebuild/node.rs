//! A node that gives servers the replicas that they need, on its own machine.
//!
//! Each machine has one node that does so, and each vacancy an order of machines. The later a
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

use super::hosts::{host_of, hosts};
use super::vacancies::{Seen, Vacancies, Vacancy};
use crate::commands::volume::new_node::{Place, free_address};
use crate::limits::{REBUILD_POLL_INTERVALS, REBUILD_REST, REBUILD_STEPS, STATUS_TIMEOUT};
use crate::volume_config::{Config, FILE, ServerName, ServerSection};

/// From now on a node gives servers the replicas that they need, if its machine has room.
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
        tracing::info!(reason, "no other node joins on this machine by itself");
        return;
    }
    let own = section.name();
    let (shortest, longest) = REBUILD_POLL_INTERVALS;
    let interval = (after / 60).clamp(shortest, longest);
    let mut vacancies = Vacancies::default();
    let mut refused: HashMap<Vacancy, Instant> = HashMap::new();
    loop {
        sleep(interval).await;
        let Ok(Ok(map)) = timeout(STATUS_TIMEOUT, maps.now()).await else {
            // Nobody counts as away.
            vacancies.forget();
            continue;
        };
        let now = Instant::now();
        refused.retain(|_, since| now.duration_since(*since) < after.min(REBUILD_REST));
        let mut seen = vacancies.look(&map, now);
        seen.retain(|seen| !refused.contains_key(&seen.vacancy));
        let mut due = seen.iter().filter_map(|seen| {
            let domain = own_turn(&map, own, seen, after, now)?;
            Some((seen.vacancy, domain))
        });
        let Some((vacancy, domain)) = due.next() else {
            continue;
        };
        let place = vacancy.place();
        tracing::info!(%place, "a new node on this machine joins");
        let filled = on_a_thread(config.clone(), section.clone(), vacancy, domain).await;
        if let Err(error) = filled {
            let error = format!("{error:#}");
            tracing::warn!(%place, error, "a new node on this machine cannot join");
            refused.insert(vacancy, Instant::now());
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

/// Whether it is this node's turn to fill a vacancy; in which failure domain the node is.
fn own_turn(
    map: &ServerMapReply,
    own: ServerName,
    seen: &Seen,
    after: Duration,
    now: Instant,
) -> Option<String> {
    let (shortest, middle, longest) = REBUILD_STEPS;
    let step = match seen.vacancy {
        Vacancy::Missing(_) => (after / 15).clamp(shortest, middle),
        Vacancy::Lost(_) => (after / 15).clamp(shortest, longest),
    };
    let mut order = hosts(map, seen.vacancy).into_iter().zip(1..);
    let ((_, domain), turn) = order.find(|((name, _), _)| *name == own)?;
    (now >= seen.due(after) + step * turn).then_some(domain)
}

/// Fills a vacancy on a thread of its own, so that this one can go on.
async fn on_a_thread(
    config: Config,
    section: ServerSection,
    vacancy: Vacancy,
    domain: String,
) -> Result<()> {
    let (done, end) = oneshot::channel();
    std::thread::Builder::new()
        .name("rebuild".to_owned())
        .spawn(move || {
            let _ = done.send(fill(&config, &section, vacancy, &domain));
        })?;
    end.await.context("the thread has ended")?
}

/// Runs the command that an administrator would run.
fn fill(config: &Config, section: &ServerSection, vacancy: Vacancy, domain: &str) -> Result<()> {
    // What was interrupted goes on first.
    let begun = Place::of_last(&config.base)?.and_then(Vacancy::of);
    let vacancy = begun.unwrap_or(vacancy);
    let address = free_address(host_of(&section.address))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--volume").arg(&config.base).arg("server");
    match vacancy {
        Vacancy::Lost(name) => command.args(["replace", &name.to_string()]),
        Vacancy::Missing(id) => command.args(["add", "--missing", "--replica-of", &id.to_string()]),
    };
    command.args(["--listen", &address]);
    if !domain.is_empty() {
        command.args(["--domain", domain]);
    }
    command
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE");
    let status = command.stdin(Stdio::null()).status()?;
    if !status.success() {
        bail!("the command that adds it has failed ({status}): its message is above");
    }
    Ok(())
}
