//! A spare node: it waits until a replica stays away, and takes its place.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_client::{ConnectOptions, Volume};

use super::absences::Absences;
use crate::limits::{SERVER_MAP_POLL_INTERVAL, SPARE_POLL_INTERVAL};
use crate::remote::connect;
use crate::terminal::output;
use crate::volume_config::ServerName;

/// Waits until a replica, but none of `refused`, has been away for so long. While the metadata
/// service does not answer, nobody counts as away.
pub(in crate::commands::volume) fn wait_for_absence(
    options: &ConnectOptions,
    after: Duration,
    refused: &[ServerName],
) -> Result<ServerName> {
    let mut absences = Absences::default();
    let mut silent = false;
    loop {
        let map = connect::block_on(async {
            let volume = Volume::connect(options.clone()).await?;
            Ok(volume.server_map().await?)
        });
        match map {
            Ok(map) => {
                let now = Instant::now();
                let mut found = absences.look(&map, now).into_iter();
                if let Some(absence) =
                    found.find(|a| a.lasts(now) >= after && !refused.contains(&a.name))
                {
                    return Ok(absence.name);
                }
                silent = false;
            }
            Err(error) => {
                absences.forget();
                if !std::mem::replace(&mut silent, true) {
                    output::say(format_args!("weft: {}", output::error(&error)));
                }
            }
        }
        sleep(
            SPARE_POLL_INTERVAL
                .min(after / 4)
                .max(SERVER_MAP_POLL_INTERVAL),
        );
    }
}
