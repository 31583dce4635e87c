//! Measures the allocations of the decoder: a body's lists are bounded by the body's own length.

// Only an allocator can count allocations.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use weft_proto::io::DeleteCellsRequest;
use weft_proto::meta::{ListReply, ReassertRequest, StatRequest};
use weft_proto::prost::Message;
use weft_proto::{Kind, body_from, limits};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call to the system's allocator and only counts in addition.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The peak of allocated bytes while `bytes` are decoded.
fn peak<M: Message + Default>(kind: Kind, bytes: &[u8]) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let decoded = body_from::<M>(kind, bytes);
    drop(decoded);
    PEAK.load(Ordering::Relaxed) - before
}

/// The only test of this program, because others would allocate at the same time.
#[test]
fn decoding_allocates_in_proportion_to_the_received_bytes() {
    let max = limits::BODY_MAX as usize;
    // The decoder allocates nothing for a length far beyond the body.
    for tag in [0x0a, 0x12, 0x1a] {
        let lie = [tag, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
        assert!(peak::<StatRequest>(Kind::Stat, &lie) < 1024);
        assert!(peak::<DeleteCellsRequest>(Kind::DeleteCells, &lie) < 1024);
        assert!(peak::<ListReply>(Kind::List, &lie) < 1024);
    }
    // The densest list in a request: one number per byte.
    let mut dense = vec![0x0a, 0xfb, 0xff, 0x3f];
    dense.resize(max, 1);
    let files = peak::<DeleteCellsRequest>(Kind::DeleteCells, &dense);
    assert!(files <= 32 * max, "{files}");
    let files = peak::<ReassertRequest>(Kind::Reassert, &dense);
    assert!(files <= 32 * max, "{files}");
    // The densest list in a reply: one empty entry per two bytes. Clients decode replies of
    // authenticated servers only.
    let dense = [0x0a, 0].repeat(max / 2);
    let entries = peak::<ListReply>(Kind::List, &dense);
    assert!(entries <= 512 * max, "{entries}");
}
