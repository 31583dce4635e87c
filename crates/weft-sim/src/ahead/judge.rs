//! Looks at everything in the end, when all faults are repaired and all clients have done their
//! work.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_client::{ConnectOptions, Error, Fault, Found, FsckOptions, Volume};

use super::life::see;
use super::shared::Shared;
use super::slot::ZOMBIE_TIMEOUT;
use crate::client::{RECOVERY_TIME, connect};
use crate::state::now;

/// Names that faults have made uncertain are certain so long after the last fault.
const SETTLE_TIMEOUT: u64 = 5 * ZOMBIE_TIMEOUT;

/// Makes the root of the run, and judges its end.
///
/// # Errors
/// What failed although nothing disturbs the volume any more.
pub(super) async fn judge(shared: Shared, options: ConnectOptions) -> Result<(), String> {
    let volume = connect(options).await;
    let root = loop {
        match volume.make_directory("/ahead", 0o755).await {
            Ok(made) => break made,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        if let Ok(made) = volume.stat("/ahead").await {
            break made;
        }
    };
    while volume.sync_namespace().await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    shared.names().root_made(root.id);
    while !shared.state.lock().is_quiet() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(RECOVERY_TIME).await;
    let healed = all(&shared, &volume).await;
    healed.map_err(|e| format!("after healing: {e}"))
}

async fn all(shared: &Shared, volume: &Volume) -> Result<(), Error> {
    let begun = now();
    while !shared.names().all_certain() {
        let uncertain = shared.names().uncertain(now());
        match uncertain {
            Some((directory, name)) => see(shared, volume, (directory, &name), true).await?,
            None => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        if now() > begun + SETTLE_TIMEOUT {
            shared.names().note_wrong("a name never settles".to_owned());
            return Ok(());
        }
    }
    let mut paths = BTreeMap::new();
    let count = shared.names().directory_count();
    for directory in 0..count {
        let (path, names) = {
            let model = shared.names();
            (model.path_of(directory), model.names_in(directory))
        };
        for name in &names {
            see(shared, volume, (directory, name), false).await?;
        }
        if shared.names().is_replaced(directory) {
            continue;
        }
        let Ok(found) = volume.list(&path).all().await else {
            continue;
        };
        for entry in found {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let path = format!("{path}/{name}");
            if !names.contains(&name) && !name.starts_with('x') {
                let wrong = format!("{path} was never made");
                shared.names().note_wrong(wrong);
            }
            if let Some(other) = paths.insert(entry.attributes.id, path.clone()) {
                let wrong = format!("{path} and {other} are the same file");
                shared.names().note_wrong(wrong);
            }
        }
    }
    let report = volume.fsck(FsckOptions::default(), &|_| {}).await?;
    let mut names = shared.names();
    let lost_power = names.processes().has_lost_power();
    let explained = |found: &Found| {
        let server = found.finding.server.map(|server| server as usize);
        match Fault::try_from(found.finding.fault) {
            // The service forgot a file that was not synced, and the servers have its bytes.
            Ok(Fault::LostCells) => lost_power,
            Ok(Fault::Short) => {
                server.is_some_and(|server| shared.state.lock().losses.any_of(server))
            }
            _ => false,
        }
    };
    if !report.found.iter().all(explained) || !report.unreachable.is_empty() {
        let wrong = format!("the check of the volume found: {report:?}");
        names.note_wrong(wrong);
    }
    Ok(())
}
