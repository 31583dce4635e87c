//! Consistency policies: how much order an application asks for, and pays (CAPFS §3.6 and Table 1;
//! `docs/consistency.md`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weft_layout::Storage;

use crate::Error;

/// A consistency policy: what a client believes, and for how long, and when its changes count.
///
/// # Source
/// CAPFS Table 1 for SEQ-1 to REL-1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy(&'static Values);

/// The values that make a policy.
#[derive(PartialEq, Eq, Hash)]
struct Values {
    name: &'static str,
    /// Each operation is atomic, and all happen in one order (Vesta's cautious; CAPFS's commits
    /// that are not forced).
    in_order: bool,
    names: Kept,
    /// A file that has bytes is not written.
    written_once: bool,
    /// It needs the names of chunks.
    addressed: bool,
    summary: &'static str,
}

/// Which names of chunks a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kept {
    None,
    /// Those that servers keep coherent.
    Coherent,
    /// Its own, for this long; `None`: until the attachment syncs or closes.
    Own(Option<Duration>),
    /// Its own, until the attachment closes.
    OwnUntilClose,
}

/// How long `nfs` believes what it has read, as NFS's `acregmin`.
const NFS_BELIEVED: Duration = Duration::from_secs(3);

const POLICIES: [Values; 9] = [
    Values {
        name: "posix",
        in_order: true,
        names: Kept::None,
        written_once: false,
        addressed: false,
        summary: "every operation is atomic and sees all that ended before it began",
    },
    Values {
        name: "seq-1",
        in_order: true,
        names: Kept::None,
        written_once: false,
        addressed: true,
        summary: "as posix; names of chunks are asked for each time",
    },
    Values {
        name: "seq-2",
        in_order: true,
        names: Kept::Coherent,
        written_once: false,
        addressed: true,
        summary: "as posix; names of chunks are kept, and servers tell of changes",
    },
    Values {
        name: "for-1",
        in_order: false,
        names: Kept::None,
        written_once: false,
        addressed: true,
        summary: "each server does its part when it arrives; the last writer wins",
    },
    Values {
        name: "for-2",
        in_order: false,
        names: Kept::Coherent,
        written_once: false,
        addressed: true,
        summary: "as for-1; names of chunks are kept, and servers tell of changes",
    },
    Values {
        name: "rel-1",
        in_order: false,
        names: Kept::Own(None),
        written_once: false,
        addressed: true,
        summary: "as for-1; names of chunks are kept until this open syncs or closes",
    },
    Values {
        name: "session",
        in_order: false,
        names: Kept::OwnUntilClose,
        written_once: false,
        addressed: false,
        summary: "an open sees all that was closed before it, and its own changes",
    },
    Values {
        name: "nfs",
        in_order: false,
        names: Kept::Own(Some(NFS_BELIEVED)),
        written_once: false,
        addressed: false,
        summary: "as session, and changes of others after 3 seconds at the latest",
    },
    Values {
        name: "immutable",
        in_order: false,
        names: Kept::OwnUntilClose,
        written_once: true,
        addressed: false,
        summary: "a file is written by the open that creates it, then only read",
    },
];

impl Policy {
    /// Every operation is atomic and sees all that ended before it began.
    pub const POSIX: Policy = Policy(&POLICIES[0]);
    /// As posix, for addressed files; names of chunks are asked for each time.
    pub const SEQ_1: Policy = Policy(&POLICIES[1]);
    /// As posix, for addressed files; names of chunks are kept, and servers tell of changes.
    pub const SEQ_2: Policy = Policy(&POLICIES[2]);
    /// Each server does its part of an operation when it arrives.
    pub const FOR_1: Policy = Policy(&POLICIES[3]);
    /// As FOR-1; names of chunks are kept, and servers tell of changes.
    pub const FOR_2: Policy = Policy(&POLICIES[4]);
    /// As FOR-1; names of chunks are kept until this open syncs or closes.
    pub const REL_1: Policy = Policy(&POLICIES[5]);
    /// An open sees all that was closed before it, and its own changes.
    pub const SESSION: Policy = Policy(&POLICIES[6]);
    /// As session, and changes of others after 3 seconds at the latest.
    pub const NFS: Policy = Policy(&POLICIES[7]);
    /// A file is written by the open that creates it, then only read.
    pub const IMMUTABLE: Policy = Policy(&POLICIES[8]);

