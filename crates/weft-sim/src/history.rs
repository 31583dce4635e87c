//! The history of a value that clients read and write, and whether it is linearizable.

use std::collections::BTreeMap;

use crate::oracle::Time;

pub(crate) type Value = u64;

/// What is known of one value: each is written once.
#[derive(Clone, Copy, Debug)]
struct Known {
    write_began: Time,
    /// The first end, and the last beginning, of its write and its reads.
    first_end: Option<Time>,
    last_begin: Time,
}

/// Operations on one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    last: Value,
    values: BTreeMap<Value, Known>,
    /// A value was read that was not written.
    unwritten: Option<Value>,
}

impl History {
    /// The value of the next write.
    pub(crate) fn next_value(&mut self) -> Value {
        self.last += 1;
        self.last
    }

    /// A write began then, and ended; `None`: it may take effect at any time.
    pub(crate) fn wrote(&mut self, value: Value, (began, ended): (Time, Option<Time>)) {
        let known = self.values.entry(value).or_insert(Known {
            write_began: began,
            first_end: None,
            last_begin: began,
        });
        known.write_began = began;
        known.note(began, ended);
    }

    /// A read found a value; 0: nothing was written yet.
    pub(crate) fn read(&mut self, value: Value, (began, ended): (Time, Time)) {
        if value > self.last {
            self.unwritten = Some(value);
        }
        // Its write may not have ended.
        let known = self.values.entry(value).or_insert(Known {
            write_began: 0,
            // What was there first was there from the start.
            first_end: (value == 0).then_some(0),
            last_begin: began,
        });
        known.note(began, Some(ended));
    }

    /// Why the history is not linearizable (Gibbons and Korach, Testing Shared Memories, 1997): the
    /// times during which two values must have been there overlap, or one read of a value lies
    /// within those of another.
    pub(crate) fn wrong(&self) -> Option<String> {
        if let Some(value) = self.unwritten {
            return Some(format!("{value} was read and never written"));
        }
        let zones: Vec<(Value, Time, Time, bool)> = self.values.iter().filter_map(zone).collect();
        for (i, one) in zones.iter().enumerate() {
            for other in &zones[..i] {
                let clash = match (one.3, other.3) {
                    (true, true) => one.1 < other.2 && other.1 < one.2,
                    (true, false) => one.1 < other.1 && other.2 < one.2,
                    (false, true) => other.1 < one.1 && one.2 < other.2,
                    (false, false) => false,
                };
                if clash {
                    return Some(format!(
                        "no order of the cautious operations explains the values {} and {}",
                        one.0, other.0
                    ));
                }
            }
        }
        let early = |known: &Known| known.first_end.is_some_and(|end| end < known.write_began);
        let early = self.values.iter().find(|(_, known)| early(known));
        early.map(|(value, _)| format!("{value} was read before it was written"))
    }
}

impl Known {
    fn note(&mut self, began: Time, ended: Option<Time>) {
        self.last_begin = self.last_begin.max(began);
        if let Some(ended) = ended {
            self.first_end = Some(self.first_end.map_or(ended, |first| first.min(ended)));
        }
    }
}

/// The zone of a value, and whether the value was there during all of it.
fn zone((value, known): (&Value, &Known)) -> Option<(Value, Time, Time, bool)> {
    let end = known.first_end?;
    let begin = known.last_begin;
    Some((*value, end.min(begin), end.max(begin), end < begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(writes: &[(Value, Time, Option<Time>)], reads: &[(Value, Time, Time)]) -> History {
        let mut history = History::default();
        for (value, began, ended) in writes {
            assert_eq!(history.next_value(), *value);
            history.wrote(*value, (*began, *ended));
        }
        for (value, began, ended) in reads {
            history.read(*value, (*began, *ended));
        }
        history
    }

    #[test]
    fn only_linearizable_histories_are_right() {
        let writes = [(1, 10, Some(20)), (2, 12, Some(18)), (3, 30, None)];
        let right = |reads: &[_]| history(&writes, reads).wrong().is_none();
        assert!(right(&[(0, 1, 5), (2, 21, 22), (2, 23, 24), (3, 40, 41)]));
        assert!(right(&[(2, 13, 14), (1, 15, 16), (1, 50, 60)]));
        assert!(
            !right(&[(2, 13, 14), (1, 15, 16), (2, 17, 19)]),
            "it comes back"
        );
        assert!(!right(&[(1, 31, 32), (2, 33, 34)]), "in two orders");
        assert!(!right(&[(0, 21, 22)]), "older than what was written");
        assert!(!right(&[(3, 1, 2)]), "not written yet");
        assert!(!right(&[(9, 50, 51)]), "never written");
    }
}
