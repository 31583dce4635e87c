//! Which servers need a new replica, and since when.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weft_client::ServerMapReply;

use crate::commands::volume::new_node::Place;
use crate::volume_config::ServerName;

/// A place that a new replica can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::commands::volume) enum Vacancy {
    /// That of one that was drained, of this server.
    Missing(u32),
    /// That of this one, which is away.
    Lost(ServerName),
}

impl Vacancy {
    /// The vacancy that an attempt to join was about; `None`: it was another join.
    pub(in crate::commands::volume) fn of(place: Place) -> Option<Vacancy> {
        match place {
            Place::Missing(server) => Some(Vacancy::Missing(server)),
            Place::Instead(name) => Some(Vacancy::Lost(name)),
            Place::NewServer | Place::ReplicaOf(_) => None,
        }
    }

    pub(in crate::commands::volume) fn place(self) -> Place {
        match self {
            Vacancy::Missing(server) => Place::Missing(server),
            Vacancy::Lost(name) => Place::Instead(name),
        }
    }

    pub(super) fn server(self) -> u32 {
        match self {
            Vacancy::Missing(server) => server,
            Vacancy::Lost(name) => name.id,
        }
    }

    /// Whether the place is free by this map.
    pub(in crate::commands::volume) fn is_in(self, map: &ServerMapReply) -> bool {
        in_map(map).any(|(vacancy, _)| vacancy == self)
    }
}

/// The vacancies of a map, with how many replicas their servers have in sync.
fn in_map(map: &ServerMapReply) -> impl Iterator<Item = (Vacancy, usize)> {
    map.servers.iter().flat_map(|server| {
        let in_sync = server.replicas.iter().filter(|r| r.in_sync && r.up).count();
        let lost = server.replicas.iter();
        let lost = lost.filter(|r| !r.up && !r.in_sync && !r.leaving);
        let lost = lost.map(|r| {
            Vacancy::Lost(ServerName {
                id: server.id,
                replica: r.number,
            })
        });
        let missing = (server.missing > 0).then_some(Vacancy::Missing(server.id));
        lost.chain(missing).map(move |vacancy| (vacancy, in_sync))
    })
}

/// Vacancies, and since when this process has seen them.
#[derive(Default)]
pub(super) struct Vacancies(HashMap<Vacancy, Instant>);

/// A vacancy that can be filled. The smallest is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    /// The replicas of its server that are in sync.
    in_sync: usize,
    since: Instant,
    pub(super) vacancy: Vacancy,
}

impl Seen {
    /// When it may be filled, if one that is lost may be away for so long.
    pub(super) fn due(&self, after: Duration) -> Instant {
        match self.vacancy {
            Vacancy::Missing(_) => self.since,
            Vacancy::Lost(_) => self.since + after,
        }
    }
}

impl Vacancies {
    /// Looks at the map; the vacancies that can be filled, the most urgent first: of the server
    /// with the fewest replicas in sync, the oldest. Without one in sync, nobody can get the data.
    pub(super) fn look(&mut self, map: &ServerMapReply, now: Instant) -> Vec<Seen> {
        let seen = in_map(map).map(|(vacancy, in_sync)| Seen {
            in_sync,
            since: *self.0.get(&vacancy).unwrap_or(&now),
            vacancy,
        });
        let mut seen: Vec<Seen> = seen.collect();
        self.0 = seen.iter().map(|s| (s.vacancy, s.since)).collect();
        seen.retain(|s| s.in_sync > 0);
        seen.sort_unstable();
        seen
    }

    /// Nobody knows who is away.
    pub(super) fn forget(&mut self) {
        self.0.clear();
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
    fn the_server_in_most_danger_comes_first_and_time_begins_anew_with_each_absence() {
        let mut map = ServerMapReply {
            servers: vec![
                server(0, &[(0, true, true), (1, true, true), (2, false, false)]),
                server(1, &[(0, true, true), (3, false, false)]),
                // Nobody has its data, so nobody can get it.
                server(2, &[(0, true, false), (1, false, false)]),
                server(3, &[]),
            ],
            ..ServerMapReply::default()
        };
        let (mut vacancies, began) = (Vacancies::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        // With the times at which they may be filled.
        let mut look = |map: &ServerMapReply, seconds| {
            let seen = vacancies.look(map, at(seconds)).into_iter();
            let due = |s: &Seen| (s.due(Duration::from_secs(100)) - began).as_secs();
            seen.map(|s| (s.vacancy, due(&s))).collect::<Vec<_>>()
        };
        let first = Vacancy::Lost(ServerName { id: 1, replica: 3 });
        let second = Vacancy::Lost(ServerName { id: 0, replica: 2 });
        assert_eq!(look(&map, 0), [(first, 100), (second, 100)]);
        assert_eq!(look(&map, 9), [(first, 100), (second, 100)]);
        // One that comes back begins anew.
        let mut back = map.clone();
        back.servers[1].replicas[1].up = true;
        assert_eq!(look(&back, 11), [(second, 100)]);
        assert_eq!(look(&map, 13), [(first, 113), (second, 100)]);
        // One that was drained waits for nobody.
        map.servers[0].replicas[2].leaving = true;
        map.servers[0].missing = 1;
        let drained = Vacancy::Missing(0);
        assert_eq!(look(&map, 14), [(first, 113), (drained, 14)]);
        assert!(drained.is_in(&map) && !second.is_in(&map));
        for vacancy in [first, drained] {
            assert_eq!(Vacancy::of(vacancy.place()), Some(vacancy));
        }
    }
}
