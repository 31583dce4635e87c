//! The caller of a request: the request carries user, group and thread; the thread's supplementary
//! groups are read from `/proc`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::limits::{CALLERS_MAX, CREDENTIALS_VALID};
use parking_lot::Mutex;
use weft_client::Credentials;
use weft_proto::limits::GROUPS_MAX;

/// The thread that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Thread; 0 is the kernel itself.
    pub pid: u32,
}

/// The credentials of recent callers.
#[derive(Debug, Default)]
pub(in crate::fs) struct Callers(Mutex<HashMap<Caller, (Instant, Arc<Credentials>)>>);

impl Callers {
    /// The caller's credentials. Reads a page of `/proc` if they are not cached.
    pub(in crate::fs) fn credentials(&self, caller: Caller) -> Arc<Credentials> {
        let now = Instant::now();
        if let Some((until, who)) = self.0.lock().get(&caller)
            && *until > now
        {
            return who.clone();
        }
        // Root needs no groups.
        let groups = match caller {
            Caller { uid: 0, .. } | Caller { pid: 0, .. } => Vec::new(),
            Caller { pid, .. } => groups(pid),
        };
        let who = Arc::new(Credentials {
            uid: caller.uid,
            gid: caller.gid,
            groups,
        });
        let mut known = self.0.lock();
        if known.len() >= CALLERS_MAX {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        known.insert(caller, (now + CREDENTIALS_VALID, who.clone()));
        who
    }
}

/// Root, for what the kernel has already permitted.
pub(in crate::fs) fn root() -> Credentials {
    Credentials::default()
}

/// The supplementary groups of a thread; none if it has ended.
fn groups(thread: u32) -> Vec<u32> {
    std::fs::read_to_string(format!("/proc/{thread}/status"))
        .map(|status| parse(&status))
        .unwrap_or_default()
}

fn parse(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers
        .filter_map(|n| n.parse().ok())
        .take(GROUPS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_status_page() {
        assert_eq!(
            parse("Name:\tcat\nGid:\t5\t5\t5\t5\nGroups:\t4 24 1000 \nNStgid:\t1\n"),
            [4, 24, 1000]
        );
        assert_eq!(parse("Groups:\t\n"), [0_u32; 0]);
        assert_eq!(parse(""), [0_u32; 0]);
    }

    #[test]
    fn the_number_of_cached_callers_is_bounded() {
        let callers = Callers::default();
        for uid in 0..3000 {
            callers.credentials(Caller {
                uid,
                gid: 0,
                pid: 0,
            });
        }
        assert!(callers.0.lock().len() <= CALLERS_MAX);
    }
}
