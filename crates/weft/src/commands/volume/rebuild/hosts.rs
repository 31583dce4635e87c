//! Which machines can have the new replica of a server, the best first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weft_client::{ServerMapReply, ServerState};
use weft_proto::meta::Usage;

use super::vacancies::Vacancy;
use crate::volume_config::ServerName;

/// The part of its space that a machine keeps free.
const RESERVE_DIVISOR: u64 = 10;

/// A node of the volume.
struct Node<'a> {
    name: ServerName,
    address: &'a str,
    domain: &'a str,
    usage: Usage,
    up: bool,
    in_sync: bool,
    leaving: bool,
}

impl<'a> Node<'a> {
    /// The host of its address.
    fn machine(&self) -> &'a str {
        host_of(self.address)
    }
}

/// A machine, by the node that speaks for it: of those that are up, the first.
struct Machine<'a> {
    node: Node<'a>,
    /// Replicas on it that catch up.
    busy: usize,
}

/// The host of an address.
pub(super) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Whether a machine of the volume can have one more replica of a server.
pub(in crate::commands::volume) fn has_host(map: &ServerMapReply, server: u32) -> bool {
    !hosts(map, Vacancy::Missing(server)).is_empty()
}

/// The nodes on whose machines a new replica can fill a vacancy, the best first, with their failure
/// domains. Each speaks for one machine. No machine and no failure domain gets two replicas of a
/// server, and none from which a replica leaves gets any; those that are the least busy come first,
/// then those with the most space.
pub(super) fn hosts(map: &ServerMapReply, vacancy: Vacancy) -> Vec<(ServerName, String)> {
    let nodes: Vec<Node<'_>> = map.servers.iter().flat_map(nodes_of).collect();
    let has_domain = |node: &Node<'_>| !node.domain.is_empty();
    let of_server = || nodes.iter().filter(|n| n.name.id == vacancy.server());
    let by_domain = of_server().any(has_domain);
    let in_sync = of_server().filter(|n| n.up && n.in_sync);
    let Some(needed) = in_sync.map(|n| n.usage.used).max() else {
        return Vec::new();
    };
    let stay = |n: &&Node<'_>| !n.leaving && vacancy != Vacancy::Lost(n.name);
    let others: Vec<&Node<'_>> = of_server().filter(stay).collect();
    let taken = |node: &Node<'_>| {
        let same = |other: &&Node<'_>| {
            other.machine() == node.machine() || by_domain && other.domain == node.domain
        };
        let mut on_it = nodes.iter().filter(|n| n.machine() == node.machine());
        others.iter().any(same) || on_it.any(|n| n.leaving)
    };
    let fits = |node: &Node<'_>| {
        let reserve = node.usage.capacity / RESERVE_DIVISOR;
        (!by_domain || has_domain(node)) && node.usage.available >= needed.saturating_add(reserve)
    };
    let mut machines = machines(map);
    machines.retain(|machine| !taken(&machine.node) && fits(&machine.node));
    machines.sort_by_key(|m| (m.busy, Reverse(m.node.usage.available), m.node.name));
    let host = |m: Machine<'_>| (m.node.name, m.node.domain.to_owned());
    machines.into_iter().map(host).collect()
}

fn machines(map: &ServerMapReply) -> Vec<Machine<'_>> {
    let mut machines: BTreeMap<&str, Machine<'_>> = BTreeMap::new();
    let mut nodes: Vec<Node<'_>> = map.servers.iter().flat_map(nodes_of).collect();
    nodes.retain(|node| node.up);
    nodes.sort_by_key(|node| node.name);
    for node in nodes {
        let busy = usize::from(!node.in_sync);
        let machine = machines
            .entry(node.machine())
            .or_insert(Machine { node, busy: 0 });
        machine.busy += busy;
    }
    machines.into_values().collect()
}

