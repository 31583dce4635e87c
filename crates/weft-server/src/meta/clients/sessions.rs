//! Which clients are connected, and which have been absent for too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_net::Peer;
use weft_proto::meta::ConnectedClient;
use weft_proto::session::Role;

use crate::limits::CLIENT_NAME_CHARS;

#[derive(Default)]
pub(in crate::meta) struct Sessions(Mutex<BTreeMap<u64, Session>>);

struct Session {
    /// In the order in which they were opened: open ones, and closed ones with calls in flight.
    connections: Vec<SessionConnection>,
    absent_since: Option<Instant>,
    /// The last peer that left, while the client is absent.
    left: Option<Peer>,
    /// The client accepts acknowledgements before a sync.
    lazy: bool,
    /// The name that the client gave.
    name: String,
    /// The application that the client belongs to, if it says so.
    application: Option<String>,
    /// When it connected, in nanoseconds since the epoch.
    since: i64,
}

struct SessionConnection {
    /// Held so that no other peer gets the same address in memory.
    peer: Weak<Peer>,
    open: bool,
    /// The client has reasserted its state over a later one.
    superseded: bool,
}

impl SessionConnection {
    fn is(&self, peer: &Arc<Peer>) -> bool {
        std::ptr::eq(self.peer.as_ptr(), Arc::as_ptr(peer))
    }
}

impl Session {
    /// Forgets connections that have ended with all their calls.
    fn forget_closed(&mut self) {
        let may_call = |c: &SessionConnection| c.open || c.peer.strong_count() > 0;
        self.connections.retain(may_call);
    }
}

impl Sessions {
    pub(in crate::meta) fn opened(&self, peer: &Arc<Peer>, now: i64) {
        let mut sessions = self.0.lock();
        let session = sessions.entry(peer.client).or_insert(Session {
            connections: Vec::new(),
            absent_since: None,
            left: None,
            lazy: false,
            name: String::new(),
            application: None,
            since: now,
        });
        session.forget_closed();
        session.connections.push(SessionConnection {
            peer: Arc::downgrade(peer),
            open: true,
            superseded: false,
        });
        session.absent_since = None;
        session.left = None;
    }

    /// A connection has ended; its calls may still be in flight.
    pub(in crate::meta) fn closed(&self, peer: &Arc<Peer>) {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get_mut(&peer.client) {
            let connections = &mut session.connections;
            let closed = connections.iter_mut().filter(|c| c.is(peer));
            closed.for_each(|c| c.open = false);
            if connections.iter().all(|c| !c.open) {
                session.absent_since = Some(Instant::now());
                session.left = Some((**peer).clone());
            }
        }
    }

    /// Notes what a client reported when it connected.
    pub(in crate::meta) fn describe(&self, client: u64, lazy: bool, name: &str, application: &str) {
        let application: String = application.chars().take(CLIENT_NAME_CHARS).collect();
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get_mut(&client) {
            session.lazy = lazy;
            session.name = name.chars().take(CLIENT_NAME_CHARS).collect();
            session.application = (!application.is_empty()).then_some(application);
        }
    }

    /// Whether some client belongs to an application.
    pub(in crate::meta) fn has_applications(&self) -> bool {
        let sessions = self.0.lock();
        sessions
            .values()
            .any(|session| session.application.is_some())
    }

    /// The application that a client belongs to.
    pub(in crate::meta) fn application(&self, client: u64) -> Option<String> {
        self.0.lock().get(&client)?.application.clone()
    }

    /// The connected clients except this one.
    pub(in crate::meta) fn others(&self, client: u64) -> Vec<ConnectedClient> {
        let sessions = self.0.lock();
        let others = sessions.iter().filter(|(id, _)| **id != client);
        let connected = others.filter_map(|(_, session)| {
            let mut open = session.connections.iter().filter(|c| c.open);
            let peer = open.find_map(|c| c.peer.upgrade())?;
            (peer.role == Role::Client).then(|| ConnectedClient {
                address: peer.address.clone(),
                name: session.name.clone(),
                since: session.since,
            })
        });
        connected.collect()
    }

    /// A client reasserts its state over this connection, which supersedes the earlier ones. False:
    /// the connection has ended, and the reassertion is out of date.
    pub(in crate::meta) fn note_reassert(&self, peer: &Arc<Peer>) -> bool {
        let mut sessions = self.0.lock();
        let connections = sessions
            .get_mut(&peer.client)
            .map(|s| &mut s.connections[..]);
        let connections = connections.unwrap_or_default();
        let Some(at) = connections.iter().position(|c| c.open && c.is(peer)) else {
            return false;
        };
        for before in &mut connections[..at] {
            before.superseded = true;
        }
        true
    }

