//! Which clients are connected, and which have been away for too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weft_net::Peer;

/// How often it is looked at who is away for longer than [`Timing::grace`](weft_net::Timing::grace).
pub(super) const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Sessions(Mutex<BTreeMap<u64, Session>>);

struct Session {
    connections: usize,
    away_since: Option<Instant>,
    /// Takes operations for done before they survive power loss.
    lazy: bool,
    /// The connection over which it last told what it has open.
    told_by: Weak<Peer>,
}

impl Sessions {
    pub(super) fn opened(&self, client: u64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(client).or_insert(Session {
            connections: 0,
            away_since: None,
            lazy: false,
            told_by: Weak::new(),
        });
        session.connections += 1;
        session.away_since = None;
    }

    pub(super) fn closed(&self, client: u64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(&client) {
            session.connections -= 1;
            if session.connections == 0 {
                session.away_since = Some(Instant::now());
            }
        }
    }

    /// Notes what a client said when it connected.
    pub(super) fn set_lazy(&self, client: u64, lazy: bool) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(&client) {
            session.lazy = lazy;
        }
    }

    /// A client tells over this connection what it has open.
    pub(super) fn note_told(&self, peer: &Arc<Peer>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(&peer.client) {
            session.told_by = Arc::downgrade(peer);
        }
    }

    /// Whether the client has given this connection up, and told another since what it has open: what still comes from here it has
    /// repeated there, and is about attachments that were counted anew.
    pub(super) fn is_given_up(&self, peer: &Arc<Peer>) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told_by = sessions.get(&peer.client).map(|s| s.told_by.upgrade());
        let told_by = told_by.flatten();
        told_by.is_some_and(|told_by| !Arc::ptr_eq(&told_by, peer))
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
    use weft_proto::session::Role;

    use super::*;

    #[test]
    fn who_has_told_another_connection_has_given_the_first_up() {
        let sessions = Sessions::default();
        let [first, second] = [(); 2].map(|()| {
            Arc::new(Peer {
                address: "127.0.0.1:1".to_owned(),
                role: Role::Client,
                client: 7,
            })
        });
        sessions.opened(7);
        assert!(!sessions.is_given_up(&first), "it had nothing to tell");
        sessions.note_told(&first);
        assert!(!sessions.is_given_up(&first));
        sessions.opened(7);
        assert!(!sessions.is_given_up(&first), "it has not told the second");
        sessions.note_told(&second);
        assert!(sessions.is_given_up(&first) && !sessions.is_given_up(&second));
        // A third one that has nothing to tell, after the second is gone.
        drop(second);
        sessions.closed(7);
        assert!(!sessions.is_given_up(&first));
    }
}