fn nodes_of(server: &weft_client::Server) -> Vec<Node<'_>> {
    if server.replicas.is_empty() {
        return vec![Node {
            name: ServerName::of(server.id),
            address: &server.address,
            domain: "",
            usage: server.usage,
            up: server.state() == ServerState::Up,
            in_sync: true,
            leaving: false,
        }];
    }
    let node = |replica| node(server.id, replica);
    server.replicas.iter().map(node).collect()
}

fn node(id: u32, replica: &weft_client::Replica) -> Node<'_> {
    Node {
        name: ServerName {
            id,
            replica: replica.number,
        },
        address: &replica.address,
        domain: &replica.domain,
        usage: replica.usage,
        up: replica.up,
        in_sync: replica.in_sync,
        leaving: replica.leaving,
    }
}

#[cfg(test)]
mod tests {
    use weft_client::{Replica, Server};

    use super::*;

    /// Replicas by machine, domain and available space; machine 0 is away.
    fn server(id: u32, replicas: &[(u32, &str, u64)]) -> Server {
        let replica =
            |(number, (machine, domain, available)): (usize, &(u32, &str, u64))| Replica {
                number: number as u32,
                address: format!("10.0.0.{machine}:4700"),
                in_sync: *machine > 0,
                up: *machine > 0,
                domain: (*domain).to_owned(),
                usage: Usage {
                    capacity: 1000,
                    used: 300,
                    available: *available,
                },
                ..Replica::default()
            };
        Server {
            id,
            replicas: replicas.iter().enumerate().map(replica).collect(),
            ..Server::default()
        }
    }

    fn names(map: &ServerMapReply, vacancy: Vacancy) -> Vec<String> {
        let hosts = hosts(map, vacancy).into_iter();
        hosts.map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn a_machine_without_the_server_and_with_space_is_chosen_the_idle_and_empty_first() {
        let mut map = ServerMapReply {
            servers: vec![
                server(0, &[(1, "", 900), (0, "", 900)]),
                server(1, &[(2, "", 500), (3, "", 800)]),
                server(2, &[(4, "", 399), (2, "", 900)]),
                // Two machines, each of which another node speaks for.
                server(3, &[(3, "", 999), (1, "", 999)]),
            ],
            ..ServerMapReply::default()
        };
        let lost = Vacancy::Lost(ServerName { id: 0, replica: 1 });
        assert_eq!(names(&map, lost), ["server-1.1", "server-1"]);
        map.servers[3].replicas[0].in_sync = false;
        assert_eq!(names(&map, lost), ["server-1", "server-1.1"]);
        map.servers[1].replicas[1].up = false;
        assert_eq!(names(&map, lost), ["server-1", "server-3"]);
        // Another one is to have a successor: not on its own machine, nor where others leave.
        map.servers[0].replicas[1] = map.servers[0].replicas[0].clone();
        map.servers[0].replicas[1].number = 1;
        map.servers[0].replicas[0].leaving = true;
        map.servers[0].replicas[0].address = "10.0.0.5:4700".to_owned();
        assert_eq!(names(&map, Vacancy::Missing(0)), ["server-1", "server-3"]);
        map.servers[2].replicas[1].leaving = true;
        assert_eq!(names(&map, Vacancy::Missing(0)), ["server-3"]);
        map.servers[2].replicas[1].leaving = false;
        // No node has the data.
        for replica in &mut map.servers[0].replicas {
            replica.up = false;
        }
        assert_eq!(names(&map, lost), Vec::<String>::new());
    }

    #[test]
    fn failure_domains_stay_apart() {
        let map = ServerMapReply {
            servers: vec![
                server(0, &[(1, "a", 900), (0, "b", 900)]),
                server(1, &[(2, "a", 900), (3, "b", 600)]),
                server(2, &[(4, "", 900), (5, "c", 700)]),
            ],
            ..ServerMapReply::default()
        };
        let lost = Vacancy::Lost(ServerName { id: 0, replica: 1 });
        let of = |id, domain: &str| (ServerName { id, replica: 1 }, domain.to_owned());
        assert_eq!(hosts(&map, lost), [of(2, "c"), of(1, "b")]);
    }
}
