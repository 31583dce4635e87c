//! Which clients are connected, and which have been away for too long.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often it is looked at who is away for longer than [`Timing::grace`](weft_net::Timing::grace).
pub(super) const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Sessions(Mutex<BTreeMap<u64, Session>>);

struct Session {
    connections: usize,
    away_since: Option<Instant>,
    /// Takes operations for done before they survive power loss.
    lazy: bool,
}

impl Sessions {
    pub(super) fn opened(&self, client: u64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(client).or_insert(Session {
            connections: 0,
            away_since: None,
            lazy: false,
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
