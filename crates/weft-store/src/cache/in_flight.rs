//! Disk reads in flight, so that two calls do not read the same block.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::SetOnce;

use crate::pages::WantedBlock;
use crate::record::Place;

/// Places being read: the first, the end, and the signal that the read has ended.
#[derive(Clone, Default)]
pub(crate) struct ReadsInFlight(Arc<Mutex<Reads>>);

type Reads = BTreeMap<u64, (u64, ReadEnded)>;

/// Set when a read has ended. Waiting calls resume in arrival order, which a replay of a simulation
/// needs: a `watch` wakes its waiters in random order.
pub(crate) type ReadEnded = Arc<SetOnce<()>>;

/// A read in flight; it ends when this is dropped, on success, failure or cancellation.
pub(crate) struct ReadInFlight {
    all: ReadsInFlight,
    start: u64,
    ended: ReadEnded,
}

impl Drop for ReadInFlight {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.start);
        // Only this sets it.
        let _ = self.ended.set(());
    }
}

impl ReadsInFlight {
    /// The blocks that no read in flight has, and the reads to wait for to have the others.
    pub(crate) fn divide(&self, wanted: &[WantedBlock]) -> (Vec<WantedBlock>, Vec<ReadEnded>) {
        let all = self.0.lock();
        let (mut free, mut in_flight) = (Vec::with_capacity(wanted.len()), Vec::new());
        // The read that the last block was in.
        let mut within = 0..0;
        for w in wanted {
            let place = w.place.0;
            if within.contains(&place) {
                continue;
            }
            match all.range(..=place).next_back() {
                Some((start, (until, ended))) if *until > place => {
                    within = *start..*until;
                    in_flight.push(ended.clone());
                }
                _ => free.push(*w),
            }
        }
        (free, in_flight)
    }

    /// Begins a read; or returns the read in flight that overlaps it, to wait for.
    pub(crate) fn begin(&self, place: Place, blocks: u32) -> Result<ReadInFlight, ReadEnded> {
        let (start, end) = (place.0, place.0 + u64::from(blocks));
        let mut all = self.0.lock();
        if let Some((_, (until, in_flight))) = all.range(..end).next_back()
            && *until > start
        {
            return Err(in_flight.clone());
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
    fn a_read_waits_for_blocks_in_flight_and_reads_the_rest_at_once() {
        let reads = ReadsInFlight::default();
        let wanted: Vec<WantedBlock> = (0..20).map(wanted).collect();
        let places = |blocks: &[WantedBlock]| blocks.iter().map(|w| w.place.0).collect::<Vec<_>>();
        assert_eq!(places(&reads.divide(&wanted).0), places(&wanted));
        let first = reads.begin(Place(3), 4).ok().unwrap();
        let second = reads.begin(Place(18), 9).ok().unwrap();
        let (free, in_flight) = reads.divide(&wanted);
        assert_eq!(
            places(&free),
            places(&[&wanted[..3], &wanted[7..18]].concat())
        );
        assert_eq!(in_flight.len(), 2);
        drop(first);
        assert!(in_flight[0].initialized());
        assert!(!in_flight[1].initialized());
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
    async fn waiting_readers_resume_in_arrival_order() {
        let reads = ReadsInFlight::default();
        let read = reads.begin(Place(0), 1).ok().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting = (0..40).map(|n| {
            let (ended, order) = (reads.begin(Place(0), 1).err().unwrap(), order.clone());
            tokio::spawn(async move {
                ended.wait().await;
                order.lock().push(n);
            })
        });
        let waiting: Vec<_> = waiting.collect();
        tokio::task::yield_now().await;
        drop(read);
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_block_is_read_by_one_call_at_a_time() {
        let reads = ReadsInFlight::default();
        let first = reads.begin(Place(10), 5).ok().unwrap();
        for (start, blocks) in [(10, 1), (14, 3), (5, 6), (0, 40)] {
            assert!(reads.begin(Place(start), blocks).is_err());
        }
        let beside = reads.begin(Place(15), 5).ok().unwrap();
        let in_flight = reads.begin(Place(12), 1).err().unwrap();
        drop(first);
        assert!(in_flight.initialized());
        assert!(reads.begin(Place(5), 10).is_ok());
        drop(beside);
    }
}
