//! Which clients are connected, and which have been away for too long.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a client may be away before what it had open counts as closed.
pub(super) const GRACE: Duration = Duration::from_secs(20);
/// How often that is looked at.
pub(super) const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<u64, Session>>);

struct Session {
    connections: usize,
    away_since: Option<Instant>,
}

impl Sessions {
    pub(super) fn opened(&self, client: u64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(client).or_insert(Session {
            connections: 0,
            away_since: None,
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

    /// The clients whose grace is over; each is returned once.
    pub(super) fn ended(&self) -> Vec<u64> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |s: &Session| s.away_since.is_some_and(|since| since.elapsed() >= GRACE);
        let ended: Vec<u64> = sessions
            .iter()
            .filter(|(_, s)| over(s))
            .map(|(c, _)| *c)
            .collect();
        sessions.retain(|_, s| !over(s));
        ended
    }
}
