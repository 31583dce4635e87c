//! No bytes whatever make a decoder panic, allocate without bound, or take what it would not write.
#![allow(missing_docs)]
// Counting is only possible from inside the allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weft_fuzz::{Dice, FAMILIES, Target, mutated, targets};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator and only counts beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory that a decoder and the encoder behind it may take at a time, for each byte and for none.
const PER_BYTE: usize = 256;
const AT_ALL: usize = 64 << 10;

/// Feeds a decoder; whether it took the bytes. What goes wrong says which bytes.
fn feed(target: &Target, bytes: &[u8]) -> bool {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let fed = catch_unwind(AssertUnwindSafe(|| target.feed(bytes)));
    let peak = PEAK.load(Relaxed) - before;
    match fed {
        Ok(taken) => {
            let most = AT_ALL + PER_BYTE * bytes.len();
            let name = target.name;
            assert!(
                peak <= most,
                "{name}: {peak} bytes of memory for {bytes:02x?}"
            );
            taken
        }
        Err(panic) => {
            eprintln!("{} {}: {bytes:02x?}", target.family, target.name);
            resume_unwind(panic)
        }
    }
}

fn cases() -> u64 {
    let cases = std::env::var("WEFT_CASES").ok();
    cases.and_then(|n| n.parse().ok()).unwrap_or(1000)
}

/// One test, because others would allocate beside it.
#[test]
fn no_bytes_whatever_break_a_decoder() {
    let all = targets();
    for family in FAMILIES {
        assert!(all.iter().any(|t| t.family == family), "{family}");
    }
    let pool: Vec<Vec<u8>> = all.iter().flat_map(Target::seeds).collect();
    for (n, target) in (1_u64..).zip(&all) {
        let seeds = target.seeds();
        assert!(!seeds.is_empty(), "no valid bytes of {}", target.name);
        for seed in &seeds {
            assert!(feed(target, seed));
            for end in 0..seed.len() {
                feed(target, &seed[..end]);
            }
        }
        let (mut dice, mut taken) = (Dice(n << 32), 0);
        for case in 0..cases() {
            let seed = &seeds[dice.below(seeds.len())];
            let other = &pool[dice.below(pool.len())];
            let bytes = if case.is_multiple_of(8) {
                (0..dice.below(300))
                    .map(|_| dice.below(256) as u8)
                    .collect()
            } else {
                mutated(seed, other, &mut dice)
            };
            taken += u64::from(feed(target, &bytes));
        }
        // Else nothing behind the checksums was reached.
        let some = taken * 200 >= cases();
        assert!(some, "{}: takes {taken} of {} only", target.name, cases());
    }
}
