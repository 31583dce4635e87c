//! The cookies of directories that were closed lately: an NFS server closes a directory after each
//! answer, and continues in another open of it.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::cookies::Cookies;
use crate::limits::CLOSED_COOKIES_MAX;

/// By directory, those closed last at the end.
#[derive(Debug, Default)]
pub(in crate::fs) struct ClosedCookies(Mutex<VecDeque<(u64, Cookies)>>);

impl ClosedCookies {
    /// Keeps the cookies of a directory, and drops the oldest ones beyond
    /// [`CLOSED_COOKIES_MAX`] names.
    pub(super) fn keep(&self, directory: u64, cookies: Cookies) {
        // One page of the service finds the cookies of a small directory again.
        if cookies.segments() < 2 || cookies.names() > CLOSED_COOKIES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        kept.retain(|(id, _)| *id != directory);
        kept.push_back((directory, cookies));
        let mut room = CLOSED_COOKIES_MAX;
        let fit = kept.iter().rev().take_while(|(_, cookies)| {
            let left = room.checked_sub(cookies.names());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let surplus = kept.len() - fit.count();
        kept.drain(..surplus);
    }

    /// The cookies of a directory, which are kept no longer.
    pub(super) fn take(&self, directory: u64) -> Option<Cookies> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(id, _)| *id == directory)?;
        kept.remove(at).map(|(_, cookies)| cookies)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn cookies(names: usize) -> Cookies {
        let mut cookies = Cookies::new();
        let names: Vec<Bytes> = (0..names).map(|n| format!("{n:07}").into()).collect();
        cookies.listed(0, names.iter(), names.len() > 1);
        cookies
    }

    #[test]
    fn cookies_of_closed_directories_are_kept_within_bounds() {
        let closed = ClosedCookies::default();
        closed.keep(1, cookies(10));
        assert_eq!(closed.take(1).unwrap().names(), 10);
        assert!(closed.take(1).is_none());
        closed.keep(1, cookies(1));
        assert!(closed.take(1).is_none(), "one page has it");
        for directory in 0..9 {
            closed.keep(directory, cookies(CLOSED_COOKIES_MAX / 8));
        }
        assert!(closed.take(0).is_none() && closed.take(1).is_some() && closed.take(8).is_some());
        closed.keep(9, cookies(CLOSED_COOKIES_MAX + 1));
        assert!(closed.take(9).is_none());
    }
}
