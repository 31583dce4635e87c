//! What a decoder may allocate, measured: a body's lists are bounded by the body's own length.

// Counting is only possible from inside the allocator.
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

// SAFETY: hands everything to the system's allocator and only counts beside it.
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

/// Bytes allocated at most, at a time, while these bytes are decoded.
fn peak<M: Message + Default>(kind: Kind, bytes: &[u8]) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let decoded = body_from::<M>(kind, bytes);
    drop(decoded);
    PEAK.load(Ordering::Relaxed) - before
}

/// One test, because others would allocate beside it.
#[test]
fn decoding_allocates_in_proportion_to_the_bytes_that_came() {
    let max = limits::BODY_MAX as usize;
    // A length that promises the rest of memory: nothing is allocated for it.
    for tag in [0x0a, 0x12, 0x1a] {
        let lie = [tag, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
        assert!(peak::<StatRequest>(Kind::Stat, &lie) < 1024);
        assert!(peak::<DeleteCellsRequest>(Kind::DeleteCells, &lie) < 1024);
        assert!(peak::<ListReply>(Kind::List, &lie) < 1024);
    }
    // The densest lists that a request can carry: a number per byte.
    let mut dense = vec![0x0a, 0xfb, 0xff, 0x3f];
    dense.resize(max, 1);
    let files = peak::<DeleteCellsRequest>(Kind::DeleteCells, &dense);
    assert!(files <= 32 * max, "{files}");
    let files = peak::<ReassertRequest>(Kind::Reassert, &dense);
    assert!(files <= 32 * max, "{files}");
    // And that a reply can: an empty entry per two bytes. Only a proven server is heard that far.
    let dense = [0x0a, 0].repeat(max / 2);
    let entries = peak::<ListReply>(Kind::List, &dense);
    assert!(entries <= 512 * max, "{entries}");
}
