//! A spare node: it waits until a replica stays away, and takes its place.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_client::{ConnectOptions, ServerMapReply, Volume};

use crate::limits::{SERVER_MAP_POLL_INTERVAL, SPARE_POLL_INTERVAL};
use crate::remote::connect;
use crate::terminal::output;
use crate::volume_config::ServerName;

/// Replicas that are away, and since when this process has seen that.
#[derive(Default)]
struct Absences(HashMap<ServerName, Instant>);

impl Absences {
    /// Looks at the map; the replica to replace, if one has been away for so long: of the server
    /// with the fewest replicas in sync, the one that has been away longest.
    fn look(
        &mut self,
        map: &ServerMapReply,
        after: Duration,
        now: Instant,
        refused: &[ServerName],
    ) -> Option<ServerName> {
        let mut present = HashMap::new();
        let mut found = Vec::new();
        for server in &map.servers {
            let in_sync = server.replicas.iter().filter(|r| r.in_sync && r.up).count();
            for replica in &server.replicas {
                if replica.up || replica.in_sync || replica.leaving {
                    continue;
                }
                let name = ServerName {
                    id: server.id,
                    replica: replica.number,
                };
                let since = *self.0.get(&name).unwrap_or(&now);
                present.insert(name, since);
                if in_sync > 0 && now.duration_since(since) >= after {
                    found.push((in_sync, since, name));
                }
            }
        }
        self.0 = present;
        found.retain(|(.., name)| !refused.contains(name));
        found.into_iter().min().map(|(_, _, name)| name)
    }
}

/// Whether a replica is away, and not in sync.
pub(super) fn is_absent(map: &ServerMapReply, name: ServerName) -> bool {
    let server = map.servers.iter().find(|s| s.id == name.id);
    let mut replicas = server.into_iter().flat_map(|s| &s.replicas);
    replicas.any(|r| r.number == name.replica && !r.up && !r.in_sync)
}

/// Waits until a replica, but none of `refused`, has been away for so long. While the metadata
/// service does not answer, nobody counts as away.
pub(super) fn wait_for_absence(
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
                if let Some(name) = absences.look(&map, after, Instant::now(), refused) {
                    return Ok(name);
                }
                silent = false;
            }
            Err(error) => {
                absences = Absences::default();
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

#[cfg(test)]
mod tests {
    use weft_client::{Replica, Server};

    use super::*;

    fn server(id: u32, replicas: &[(u32, bool, bool)]) -> Server {
        let replica = |(number, in_sync, up): &(u32, bool, bool)| Replica {
            number: *number,
            in_sync: *in_sync,
            up: *up,
            ..Replica::default()
        };
        Server {
            id,
            replicas: replicas.iter().map(replica).collect(),
            ..Server::default()
        }
    }

    #[test]
    fn the_server_in_most_danger_is_helped_first_and_only_after_the_time() {
        let map = ServerMapReply {
            servers: vec![
                server(0, &[(0, true, true), (1, true, true), (2, false, false)]),
                server(1, &[(0, true, true), (3, false, false)]),
                // Nobody has its data, so nobody can get it.
                server(2, &[(0, true, false), (1, false, false)]),
                server(3, &[]),
            ],
            ..ServerMapReply::default()
        };
        let (mut absences, began) = (Absences::default(), Instant::now());
        let after = Duration::from_secs(10);
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(absences.look(&map, after, began, &[]), None);
        assert_eq!(absences.look(&map, after, at(9), &[]), None);
        let name = ServerName { id: 1, replica: 3 };
        assert_eq!(absences.look(&map, after, at(10), &[]), Some(name));
        // One that comes back begins anew.
        let mut back = map.clone();
        back.servers[1].replicas[1].up = true;
        let other = ServerName { id: 0, replica: 2 };
        assert_eq!(absences.look(&back, after, at(11), &[]), Some(other));
        back.servers[0].replicas[2].up = true;
        assert_eq!(absences.look(&back, after, at(12), &[]), None);
        assert_eq!(absences.look(&map, after, at(13), &[]), None);
        assert_eq!(absences.look(&map, after, at(23), &[]), Some(name));
    }
}
