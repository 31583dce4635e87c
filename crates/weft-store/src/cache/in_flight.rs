//! Reads of the disks that are under way, so that nobody reads what somebody else is about to have.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::SetOnce;

use crate::pages::WantedBlock;
use crate::record::Place;

/// Places being read: first, one behind the last, and what ends with the read.
#[derive(Clone, Default)]
pub(crate) struct ReadsInFlight(Arc<Mutex<Reads>>);

type Reads = BTreeMap<u64, (u64, ReadEnded)>;

/// Set when a read has ended. All who wait then go on in the order in which they came, which a
/// replay of a simulation needs: those who wait for a `watch` go on in an order of chance.
pub(crate) type ReadEnded = Arc<SetOnce<()>>;

/// A read under way; it ends when this is dropped, however that comes about.
pub(crate) struct ReadInFlight {
    all: ReadsInFlight,
    start: u64,
    ended: ReadEnded,
}

impl Drop for ReadInFlight {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.start);
        // Nobody else sets it.
        let _ = self.ended.set(());
    }
}

impl ReadsInFlight {
    /// Which of these blocks nobody reads, and what to wait for to have the others.
    pub(crate) fn divide(&self, wanted: &[WantedBlock]) -> (Vec<WantedBlock>, Vec<ReadEnded>) {
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
                Some((start, (until, ended))) if *until > place => {
                    within = *start..*until;
                    under_way.push(ended.clone());
                }
                _ => free.push(*w),
            }
        }
        (free, under_way)
    }

    /// Begins a read, or says what to wait for: someone reads some of these blocks.
    pub(crate) fn begin(&self, place: Place, blocks: u32) -> Result<ReadInFlight, ReadEnded> {
        let (start, end) = (place.0, place.0 + u64::from(blocks));
        let mut all = self.0.lock();
        if let Some((_, (until, under_way))) = all.range(..end).next_back()
            && *until > start
        {
            return Err(under_way.clone());
        }
        let ended = ReadEnded::default();
        all.insert(start, (end, ended.clone()));
        Ok(ReadInFlight {
            all: self.clone(),
            start,
            ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ForkId;

    #[test]
    fn what_others_read_is_waited_for_and_the_rest_is_read_at_once() {
        let flights = ReadsInFlight::default();
        let wanted: Vec<WantedBlock> = (0..20).map(wanted).collect();
        let places = |blocks: &[WantedBlock]| blocks.iter().map(|w| w.place.0).collect::<Vec<_>>();
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
        assert!(under_way[0].initialized());
        assert!(!under_way[1].initialized());
        drop(second);
    }

    fn wanted(place: u64) -> WantedBlock {
        WantedBlock {
            id: ForkId(0),
            chunk: 0,
            block: place as u32,
            place: Place(place),
        }
    }

    #[tokio::test]
    async fn who_waits_goes_on_in_the_order_in_which_he_came() {
        let flights = ReadsInFlight::default();
        let flight = flights.begin(Place(0), 1).ok().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting = (0..40).map(|n| {
            let (ended, order) = (flights.begin(Place(0), 1).err().unwrap(), order.clone());
            tokio::spawn(async move {
                ended.wait().await;
                order.lock().push(n);
            })
        });
        let waiting: Vec<_> = waiting.collect();
        tokio::task::yield_now().await;
        drop(flight);
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn blocks_are_read_by_one_at_a_time() {
        let flights = ReadsInFlight::default();
        let first = flights.begin(Place(10), 5).ok().unwrap();
        for (start, blocks) in [(10, 1), (14, 3), (5, 6), (0, 40)] {
            assert!(flights.begin(Place(start), blocks).is_err());
        }
        let beside = flights.begin(Place(15), 5).ok().unwrap();
        let under_way = flights.begin(Place(12), 1).err().unwrap();
        drop(first);
        assert!(under_way.initialized());
        assert!(flights.begin(Place(5), 10).is_ok());
        drop(beside);
    }
}
