//! Reads of the disks that are under way, so that nobody reads what somebody else is about to have.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::load::Wanted;
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
    /// Which of these blocks nobody reads, and what to wait for to have the others.
    pub(crate) fn divide(&self, wanted: &[Wanted]) -> (Vec<Wanted>, Vec<watch::Receiver<()>>) {
        let all = self.0.lock();
        let (mut free, mut under_way) = (Vec::with_capacity(wanted.len()), Vec::new());
        // The read that the last of those was in.
        let mut within = 0..0;
        for w in wanted {
            let place = w.place.0;
            if within.contains(&place) {
                continue;
            }
            match all.range(..=place).next_back() {
                Some((start, (until, receiver))) if *until > place => {
                    within = *start..*until;
                    under_way.push(receiver.clone());
                }
                _ => free.push(*w),
            }
        }
        (free, under_way)
    }

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
    use crate::record::ForkId;

    #[test]
    fn what_others_read_is_waited_for_and_the_rest_is_read_at_once() {
        let flights = Flights::default();
        let wanted: Vec<Wanted> = (0..20).map(wanted).collect();
        let places = |blocks: &[Wanted]| blocks.iter().map(|w| w.place.0).collect::<Vec<_>>();
        assert_eq!(places(&flights.divide(&wanted).0), places(&wanted));
        let first = flights.begin(Place(3), 4).ok().unwrap();
        let second = flights.begin(Place(18), 9).ok().unwrap();
        let (free, under_way) = flights.divide(&wanted);
        assert_eq!(
            places(&free),
            places(&[&wanted[..3], &wanted[7..18]].concat())
        );
        assert_eq!(under_way.len(), 2);
        drop(first);
        assert!(under_way[0].has_changed().is_err());
        assert!(under_way[1].has_changed().is_ok());
        drop(second);
    }

    fn wanted(place: u64) -> Wanted {
        Wanted {
            id: ForkId(0),
            chunk: 0,
            block: place as u32,
            place: Place(place),
        }
    }

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
