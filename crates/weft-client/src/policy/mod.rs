//! Consistency policies: how much order an application asks for, and pays (CAPFS §3.6 and Table 1;
//! `docs/consistency.md`).

mod find;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weft_layout::Storage;
use weft_policy::Plugin;
pub use weft_policy::{Kept, Values};

pub use self::find::{Policies, UnknownPolicy};
use crate::Error;

/// A consistency policy: what a client believes, and for how long, and when its changes count.
///
/// # Source
/// CAPFS Table 1 for SEQ-1 to REL-1.
#[derive(Clone, Copy)]
pub struct Policy(&'static Row);

/// A row of the table, or a plug-in.
struct Row {
    name: &'static str,
    summary: &'static str,
    values: Values,
    /// It needs the names of chunks.
    addressed: bool,
    plugin: Option<&'static Plugin>,
}

/// How long `nfs` believes what it has read, as NFS's `acregmin`.
const NFS_BELIEVED: Duration = Duration::from_secs(3);

/// What every policy is, but for what its row says.
const RECKLESS: Values = Values::RECKLESS;

/// Operations in order.
const IN_ORDER: Values = Values {
    in_order: true,
    ..RECKLESS
};

const fn own(believed: Option<Duration>, until_sync: bool) -> Values {
    Values {
        names: Kept::Own {
            believed,
            until_sync,
        },
        ..RECKLESS
    }
}

static POLICIES: [Row; 9] = [
    Row {
        name: "posix",
        values: IN_ORDER,
        addressed: false,
        summary: "every operation is atomic and sees all that ended before it began",
        plugin: None,
    },
    Row {
        name: "seq-1",
        values: IN_ORDER,
        addressed: true,
        summary: "as posix; names of chunks are asked for each time",
        plugin: None,
    },
    Row {
        name: "seq-2",
        values: Values {
            names: Kept::Coherent,
            ..IN_ORDER
        },
        addressed: true,
        summary: "as posix; names of chunks are kept, and servers tell of changes",
        plugin: None,
    },
    Row {
        name: "for-1",
        values: RECKLESS,
        addressed: true,
        summary: "each server does its part when it arrives; the last writer wins",
        plugin: None,
    },
    Row {
        name: "for-2",
        values: Values {
            names: Kept::Coherent,
            ..RECKLESS
        },
        addressed: true,
        summary: "as for-1; names of chunks are kept, and servers tell of changes",
        plugin: None,
    },
    Row {
        name: "rel-1",
        values: own(None, true),
        addressed: true,
        summary: "as for-1; names of chunks are kept until this open syncs or closes",
        plugin: None,
    },
    Row {
        name: "session",
        values: own(None, false),
        addressed: false,
        summary: "an open sees all that was closed before it, and its own changes",
        plugin: None,
    },
    Row {
        name: "nfs",
        values: own(Some(NFS_BELIEVED), false),
        addressed: false,
        summary: "as session, and changes of others after 3 seconds at the latest",
        plugin: None,
    },
    Row {
        name: "immutable",
        values: Values {
            written_once: true,
            ..own(None, false)
        },
        addressed: false,
        summary: "a file is written by the open that creates it, then only read",
        plugin: None,
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

    /// All policies but plug-ins.
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
        self.0.addressed || self.0.plugin.is_some()
    }

    /// Whether a mount promises at least as much to every file.
    pub fn is_met_by_mounts(self) -> bool {
        !self.is_past_pages() && !self.0.values.written_once
    }

    /// Whether it is one that a user has written.
    pub fn is_plugin(self) -> bool {
        self.0.plugin.is_some()
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
        self.0.values.in_order
    }

    /// What a client keeps of a file, and when its changes leave.
    pub fn values(self) -> Values {
        self.0.values
    }

    pub(crate) fn plugin(self) -> Option<&'static Plugin> {
        self.0.plugin
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
            "the file is plain, and its chunks have no names; choose one of {}, or copy it into an addressed file (`weft create --addressed`)",
            fitting.join(", ")
        );
        Err(Error::invalid(what, reason))
    }
}

impl PartialEq for Policy {
    /// Another version of a plug-in is another policy.
    fn eq(&self, other: &Policy) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Policy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    /// Plug-ins are not found by it: [`Policies::find`] does.
    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        let found = Policy::all().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy::of(name, None))
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
        use Kept::{Coherent, None as No};
        let until_sync = Kept::Own {
            believed: None,
            until_sync: true,
        };
        let rows = [
            (Policy::SEQ_1, No, true),
            (Policy::SEQ_2, Coherent, true),
            (Policy::FOR_1, No, false),
            (Policy::FOR_2, Coherent, false),
            (Policy::REL_1, until_sync, false),
        ];
        for (policy, kept, in_order) in rows {
            assert_eq!(
                (policy.values().names, policy.is_in_order()),
                (kept, in_order),
                "{policy}"
            );
            assert!(policy.fits(Storage::Addressed) && !policy.fits(Storage::Plain));
        }
    }
}
