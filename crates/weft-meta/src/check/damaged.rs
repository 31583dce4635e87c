//! A record that cannot be read: its key space and key, and how a finding names them.
//!
//! A finding goes to the program that checks and comes back for the repair, so it must say which
//! record it is about. The wire has fields for the key and for text, and the key space is the part
//! of the text before the first colon. Only this file writes and parses that; everything else uses
//! the type [`RecordSpace`].

use bytes::Bytes;
use weft_kv::Space;
use weft_proto::fsck::{Fault, Finding};

use super::finding::finding_about;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, INLINE, INODES, INTENTS, ORPHANS, VOLUME, XATTRS,
};

/// A key space whose records are checked one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordSpace {
    Inodes,
    Entries,
    Xattrs,
    Inline,
    Checkpoints,
    Orphans,
    Intents,
    /// The counters and what was fixed when the volume was formatted.
    Volume,
}

impl RecordSpace {
    const ALL: [RecordSpace; 8] = [
        RecordSpace::Inodes,
        RecordSpace::Entries,
        RecordSpace::Xattrs,
        RecordSpace::Inline,
        RecordSpace::Checkpoints,
        RecordSpace::Orphans,
        RecordSpace::Intents,
        RecordSpace::Volume,
    ];

    /// The engine's space.
    pub(super) fn space(self) -> Space {
        match self {
            RecordSpace::Inodes => INODES,
            RecordSpace::Entries => ENTRIES,
            RecordSpace::Xattrs => XATTRS,
            RecordSpace::Inline => INLINE,
            RecordSpace::Checkpoints => CHECKPOINTS,
            RecordSpace::Orphans => ORPHANS,
            RecordSpace::Intents => INTENTS,
            RecordSpace::Volume => VOLUME,
        }
    }

    /// The space of the record that a finding is about; `None` where this build does not know it.
    pub(super) fn of(finding: &Finding) -> Option<RecordSpace> {
        let name = finding.text.split(':').next().unwrap_or_default();
        RecordSpace::ALL.into_iter().find(|of| of.space().0 == name)
    }

    /// The finding that the record under this key cannot be read, or is contradictory.
    pub(super) fn finding(self, key: &[u8], reason: impl std::fmt::Display) -> Finding {
        Finding {
            name: Bytes::copy_from_slice(key),
            text: format!("{}: {reason}", self.space().0),
            ..finding_about(Fault::Record, keys::number(key).unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_space_of_its_record() {
        for space in RecordSpace::ALL {
            let finding = space.finding(&7_u64.to_be_bytes(), "it: cannot be read");
            assert_eq!(RecordSpace::of(&finding), Some(space));
            assert_eq!((finding.file, finding.fault()), (7, Fault::Record));
        }
        let newer = Finding {
            text: "a space of a newer version: damaged".into(),
            ..Finding::default()
        };
        assert_eq!(RecordSpace::of(&newer), None);
    }
}
