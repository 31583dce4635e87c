//! Reads of the disks that are under way, so that nobody reads what somebody else is about to have.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::record::Place;

/// Places being read: first, one behind the last, and what ends with the read.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<Reads>>);

type Reads = BTreeMap<u64, (u64, watch::Receiver<()>)>;

/// A read under way; it ends when this is dropped, however that comes about.
pub(crate) struct Flight {
    all: Flights,
    start: u64,
    _end: watch::Sender<()>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.start);
    }
}

impl Flights {
    /// Begins a read, or says what to wait for: someone reads some of these blocks.
    pub(crate) fn begin(&self, place: Place, blocks: u32) -> Result<Flight, watch::Receiver<()>> {
        let (start, end) = (place.0, place.0 + u64::from(blocks));
        let mut all = self.0.lock();
        if let Some((_, (until, under_way))) = all.range(..end).next_back()
            && *until > start
        {
            return Err(under_way.clone());
        }
        let (send, receive) = watch::channel(());
        all.insert(start, (end, receive));
        Ok(Flight {
            all: self.clone(),
            start,
            _end: send,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_by_one_at_a_time() {
        let flights = Flights::default();
        let first = flights.begin(Place(10), 5).ok().unwrap();
        for (start, blocks) in [(10, 1), (14, 3), (5, 6), (0, 40)] {
            assert!(flights.begin(Place(start), blocks).is_err());
        }
        let beside = flights.begin(Place(15), 5).ok().unwrap();
        let under_way = flights.begin(Place(12), 1).err().unwrap();
        drop(first);
        assert!(under_way.has_changed().is_err());
        assert!(flights.begin(Place(5), 10).is_ok());
        drop(beside);
    }
}
