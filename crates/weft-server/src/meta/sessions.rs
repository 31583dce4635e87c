//! Which clients are connected, and which have been away for too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weft_net::Peer;
use weft_proto::meta::ConnectedClient;
use weft_proto::session::Role;

/// How often it is looked at who is away for longer than
/// [`Timing::grace`](weft_net::Timing::grace).
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Characters of a client's name that are kept.
const NAME_MAX: usize = 200;

#[derive(Default)]
pub(super) struct Sessions(Mutex<BTreeMap<u64, Session>>);

struct Session {
    /// In the order in which they were opened: those that are open, and those that have calls left.
    connections: Vec<Connected>,
    away_since: Option<Instant>,
    /// Takes operations for done before they survive power loss.
    lazy: bool,
    /// What it calls itself.
    name: String,
    /// When it came, in nanoseconds since the epoch.
    since: i64,
}

struct Connected {
    /// Nobody else's address as long as it is held.
    peer: Weak<Peer>,
    open: bool,
    /// The client has told a later one what it has open.
    given_up: bool,
}

impl Connected {
    fn is(&self, peer: &Arc<Peer>) -> bool {
        std::ptr::eq(self.peer.as_ptr(), Arc::as_ptr(peer))
    }
}

impl Sessions {
    pub(super) fn opened(&self, peer: &Arc<Peer>, now: i64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(peer.client).or_insert(Session {
            connections: Vec::new(),
            away_since: None,
            lazy: false,
            name: String::new(),
            since: now,
        });
        let may_call = |c: &Connected| c.open || c.peer.strong_count() > 0;
        session.connections.retain(may_call);
        session.connections.push(Connected {
            peer: Arc::downgrade(peer),
            open: true,
            given_up: false,
        });
        session.away_since = None;
    }

    /// Calls that came over it may still be under way.
    pub(super) fn closed(&self, peer: &Arc<Peer>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(&peer.client) {
            let connections = &mut session.connections;
            let closed = connections.iter_mut().filter(|c| c.is(peer));
            closed.for_each(|c| c.open = false);
            if connections.iter().all(|c| !c.open) {
                session.away_since = Some(Instant::now());
            }
        }
    }

    /// Notes what a client said when it connected.
    pub(super) fn note_said(&self, client: u64, lazy: bool, name: &str) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(&client) {
            session.lazy = lazy;
            session.name = name.chars().take(NAME_MAX).collect();
        }
    }

    /// The clients that are connected, but for this one.
    pub(super) fn others(&self, client: u64) -> Vec<ConnectedClient> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A client tells over this connection what it has open: those that it opened before it has
    /// given up. False if it has ended, and what it tells is out of date.
    pub(super) fn note_told(&self, peer: &Arc<Peer>) -> bool {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = sessions
            .get_mut(&peer.client)
            .map(|s| &mut s.connections[..]);
        let connections = connections.unwrap_or_default();
        let Some(at) = connections.iter().position(|c| c.open && c.is(peer)) else {
            return false;
        };
        for before in &mut connections[..at] {
            before.given_up = true;
        }
        true
    }

    /// Whether the client has given this connection up, and told a later one since what it has
    /// open: what still comes from here it has repeated there, and is about attachments that were
    /// counted anew.
    pub(super) fn is_given_up(&self, peer: &Arc<Peer>) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = sessions.get(&peer.client).map(|s| &s.connections);
        connections.is_some_and(|all| all.iter().any(|c| c.given_up && c.is(peer)))
    }

    pub(super) fn is_lazy(&self, client: u64) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&client).is_some_and(|session| session.lazy)
    }

    /// The clients that were away for longer than `grace`; each is returned once.
    pub(super) fn ended(&self, grace: Duration) -> Vec<u64> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |s: &Session| s.away_since.is_some_and(|since| since.elapsed() >= grace);
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
    fn who_tells_a_connection_has_given_up_those_before_it_and_none_after_it() {
        let sessions = Sessions::default();
        let peers = [1, 2, 3].map(|port| {
            Arc::new(Peer {
                address: format!("127.0.0.1:{port}"),
                role: Role::Client,
                client: 7,
            })
        });
        let given_up = || peers.each_ref().map(|peer| sessions.is_given_up(peer));
        sessions.opened(&peers[0], 1);
        assert!(sessions.note_told(&peers[0]));
        assert_eq!(given_up(), [false; 3]);
        // With nothing to tell any more it comes back, before the first is known to be lost.
        sessions.opened(&peers[1], 1);
        assert_eq!(given_up(), [false; 3]);
        sessions.opened(&peers[2], 1);
        assert!(sessions.note_told(&peers[1]));
        assert_eq!(given_up(), [true, false, false]);
        // What comes late from the first counts for nothing either, also when it has ended.
        assert!(sessions.note_told(&peers[0]));
        assert_eq!(given_up(), [true, false, false]);
        sessions.closed(&peers[0]);
        assert_eq!(given_up(), [true, false, false]);
        assert!(!sessions.note_told(&peers[0]));
        assert_eq!(given_up(), [true, false, false]);
        // What one that has ended told is out of date, whether or not the next has told anything.
        sessions.closed(&peers[1]);
        assert!(!sessions.note_told(&peers[1]));
        assert_eq!(given_up(), [true, false, false]);
        assert!(sessions.ended(Duration::ZERO).is_empty());
        sessions.closed(&peers[2]);
        assert_eq!(sessions.ended(Duration::ZERO), [7]);
    }
}
