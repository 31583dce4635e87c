//! What a part does with what it finds at the target.

use anyhow::{Result, bail};

use super::Part;
use super::mark::{Found, Identity};

/// What was found.
#[expect(
    clippy::struct_excessive_bools,
    reason = "two are options of the command line, two are what is there"
)]
pub(super) struct Situation<'a> {
    pub(super) transfer: &'a Identity,
    pub(super) part: Part,
    pub(super) found: &'a Found,
    /// There are no bytes at the target.
    pub(super) empty: bool,
    /// The target looks like a copy of the source that is complete.
    pub(super) same: bool,
    pub(super) resume: bool,
    pub(super) force: bool,
    /// For messages.
    pub(super) source: &'a str,
    /// For messages.
    pub(super) target: &'a str,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Copy the part's share from this byte of the transfer on.
    From(u64),
    /// The part is complete already.
    Nothing,
}

/// Decides where to begin.
///
/// # Errors
/// What is there would be lost, or is no unfinished transfer of this source.
pub(super) fn decide(situation: &Situation<'_>, start: u64) -> Result<Begin> {
    let Situation { source, target, .. } = situation;
    if situation.force {
        return Ok(Begin::From(start));
    }
    match situation.found.of(situation.part) {
        Some(own) if !situation.resume => bail!(
            "an unfinished transfer to {target} came to byte {} of part {}, or is still under way: --resume goes on \
             with it, --force begins anew",
            own.done,
            situation.part
        ),
        Some(own) if own.transfer != *situation.transfer => bail!(
            "{source} is no longer what the unfinished transfer to {target} copied ({} bytes then, {} now, or another \
             file or time of modification): --force begins anew",
            own.transfer.size,
            situation.transfer.size
        ),
        Some(own) if own.complete => Ok(Begin::Nothing),
        Some(own) => Ok(Begin::From(own.done.max(start))),
        None if situation.empty || situation.found.has(situation.transfer) => {
            Ok(Begin::From(start))
        }
        None if situation.resume && situation.same => Ok(Begin::Nothing),
        None if situation.resume => bail!(
            "{target} holds data and no unfinished transfer of {source} in {} parts: --force writes over it",
            situation.part.of
        ),
        None => bail!("{target} holds data: --force writes over it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::mark::Record;

    #[test]
    fn nothing_is_lost_without_being_asked_for() {
        let transfer = Identity {
            file: 1,
            size: 100,
            modified: 5,
            view: String::new(),
            length: 100,
            parts: 2,
        };
        let changed = Identity {
            modified: 6,
            ..transfer.clone()
        };
        let record = |transfer: &Identity, done, complete| Record {
            transfer: transfer.clone(),
            done,
            complete,
        };
        let part = Part { number: 2, of: 2 };
        let decide = |records: &[(u32, Record)], empty, same, resume, force| {
            let found = Found {
                records: records.to_vec(),
            };
            let situation = Situation {
                transfer: &transfer,
                part,
                found: &found,
                empty,
                same,
                resume,
                force,
                source: "a",
                target: "b",
            };
            super::decide(&situation, 50).map_err(|e| e.to_string())
        };
        let own = |done, complete| [(2, record(&transfer, done, complete))];
        let sibling = [(1, record(&transfer, 7, false))];
        let stranger = [(1, record(&changed, 7, false))];
        let from = |byte| Ok(Begin::From(byte));
        // New, joined, forced.
        assert_eq!(decide(&[], true, false, false, false), from(50));
        assert_eq!(decide(&sibling, false, false, false, false), from(50));
        assert_eq!(decide(&own(70, true), false, false, false, true), from(50));
        // Resumed.
        assert_eq!(decide(&own(70, false), false, false, true, false), from(70));
        assert_eq!(
            decide(&own(70, true), false, false, true, false),
            Ok(Begin::Nothing)
        );
        assert_eq!(decide(&[], true, false, true, false), from(50));
        assert_eq!(decide(&[], false, true, true, false), Ok(Begin::Nothing));
        // Refused.
        let changed = [(2, record(&changed, 70, false))];
        for (records, resume, word) in [
            (&[][..], false, "holds data"),
            (&stranger, false, "holds data"),
            (&[], true, "no unfinished"),
            (&own(70, false), false, "--resume"),
            (&changed, true, "no longer"),
        ] {
            let error = decide(records, false, false, resume, false).unwrap_err();
            assert!(error.contains(word) && error.contains("--force"), "{error}");
        }
    }
}
