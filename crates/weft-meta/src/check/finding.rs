//! Constructors of findings.

use bytes::Bytes;
use weft_kv::{DamagedFile, Remedy};
use weft_proto::fsck::{Fault, Finding};

/// The finding of a damaged file of an engine.
pub fn index_finding(file: &DamagedFile) -> Finding {
    let (repaired, done) = match file.remedy {
        Remedy::Recopy => (true, "made again"),
        Remedy::RestoreCopy | Remedy::None => (false, ""),
    };
    Finding {
        fault: Fault::IndexRecord as i32,
        text: file.to_string(),
        repaired,
        done: done.to_owned(),
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

/// A finding about a wrong number.
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
