//! A spare node: it waits until a server needs a replica, and becomes it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_client::{ConnectOptions, Volume};

use super::vacancies::{Vacancies, Vacancy};
use crate::limits::{SERVER_MAP_POLL_INTERVAL, SPARE_POLL_INTERVAL};
use crate::remote::connect;
use crate::terminal::output;

/// Waits until a replica has been away for so long, or has been drained, but for none of `refused`.
/// While the metadata service does not answer, nobody counts as away.
pub(in crate::commands::volume) fn wait_for_vacancy(
    options: &ConnectOptions,
    after: Duration,
    refused: &[Vacancy],
) -> Result<Vacancy> {
    let mut vacancies = Vacancies::default();
    let mut silent = false;
    loop {
        let map = connect::block_on(async {
            let volume = Volume::connect(options.clone()).await?;
            Ok(volume.server_map().await?)
        });
        match map {
            Ok(map) => {
                let now = Instant::now();
                let mut seen = vacancies.look(&map, now).into_iter();
                let found = seen.find(|s| s.due(after) <= now && !refused.contains(&s.vacancy));
                if let Some(found) = found {
                    return Ok(found.vacancy);
                }
                silent = false;
            }
            Err(error) => {
                vacancies.forget();
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
