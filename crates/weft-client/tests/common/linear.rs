//! A checker of histories.

#[cfg(test)]
use std::time::Duration;
use std::time::Instant;

/// What an operation on a single value did, and when.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub value: u8,
    pub is_write: bool,
    pub began: Instant,
    pub ended: Instant,
}

/// Whether a history of reads and writes of one value, each written once, is linearizable (Gibbons
/// and Korach, Testing Shared Memories, 1997, §4): no two values' zones are in each other's way.
pub fn is_linearizable(history: &[Event]) -> bool {
    struct Zone {
        from: Instant,
        to: Instant,
        forward: bool,
    }
    let mut values: Vec<u8> = history.iter().map(|event| event.value).collect();
    values.sort_unstable();
    values.dedup();
    let mut zones = Vec::new();
    for value in values {
        let of = || history.iter().filter(|event| event.value == value);
        let Some(write) = of().find(|event| event.is_write) else {
            return false;
        };
        if of().any(|event| event.ended < write.began) {
            return false;
        }
        let first_end = of().map(|event| event.ended).min().unwrap();
        let last_begin = of().map(|event| event.began).max().unwrap();
        zones.push(Zone {
            from: first_end.min(last_begin),
            to: first_end.max(last_begin),
            forward: first_end < last_begin,
        });
    }
    let apart = |a: &Zone, b: &Zone| match (a.forward, b.forward) {
        (true, true) => a.to <= b.from || b.to <= a.from,
        (true, false) => !(a.from < b.from && b.to < a.to),
        (false, true) => !(b.from < a.from && a.to < b.to),
        (false, false) => true,
    };
    let pairs = |i: usize| (0..i).all(|j| apart(&zones[i], &zones[j]));
    (0..zones.len()).all(pairs)
}

#[test]
fn the_checker_tells_linearizable_histories_from_others() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let event = |value, is_write, began, ended| Event {
        value,
        is_write,
        began: at(began),
        ended: at(ended),
    };
    let write = |value, began, ended| event(value, true, began, ended);
    let read = |value, began, ended| event(value, false, began, ended);
    let (one, two) = (write(1, 0, 10), write(2, 1, 9));
    assert!(is_linearizable(&[
        one,
        two,
        read(2, 11, 12),
        read(2, 13, 14)
    ]));
    assert!(is_linearizable(&[one, two, read(2, 2, 3), read(1, 4, 5)]));
    let back = [one, two, read(2, 2, 3), read(1, 4, 5), read(2, 6, 7)];
    assert!(!is_linearizable(&back), "a value that comes back");
    let old = [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)];
    assert!(!is_linearizable(&old), "a value that was overwritten");
    let early = [write(1, 4, 5), read(1, 0, 1)];
    assert!(!is_linearizable(&early), "a value that is not written yet");
}
