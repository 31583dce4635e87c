//! Which replicas are away, and since when.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weft_client::ServerMapReply;

use crate::volume_config::ServerName;

/// Replicas that are away, and since when this process has seen that.
#[derive(Default)]
pub(super) struct Absences(HashMap<ServerName, Instant>);

/// A replica that is away, and can be replaced. The smallest is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Absence {
    /// The replicas of its server that are in sync.
    in_sync: usize,
    since: Instant,
    pub(super) name: ServerName,
}

impl Absence {
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }
}

impl Absences {
    /// Looks at the map; the replicas that are away, the most urgent first: of the server with the
    /// fewest replicas in sync, the one that has been away longest.
    pub(super) fn look(&mut self, map: &ServerMapReply, now: Instant) -> Vec<Absence> {
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
                // Without one in sync, nobody can get the data.
                if in_sync > 0 {
                    found.push(Absence {
                        in_sync,
                        since,
                        name,
                    });
                }
            }
        }
        self.0 = present;
        found.sort_unstable();
        found
    }

    /// Nobody knows who is away.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Whether a replica is away, and not in sync.
pub(in crate::commands::volume) fn is_absent(map: &ServerMapReply, name: ServerName) -> bool {
    let server = map.servers.iter().find(|s| s.id == name.id);
    let mut replicas = server.into_iter().flat_map(|s| &s.replicas);
    replicas.any(|r| r.number == name.replica && !r.up && !r.in_sync)
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
    fn the_server_in_most_danger_comes_first_and_time_begins_anew_with_each_absence() {
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
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut look = |map: &ServerMapReply, seconds| {
            let found = absences.look(map, at(seconds));
            let found = found
                .iter()
                .map(|a| (a.name, a.lasts(at(seconds)).as_secs()));
            found.collect::<Vec<_>>()
        };
        let first = ServerName { id: 1, replica: 3 };
        let second = ServerName { id: 0, replica: 2 };
        assert_eq!(look(&map, 0), [(first, 0), (second, 0)]);
        assert_eq!(look(&map, 9), [(first, 9), (second, 9)]);
        // One that comes back begins anew.
        let mut back = map.clone();
        back.servers[1].replicas[1].up = true;
        assert_eq!(look(&back, 11), [(second, 11)]);
        assert_eq!(look(&map, 13), [(first, 0), (second, 13)]);
        back.servers[0].replicas[2].up = true;
        assert_eq!(look(&back, 14), []);
    }
}
