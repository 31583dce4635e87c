use proptest::prelude::*;

use super::*;
use crate::record::Place;

fn extent(start: u64, blocks: u64) -> Extent {
    Extent { start, blocks }
}

fn hint(fork: u64, held: u64, goal: u64) -> AllocHint {
    AllocHint {
        fork: Some(fork),
        held,
        goal,
    }
}

const NO_FORK: AllocHint = AllocHint {
    fork: None,
    held: 0,
    goal: u64::MAX,
};

fn disk_of(blocks: u64) -> Allocator {
    let mut disk = Allocator::default();
    disk.grow(0, blocks, 0);
    disk
}

#[test]
fn freed_blocks_wait_for_a_durable_synced_record() {
    let mut disk = disk_of(10);
    assert_eq!(disk.take(10, NO_FORK), Some(vec![extent(0, 10)]));
    disk.free_after(5, extent(2, 3));
    disk.free_after(7, extent(5, 1));
    assert_eq!(disk.take(1, NO_FORK), None);
    disk.release(6);
    assert_eq!((disk.available(), disk.waiting()), (3, 1));
    disk.release(7);
    let goal = AllocHint { goal: 2, ..NO_FORK };
    assert_eq!(disk.take(4, goal), Some(vec![extent(2, 4)]));
}

#[test]
fn reserved_blocks_are_not_given_to_others() {
    let mut disk = disk_of(4);
    disk.reserve(3);
    assert_eq!(disk.take(2, NO_FORK), None);
    assert!(disk.take(1, NO_FORK).is_some());
    assert!(disk.take_reserved(3, NO_FORK).is_some());
    assert_eq!(disk.available(), 0);
}

#[test]
fn a_block_can_be_claimed_only_once() {
    let mut disk = disk_of(8);
    assert!(disk.claim(extent(2, 4)));
    assert!(!disk.claim(extent(5, 1)));
    assert!(!disk.claim(extent(7, 2)));
    assert_eq!(disk.available(), 4);
}

#[test]
fn forks_that_grow_side_by_side_stay_contiguous() {
    let mut disk = disk_of(1 << 18);
    let mut forks = [(0_u64, u64::MAX, 0_u64); 8];
    // 64 MiB each in steps of 64 KiB.
    for _ in 0..1024 {
        for (id, fork) in (0..).zip(&mut forks) {
            for part in disk.take(16, hint(id, fork.0, fork.1)).unwrap() {
                fork.2 += u64::from(part.start != fork.1);
                fork.0 += part.blocks;
                fork.1 = part.start + part.blocks;
            }
        }
    }
    for (held, _, runs) in forks {
        assert!(held / runs >= 1024, "{} blocks a run", held / runs);
    }
}

#[test]
fn windows_are_given_up_when_nothing_else_is_free() {
    let mut disk = disk_of(4096);
    let first = disk.take(16, hint(1, 0, u64::MAX)).unwrap();
    let goal = first[0].start + 16;
    disk.take(16, hint(1, 64, goal)).unwrap();
    let left = disk.available();
    assert_eq!(left, 4096 - 32 - 64);
    let all = disk.take(left, hint(2, 0, u64::MAX)).unwrap();
    assert_eq!(all.iter().map(|e| e.blocks).sum::<u64>(), left);
}

#[test]
fn disks_fill_in_proportion_to_their_free_space() {
    let mut set = Allocator::default();
    // No size is a power of two.
    let sizes = [30_000_u64, 10_007, 60_001];
    for (number, size) in (0..).zip(sizes) {
        set.grow(number, size, 0);
    }
    for file in 0..5000 {
        set.take(10, hint(file, 0, u64::MAX)).unwrap();
    }
    for (number, size) in (0..).zip(sizes) {
        let (_, free) = set.of_disk(number);
        let share = (size - free) as f64 / size as f64;
        assert!((0.4..0.6).contains(&share), "disk {number}: {share}");
    }
}

#[test]
fn a_closed_disk_gets_no_new_blocks() {
    let mut set = Allocator::default();
    set.grow(0, 1000, 0);
    set.grow(7, 1000, 0);
    set.take(100, hint(1, 0, u64::MAX)).unwrap();
    set.take(100, hint(1, 100, u64::MAX)).unwrap();
    set.close(7);
    assert_eq!(set.open(), [0]);
    for n in 0..8 {
        for part in set.take(10, hint(n, 50, 7 << 48 | 5)).unwrap() {
            assert_eq!(part.disk(), 0);
        }
    }
}