    /// All policies.
    pub fn all() -> impl Iterator<Item = Policy> {
        POLICIES.iter().map(Policy)
    }

    /// The name, in every interface.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it promises, in a line.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// Whether files of this kind can have it.
    pub fn fits(self, storage: Storage) -> bool {
        !self.0.addressed || storage == Storage::Addressed
    }

    /// Whether a mount keeps nothing of such a file in the kernel's pages and its own buffers: the
    /// policy says what is kept.
    pub fn is_past_pages(self) -> bool {
        self.0.addressed
    }

    /// Whether a mount promises at least as much to every file.
    pub fn is_met_by_mounts(self) -> bool {
        !self.0.addressed && !self.0.written_once
    }

    /// This policy, or the nearest one that files of this kind can have: at least as strict;
    /// `None`: none is needed.
    pub(crate) fn as_far_as(self, storage: Storage) -> Option<Policy> {
        if self.fits(storage) {
            Some(self)
        } else {
            self.is_in_order().then_some(Policy::POSIX)
        }
    }

    /// Whether each operation is atomic, and all happen in one order.
    pub fn is_in_order(self) -> bool {
        self.0.in_order
    }

    /// Whether a file is written only by the open that creates it.
    pub(crate) fn is_written_once(self) -> bool {
        self.0.written_once
    }

    /// Whether it keeps names that only the attachment believes.
    pub(crate) fn keeps_own_names(self) -> bool {
        matches!(self.0.names, Kept::Own(_) | Kept::OwnUntilClose)
    }

    /// Whether names that it keeps are believed until a sync.
    pub(crate) fn believes_until_sync(self) -> bool {
        self.0.names == Kept::Own(None)
    }

    pub(crate) fn kept(self) -> Kept {
        self.0.names
    }

    /// Refuses a policy that a file cannot have.
    pub(crate) fn check(self, path: &str, storage: Storage) -> Result<(), Error> {
        if self.fits(storage) {
            return Ok(());
        }
        let what = format!("use {path} with the policy {self}");
        let fitting: Vec<_> = Policy::all()
            .filter(|p| p.fits(storage))
            .map(Policy::name)
            .collect();
        let reason = format!(
            "the file is plain, and its chunks have no names; choose one of {}, or convert it with `weft cp --addressed`",
            fitting.join(", ")
        );
        Err(Error::invalid(what, reason))
    }
}

/// A policy's name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no consistency policy; there are {}", names())]
pub struct UnknownPolicy {
    name: String,
}

fn names() -> String {
    let names: Vec<_> = Policy::all().map(Policy::name).collect();
    names.join(", ")
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        let found = Policy::all().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_names_the_known_ones() {
        for policy in Policy::all() {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let error = "seq".parse::<Policy>().unwrap_err().to_string();
        assert!(
            error.contains("\"seq\"") && error.contains("seq-1, seq-2, for-1"),
            "{error}"
        );
    }

    #[test]
    fn the_values_are_those_of_capfs_table_1() {
        use Kept::{Coherent, None as No, Own};
        let rows = [
            (Policy::SEQ_1, No, true),
            (Policy::SEQ_2, Coherent, true),
            (Policy::FOR_1, No, false),
            (Policy::FOR_2, Coherent, false),
            (Policy::REL_1, Own(None), false),
        ];
        for (policy, kept, in_order) in rows {
            assert_eq!(
                (policy.kept(), policy.is_in_order()),
                (kept, in_order),
                "{policy}"
            );
            assert!(policy.fits(Storage::Addressed) && !policy.fits(Storage::Plain));
        }
    }
}