    /// Whether the client has reasserted its state over a later connection: it has repeated there
    /// what still arrives here, and its attachments were counted anew.
    pub(in crate::meta) fn is_superseded(&self, peer: &Arc<Peer>) -> bool {
        let sessions = self.0.lock();
        let connections = sessions.get(&peer.client).map(|s| &s.connections);
        connections.is_some_and(|all| all.iter().any(|c| c.superseded && c.is(peer)))
    }

    pub(in crate::meta) fn is_lazy(&self, client: u64) -> bool {
        let sessions = self.0.lock();
        sessions.get(&client).is_some_and(|session| session.lazy)
    }

    /// Whether the client has a session: it is connected, or was so within the grace period.
    pub(in crate::meta) fn is_present(&self, client: u64) -> bool {
        self.0.lock().contains_key(&client)
    }

    /// When nobody waits for a client any more that has left `patience` ago: `None` while it is
    /// connected, or a call of it is in flight. One whose process has ended is not waited for.
    pub(in crate::meta) fn given_up(&self, client: u64, patience: Duration) -> Option<Instant> {
        let mut sessions = self.0.lock();
        let Some(session) = sessions.get_mut(&client) else {
            return Some(Instant::now());
        };
        session.forget_closed();
        let since = session.absent_since?;
        if !session.connections.is_empty() {
            return None;
        }
        let died = session.left.as_ref().is_some_and(Peer::has_died);
        Some(if died { since } else { since + patience })
    }

    /// Removes the sessions of clients that were absent for longer than `grace`, and returns them.
    pub(in crate::meta) fn ended(&self, grace: Duration) -> Vec<u64> {
        let mut sessions = self.0.lock();
        let over = |s: &Session| s.absent_since.is_some_and(|since| since.elapsed() >= grace);
        let ended: Vec<u64> = sessions
            .iter()
            .filter(|(_, s)| over(s))
            .map(|(c, _)| *c)
            .collect();
        sessions.retain(|_, s| !over(s));
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_client_is_given_up_when_its_calls_and_the_patience_have_ended() {
        const PATIENCE: Duration = Duration::from_secs(5);
        let sessions = Sessions::default();
        let peer = |client, process| {
            Arc::new(Peer {
                address: String::new(),
                role: Role::Client,
                client,
                process,
            })
        };
        let given_up = |client| sessions.given_up(client, PATIENCE);
        assert!(
            given_up(7).is_some_and(|at| at <= Instant::now()),
            "never seen"
        );

        // Its process is this one: alive.
        let alive = peer(7, Some(std::process::id()));
        sessions.opened(&alive, 1);
        assert_eq!(given_up(7), None, "it is connected");
        sessions.closed(&alive);
        assert_eq!(given_up(7), None, "a call of it is in flight");
        drop(alive);
        assert!(given_up(7).is_some_and(|at| at > Instant::now() + PATIENCE / 2));

        // No process has this number.
        let dead = peer(8, Some(u32::MAX));
        sessions.opened(&dead, 1);
        sessions.closed(&dead);
        drop(dead);
        assert!(given_up(8).is_some_and(|at| at <= Instant::now()));
    }

    #[test]
    fn a_reassertion_supersedes_earlier_connections_and_no_later_one() {
        let sessions = Sessions::default();
        let peers = [1, 2, 3].map(|port| {
            Arc::new(Peer {
                address: format!("127.0.0.1:{port}"),
                role: Role::Client,
                client: 7,
                process: None,
            })
        });
        let superseded = || peers.each_ref().map(|peer| sessions.is_superseded(peer));
        sessions.opened(&peers[0], 1);
        assert!(sessions.note_reassert(&peers[0]));
        assert_eq!(superseded(), [false; 3]);
        // A second connection opens before the first is known to be lost.
        sessions.opened(&peers[1], 1);
        assert_eq!(superseded(), [false; 3]);
        sessions.opened(&peers[2], 1);
        assert!(sessions.note_reassert(&peers[1]));
        assert_eq!(superseded(), [true, false, false]);
        // A late reassertion over the first changes nothing, also after it has ended.
        assert!(sessions.note_reassert(&peers[0]));
        assert_eq!(superseded(), [true, false, false]);
        sessions.closed(&peers[0]);
        assert_eq!(superseded(), [true, false, false]);
        assert!(!sessions.note_reassert(&peers[0]));
        assert_eq!(superseded(), [true, false, false]);
        // A reassertion over an ended connection is out of date, whatever the next has reported.
        sessions.closed(&peers[1]);
        assert!(!sessions.note_reassert(&peers[1]));
        assert_eq!(superseded(), [true, false, false]);
        assert!(sessions.ended(Duration::ZERO).is_empty());
        sessions.closed(&peers[2]);
        assert_eq!(sessions.ended(Duration::ZERO), [7]);
    }
}
