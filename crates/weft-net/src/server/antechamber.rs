//! Connections that have proven nothing yet.
//!
//! They have few places of their own, so that a flood of them takes neither the descriptors nor the
//! memory of those who hold the key. When all are taken, one gives way to the connection that
//! comes: first one that has said nothing, then one of the source that has the most, then the
//! oldest. A client says its hello at once, so it is past the first of these when silent
//! connections press; and no connection gives way before it had [`PATIENCE`] to speak, which is
//! what bounds the rate at which a flood passes through: the rest waits in the kernel's queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// What a connection has at least to say its hello: a few turns of a runtime on a busy machine.
/// With 128 places, some 12,800 silent connections per second pass through.
const PATIENCE: Duration = Duration::from_millis(10);

pub(crate) struct Antechamber {
    places: usize,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, Seat>,
}

struct Seat {
    since: Instant,
    source: String,
    spoke: bool,
    gives_way: Arc<Notify>,
}

/// A connection's place, until it is dropped or given to another.
pub(crate) struct Guest {
    antechamber: Arc<Antechamber>,
    number: u64,
    gives_way: Arc<Notify>,
}

impl Antechamber {
    pub(crate) fn new(places: usize) -> Arc<Antechamber> {
        assert!(places > 0, "nobody could come in");
        Arc::new(Antechamber {
            places,
            guests: Mutex::default(),
        })
    }

    /// A place for a connection from `address`; or how long to wait until one gives way.
    pub(crate) fn admit(self: &Arc<Self>, address: &str) -> Result<Guest, Duration> {
        let mut guests = self.guests();
        let mut leaves = None;
        if guests.all.len() >= self.places
            && let Some(number) = guests.least_welcome()
        {
            let waited = guests.all[&number].since.elapsed();
            let patience = PATIENCE.saturating_sub(waited);
            if !patience.is_zero() {
                return Err(patience);
            }
            leaves = guests.all.remove(&number);
        }
        let number = guests.next;
        guests.next += 1;
        let gives_way = Arc::new(Notify::new());
        let seat = Seat {
            since: Instant::now(),
            source: source(address).to_owned(),
            spoke: false,
            gives_way: gives_way.clone(),
        };
        guests.all.insert(number, seat);
        drop(guests);
        if let Some(seat) = leaves {
            seat.gives_way.notify_one();
        }
        Ok(Guest {
            antechamber: self.clone(),
            number,
            gives_way,
        })
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guests {
    /// Who gives way; all are looked at, and they are few.
    fn least_welcome(&self) -> Option<u64> {
        let mut crowds = HashMap::new();
        for seat in self.all.values() {
            *crowds.entry(&seat.source).or_insert(0_usize) += 1;
        }
        let rank = |(number, seat): &(&u64, &Seat)| {
            let crowd = crowds[&seat.source];
            (seat.spoke, std::cmp::Reverse(crowd), **number)
        };
        self.all.iter().min_by_key(rank).map(|(number, _)| *number)
    }
}

/// An address without its port.
fn source(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

impl Guest {
    /// It has said a whole hello.
    pub(crate) fn spoke(&self) {
        if let Some(seat) = self.antechamber.guests().all.get_mut(&self.number) {
            seat.spoke = true;
        }
    }

    /// Completes when its place was given to another.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let seat = self.antechamber.guests().all.remove(&self.number);
        drop(seat);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn left(guest: &Guest) -> bool {
        guest.gives_way().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_the_largest_crowd_that_has_said_nothing_gives_way() {
        let room = Antechamber::new(4);
        let sit = |address: &str| room.admit(address).unwrap_or_else(|_| panic!("no place"));
        let guests = [
            sit("10.0.0.1:1"),
            sit("10.0.0.2:1"),
            sit("10.0.0.2:2"),
            sit("10.0.0.2:3"),
        ];
        guests[1].spoke();
        assert_eq!(room.admit("10.0.0.3:1").err(), Some(PATIENCE));
        tokio::time::advance(PATIENCE).await;
        let fifth = sit("10.0.0.3:1");
        assert_eq!(guests.each_ref().map(left), [false, false, true, false]);
        // Both that are left of the crowd have company; one has spoken.
        let sixth = sit("10.0.0.3:2");
        assert_eq!(guests.each_ref().map(left), [false, false, false, true]);
        drop((guests, fifth));
        for port in 0..3 {
            sit(&format!("10.0.0.4:{port}"));
        }
        assert!(!left(&sixth));
    }
}
