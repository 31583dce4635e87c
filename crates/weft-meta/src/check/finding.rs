//! How findings are made.

use bytes::Bytes;
use weft_kv::{DamagedFile, Remedy};
use weft_proto::fsck::{Fault, Finding};

/// A file of an engine that is not what was written, as it is told to `weft fsck`.
pub fn index_finding(bad: &DamagedFile) -> Finding {
    let anew = bad.remedy == Remedy::Recopy;
    Finding {
        fault: Fault::IndexRecord as i32,
        text: bad.to_string(),
        repaired: anew,
        done: if anew { "made anew" } else { "" }.to_owned(),
        ..Finding::default()
    }
}

/// A finding about an inode.
pub(super) fn finding_about(fault: Fault, file: u64) -> Finding {
    Finding {
        fault: fault as i32,
        file,
        ..Finding::default()
    }
}

/// A finding about a number that is another than it should be.
pub(super) fn count_finding(fault: Fault, file: u64, expected: u64, found: u64) -> Finding {
    Finding {
        expected,
        found,
        ..finding_about(fault, file)
    }
}

/// A finding about an entry.
pub(super) fn entry_finding(fault: Fault, file: u64, parent: u64, name: &[u8]) -> Finding {
    Finding {
        parent,
        name: Bytes::copy_from_slice(name),
        ..finding_about(fault, file)
    }
}
