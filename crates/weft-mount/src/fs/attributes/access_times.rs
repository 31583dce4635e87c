//! Access times: which reads count, and when the service learns of them. The kernel leaves both to
//! the mount.
//!
//! A read counts as the mount's options say, by default as `relatime`: the first since the last
//! change, and the first in a day. A read that counts shows here at once; the service learns of it
//! with the ends of attachments, so that it costs no call, and another mount sees it when it next
//! asks the service. The kernel does not report reads from its pages: an open for reading whose
//! pages are kept counts as a read. See `docs/design/0028-atime.md`.

use crate::fs::FileSystem;
use crate::fs::clock::now_nanos;
use crate::fs::metadata::Attr;

const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// Whether a read counts by `relatime`.
fn is_due(attr: &Attr, now: i64) -> bool {
    attr.accessed <= attr.modified
        || attr.accessed <= attr.changed
        || now.saturating_sub(attr.accessed) >= DAY
}

/// The time of access after a read that counts: never before the last change, whose time may be of
/// another clock; else the next read would count, too.
fn time_of(attr: &Attr, now: i64) -> i64 {
    now.max(attr.modified.max(attr.changed).saturating_add(1))
}

impl FileSystem {
    /// A file or link was read. True if it counts: its attributes are not what they were.
    pub(in crate::fs) fn accessed(&self, id: u64) -> bool {
        self.note_access(id, false)
    }

    /// A directory was listed.
    pub(in crate::fs) fn accessed_directory(&self, id: u64) {
        self.note_access(id, true);
    }

    fn note_access(&self, id: u64, directory: bool) -> bool {
        let times = self.metadata.upper().map(|upper| upper.access_times());
        let Some(times) = times.filter(|times| !times.never) else {
            return false;
        };
        if directory && !times.directories {
            return false;
        }
        let Some(mut attr) = self.metadata.nodes().last(id) else {
            return false;
        };
        self.cover(&mut attr);
        let now = now_nanos();
        if !times.always && !is_due(&attr, now) {
            return false;
        }
        let time = time_of(&attr, now);
        self.metadata.nodes().accessed(id, time);
        self.volume.note_access(id, time);
        true
    }
}

#[cfg(test)]
mod tests {
    use weft_client::Attributes;

    use super::*;

    fn attr(accessed: i64, modified: i64, changed: i64) -> Attr {
        Attr::from(&Attributes {
            accessed,
            modified,
            changed,
            ..Attributes::default()
        })
    }

    #[test]
    fn the_first_read_after_a_change_or_a_day_updates_the_access_time() {
        assert!(
            is_due(&attr(5, 5, 4), 6),
            "the access is as old as the write"
        );
        assert!(is_due(&attr(5, 4, 6), 7));
        assert!(!is_due(&attr(7, 4, 6), 8));
        assert!(!is_due(&attr(7, 4, 6), 7 + DAY - 1));
        assert!(is_due(&attr(7, 4, 6), 7 + DAY));
    }

    #[test]
    fn an_access_time_is_updated_once_even_if_the_last_change_is_in_the_future() {
        let before = attr(5, 100, 90);
        let time = time_of(&before, 50);
        assert!(is_due(&before, 50) && !is_due(&attr(time, 100, 90), 50));
    }
}