proptest! {
    /// No block is allocated twice, and free, waiting and taken blocks add up to the disk.
    #[test]
    fn no_block_is_allocated_twice(
        steps in prop::collection::vec((0_u8..5, 0_u64..6, 1_u64..40), 1..200),
    ) {
        let mut set = Allocator::default();
        for (number, size) in [(0, 300), (3, 170), (9, 41)] {
            set.grow(number, size, 0);
        }
        let (mut held, mut waiting, mut sequence) = (Vec::<(u64, Extent)>::new(), 0_u64, 0);
        for (what, fork, blocks) in steps {
            match what {
                0..=2 => {
                    let size = held.iter().filter(|h| h.0 == fork).map(|h| h.1.blocks).sum();
                    let last = held.iter().rfind(|h| h.0 == fork).map(|h| h.1);
                    let goal = last.map_or(u64::MAX, |l| l.start + l.blocks);
                    let before = set.available();
                    match set.take(blocks, hint(fork, size, goal)) {
                        None => prop_assert!(blocks > before),
                        Some(parts) => {
                            prop_assert_eq!(parts.iter().map(|p| p.blocks).sum::<u64>(), blocks);
                            for part in parts {
                                for (_, other) in &held {
                                    let apart = part.start >= other.start + other.blocks
                                        || other.start >= part.start + part.blocks;
                                    prop_assert!(apart, "{part:?} {other:?}");
                                }
                                held.push((fork, part));
                            }
                        }
                    }
                }
                3 => {
                    if let Some(at) = held.iter().position(|h| h.0 == fork) {
                        sequence += 1;
                        let (_, part) = held.remove(at);
                        waiting += part.blocks;
                        set.free_after(sequence, part);
                    }
                }
                _ => {
                    set.release(sequence);
                    set.close_window(fork);
                    waiting = 0;
                }
            }
            let taken: u64 = held.iter().map(|h| h.1.blocks).sum();
            prop_assert_eq!(set.usable() + waiting + taken, 300 + 170 + 41);
            prop_assert_eq!(set.used(), taken);
        }
    }
}

#[test]
fn a_punch_walk_takes_all_free_blocks_but_the_reserve_in_steps() {
    let mut disk = disk_of(10_000);
    disk.grow(1, 3000, 0);
    // One large extent, and small ones on both sides of it.
    for block in (0..1000).step_by(10).chain((9000..10_000).step_by(10)) {
        assert!(disk.claim(extent(block, 1)));
    }
    let keep = PunchReserve {
        large: 500,
        small: 100,
    };
    let (mut walk, mut taken) = (PunchWalk::new(), Vec::new());
    while let Some(found) = disk.take_to_punch(0, keep, 300, &mut walk) {
        assert!(found.iter().map(|e| e.blocks).sum::<u64>() <= 300);
        taken.extend(found);
    }
    let blocks = |all: &[Extent]| all.iter().map(|e| e.blocks).sum::<u64>();
    assert_eq!(blocks(&taken), 10_000 - 200 - 600);
    assert_eq!((disk.of_disk(0), disk.unbacked(0)), ((10_000, 600), 9200));
    assert_eq!(disk.used(), 200);
    // No write gets a punched block before it is filled.
    let most = disk.available();
    let given = disk.take(most, NO_FORK).unwrap();
    let within = |e: &Extent| {
        given
            .iter()
            .any(|g| g.start < e.start + e.blocks && e.start < g.start + g.blocks)
    };
    assert!(!taken.iter().any(within));
    let mut filled = Vec::new();
    while disk.unbacked(0) > 0 {
        let some = disk.to_fill(0, 1000);
        for extent in &some {
            disk.filled(*extent);
        }
        filled.extend(some);
    }
    assert_eq!(blocks(&filled), 9200);
    disk.take(8000, NO_FORK).unwrap();
}

#[test]
fn unsure_blocks_count_as_free_and_are_filled_first() {
    let mut disk = disk_of(1000);
    assert!(disk.claim(extent(100, 50)));
    let keep = PunchReserve { large: 0, small: 0 };
    let punched = disk
        .take_to_punch(0, keep, 200, &mut PunchWalk::new())
        .unwrap();
    assert_eq!(punched, [extent(800, 200)]);
    disk.mark_unsure(0);
    assert_eq!(
        (disk.available(), disk.unbacked(0), disk.unsure(0)),
        (0, 950, 750)
    );
    assert!(disk.is_free(Place(120 + 40)) && !disk.is_free(Place(120)));
    let first = disk.to_fill(0, 120);
    assert_eq!(first, [extent(0, 100), extent(150, 20)]);
    disk.mark_punch_unsure(extent(800, 200));
    assert_eq!(disk.unsure(0), 950);
}
