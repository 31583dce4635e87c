//! Extents against plain bytes.

use proptest::prelude::*;

use super::*;

const SPACE: u64 = 3 * BLOCK;

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, length: u64, byte: u8 },
    Truncate(u64),
    Take { all: bool },
    Arrive(usize),
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Near block boundaries and at a few offsets, so that writes overlap.
    let offset = prop_oneof![
        (0..SPACE / 4096).prop_map(|p| p * 4096),
        (0..SPACE),
        (1..3u64, 0..64u64).prop_map(|(block, back)| block * BLOCK - back),
    ];
    let length = prop_oneof![
        1..64u64,
        1..9000u64,
        Just(4096),
        60_000..140_000u64,
        Just(BLOCK)
    ];
    let write =
        (offset.clone(), length, 1..=255u8).prop_map(|(offset, length, byte)| Step::Write {
            offset,
            length,
            byte,
        });
    let step = prop_oneof![
        8 => write,
        1 => offset.prop_map(Step::Truncate),
        2 => any::<bool>().prop_map(|all| Step::Take { all }),
        2 => (0..8usize).prop_map(Step::Arrive),
        1 => Just(Step::Epoch),
    ];
    prop::collection::vec(step, 1..60)
}

/// The servers' bytes and a reader's bytes, both plain, beside the extents.
struct Model {
    servers: Vec<u8>,
    seen: Vec<u8>,
    extents: Extents,
    in_flight: Vec<Batch>,
    epoch: u64,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Write {
                offset,
                length,
                byte,
            } => {
                // Bytes of a write differ, so that a shifted piece is noticed.
                let bytes: Vec<u8> = (0..length)
                    .map(|i| byte.wrapping_add((i % 251) as u8))
                    .collect();
                self.seen[offset as usize..(offset + length) as usize].copy_from_slice(&bytes);
                self.extents.write(offset, bytes.into(), self.epoch);
            }
            Step::Truncate(size) => {
                while !self.in_flight.is_empty() {
                    self.arrive(0);
                }
                self.extents.truncate(size);
                self.servers[size as usize..].fill(0);
                self.seen[size as usize..].fill(0);
            }
            Step::Take { all } => {
                let due = if all { u64::MAX } else { self.epoch };
                if let Some(batch) = self.extents.take(due, 16) {
                    let disjoint = |run: &Run, other: &Run| {
                        run.end() <= other.offset || other.end() <= run.offset
                    };
                    for run in &batch.runs {
                        let in_flight = self.in_flight.iter().flat_map(|batch| &batch.runs);
                        assert!(
                            in_flight.into_iter().all(|other| disjoint(run, other)),
                            "{run:?} is in flight twice"
                        );
                    }
                    self.in_flight.push(batch);
                }
            }
            Step::Arrive(i) if !self.in_flight.is_empty() => self.arrive(i % self.in_flight.len()),
            Step::Arrive(_) => {}
            Step::Epoch => self.epoch += 1,
        }
    }

    fn arrive(&mut self, i: usize) {
        let batch = self.in_flight.swap_remove(i);
        for run in &batch.runs {
            let mut at = run.offset as usize;
            for buffer in &run.buffers {
                self.servers[at..at + buffer.len()].copy_from_slice(buffer);
                at += buffer.len();
            }
            assert_eq!(at as u64, run.end());
        }
        self.extents.arrived(&batch);
    }

    fn check(&self) {
        let mut found = self.servers.clone();
        let mut end = 0;
        for (at, bytes) in self.extents.overlay(0..found.len() as u64) {
            assert!(at >= end, "pieces overlap at {at}");
            end = at + bytes.len() as u64;
            found[at as usize..end as usize].copy_from_slice(&bytes);
        }
        assert_eq!(end, self.extents.end());
        assert!(found == self.seen, "a reader sees wrong bytes");
        let in_flight: u64 = self.in_flight.iter().map(Batch::bytes).sum();
        assert_eq!(in_flight as usize, self.extents.in_flight_bytes);
        let dirty: usize = self.extents.dirty.values().map(Segment::len).sum();
        assert_eq!(dirty, self.extents.dirty_bytes);
        let entries = self.extents.dirty.len() + self.extents.in_flight.len();
        assert_eq!(self.extents.epochs.values().sum::<usize>(), entries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reader_sees_the_latest_bytes_and_the_servers_end_with_them(steps in steps()) {
        let empty = vec![0; (SPACE + BLOCK) as usize];
        let mut model = Model {
            servers: empty.clone(),
            seen: empty,
            extents: Extents::default(),
            in_flight: Vec::new(),
            epoch: 1,
        };
        for step in &steps {
            model.apply(step);
            model.check();
        }
        let mut rounds = 0;
        while model.extents.charge() > 0 {
            model.apply(&Step::Take { all: true });
            model.apply(&Step::Arrive(rounds));
            rounds += 1;
            prop_assert!(rounds < 10_000, "the extents never drain");
        }
        model.check();
        prop_assert!(model.servers == model.seen);
    }

    #[test]
    fn the_overlay_of_a_range_equals_that_range_of_the_whole_overlay(steps in steps(), start in 0..SPACE, length in 1..BLOCK) {
        let empty = vec![0; (SPACE + BLOCK) as usize];
        let mut model = Model {
            servers: empty.clone(),
            seen: empty,
            extents: Extents::default(),
            in_flight: Vec::new(),
            epoch: 1,
        };
        for step in &steps {
            model.apply(step);
        }
        let range = start..start + length;
        let mut found = model.servers[start as usize..range.end as usize].to_vec();
        for (at, bytes) in model.extents.overlay(range.clone()) {
            let at = (at - start) as usize;
            found[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        prop_assert!(found == model.seen[start as usize..range.end as usize]);
    }
}

#[test]
fn small_adjacent_writes_become_one_segment_and_a_whole_block_is_sent_at_once() {
    let mut extents = Extents::default();
    for i in 0..BLOCK / 4096 {
        assert!(extents.take(0, 1).is_none());
        extents.write(i * 4096, vec![i as u8; 4096].into(), 1);
    }
    let batch = extents.take(0, 1).expect("the block is whole");
    assert_eq!((batch.runs.len(), batch.range()), (1, 0..BLOCK));
    assert_eq!(batch.runs[0].buffers.len(), 1);
}

#[test]
fn a_large_write_is_not_copied() {
    let mut extents = Extents::default();
    let data = Bytes::from(vec![1; BLOCK as usize]);
    extents.write(0, data.clone(), 1);
    let batch = extents.take(0, 1).expect("the block is whole");
    assert_eq!(batch.runs[0].buffers[0].as_ptr(), data.as_ptr());
}

#[test]
fn bytes_written_over_an_in_flight_block_wait_for_it() {
    let mut extents = Extents::default();
    let write =
        |extents: &mut Extents, byte| extents.write(0, vec![byte; BLOCK as usize].into(), 1);
    write(&mut extents, 1);
    let first = extents.take(9, 9).expect("the block is whole");
    write(&mut extents, 2);
    assert!(extents.take(9, 9).is_none());
    extents.arrived(&first);
    let second = extents.take(9, 9).expect("nothing is in flight below it");
    assert_eq!(second.runs[0].buffers[0][0], 2);
}

#[test]
fn a_small_remainder_does_not_hold_a_large_buffer() {
    let mut extents = Extents::default();
    let data = Bytes::from(vec![1; 2 * BLOCK as usize]);
    extents.write(0, data.clone(), 1);
    extents.write(10, vec![2; 2 * BLOCK as usize - 20].into(), 1);
    assert!(data.is_unique());
}

#[test]
fn overwritten_bytes_are_sent_when_the_first_write_is_due() {
    for length in [4096, 70_000, 600_000] {
        let mut extents = Extents::default();
        let mut taken = None;
        for epoch in 0..5 {
            // One write covers all of the last epoch, one its end.
            for offset in [100, 2000] {
                extents.write(offset, Bytes::from(vec![epoch as u8; length]), epoch);
            }
            taken = extents.take(epoch.saturating_sub(2), 100).map(|_| epoch);
            if taken.is_some() {
                break;
            }
        }
        assert_eq!(taken, Some(3), "{length} bytes");
    }
}
