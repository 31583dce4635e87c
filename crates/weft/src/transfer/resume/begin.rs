//! Decides where a part begins, given the state of the target.

use anyhow::{Result, bail};
use thiserror::Error;

use super::records::{FoundRecords, Identity, ProgressRecord};
use crate::copy::TransferPart;

/// A part whose record counts bytes that the target no longer holds.
pub(in crate::transfer) struct LostProgress {
    pub(in crate::transfer) part: u32,
    /// How far it had come, as an offset in the transfer.
    pub(in crate::transfer) done: u64,
    /// What happened to the target, such as "is gone".
    pub(in crate::transfer) how: String,
}

/// The target holds data, and overwriting was not requested.
#[derive(Debug, Error)]
#[error("{0} holds data: --force overwrites it")]
pub(in crate::transfer) struct Occupied(String);

impl Occupied {
    /// For messages.
    pub(in crate::transfer) fn target(&self) -> &str {
        &self.0
    }
}

/// The options and the state that decide where a part begins.
#[expect(
    clippy::struct_excessive_bools,
    reason = "two are options of the command line, two are what is there"
)]
pub(in crate::transfer) struct ResumeInput<'a> {
    pub(in crate::transfer) transfer: &'a Identity,
    pub(in crate::transfer) part: TransferPart,
    pub(in crate::transfer) found: &'a FoundRecords,
    /// Of this transfer.
    pub(in crate::transfer) lost: &'a [LostProgress],
    /// There are no bytes at the target.
    pub(in crate::transfer) empty: bool,
    /// The target looks like a copy of the source that is complete.
    pub(in crate::transfer) same: bool,
    pub(in crate::transfer) resume: bool,
    pub(in crate::transfer) force: bool,
    /// For messages.
    pub(in crate::transfer) source: &'a str,
    /// For messages.
    pub(in crate::transfer) target: &'a str,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transfer) enum Begin {
    /// Copy the part's share from this byte of the transfer on.
    From(u64),
    /// The part is complete already.
    Nothing,
}

/// Decides where to begin.
///
/// # Errors
/// The target's data would be lost, or is not an unfinished transfer of this source.
pub(in crate::transfer) fn decide(situation: &ResumeInput<'_>, start: u64) -> Result<Begin> {
    let ResumeInput { source, target, .. } = situation;
    if situation.force {
        return Ok(Begin::From(start));
    }
    let own = situation.part.number;
    if let Some(lost) = situation.lost.iter().find(|lost| lost.part != own) {
        bail!(
            "{target} {}, but part {} of this transfer had copied up to byte {}: --force copies part {own} and discards the \
             progress of part {1}, which must then be copied again",
            lost.how,
            lost.part,
            lost.done
        );
    }
    match situation.found.of(situation.part) {
        Some(own) if !situation.resume => bail!(
            "an unfinished transfer to {target} has reached byte {} of part {}, and may still be running: --resume continues \
             it, --force starts over",
            own.done,
            situation.part
        ),
        Some(own) if own.transfer != *situation.transfer => bail!(
            "{source} is no longer what the unfinished transfer to {target} copied ({} bytes then, {} now, or another file or time \
             of modification): --force starts over",
            own.transfer.size,
            situation.transfer.size
        ),
        Some(own) => resume_point(situation, own, start),
        None if situation.empty || situation.found.has(situation.transfer) => {
            Ok(Begin::From(start))
        }
        None if situation.resume && situation.same => Ok(Begin::Nothing),
        None if situation.resume => bail!(
            "{target} holds data, but no unfinished transfer of {source} in {} parts: --force overwrites it",
            situation.part.of
        ),
        None => Err(Occupied((*target).to_owned()).into()),
    }
}

/// Where a part with a record resumes.
fn resume_point(situation: &ResumeInput<'_>, own: &ProgressRecord, start: u64) -> Result<Begin> {
    match situation.lost.first() {
        // The target is empty, so copying everything again loses nothing.
        Some(_) if situation.empty => Ok(Begin::From(start)),
        Some(lost) => bail!(
            "{} {}, but the unfinished transfer had reached byte {}: --force starts over",
            situation.target,
            lost.how,
            lost.done
        ),
        None if own.complete => Ok(Begin::Nothing),
        None => Ok(Begin::From(own.done.max(start))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_overwritten_only_on_request() {
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
        let record = |transfer: &Identity, done, complete| ProgressRecord {
            transfer: transfer.clone(),
            done,
            complete,
            target: None,
        };
        let part = TransferPart { number: 2, of: 2 };
        let with_lost = |lost: &[LostProgress],
                         records: &[(u32, ProgressRecord)],
                         empty,
                         same,
                         resume,
                         force| {
            let found = FoundRecords {
                records: records.to_vec(),
            };
            let situation = ResumeInput {
                transfer: &transfer,
                part,
                found: &found,
                lost,
                empty,
                same,
                resume,
                force,
                source: "a",
                target: "b",
            };
            super::decide(&situation, 50).map_err(|e| e.to_string())
        };
        let decide = |records: &[(u32, ProgressRecord)], empty, same, resume, force| {
            with_lost(&[], records, empty, same, resume, force)
        };
        let own = |done, complete| [(2, record(&transfer, done, complete))];
        let sibling = [(1, record(&transfer, 7, false))];
        let stranger = [(1, record(&changed, 7, false))];
        let from = |byte| Ok(Begin::From(byte));
        // These parts start: new, joined and forced.
        assert_eq!(decide(&[], true, false, false, false), from(50));
        assert_eq!(decide(&sibling, false, false, false, false), from(50));
        assert_eq!(decide(&own(70, true), false, false, false, true), from(50));
        // These parts resume.
        assert_eq!(decide(&own(70, false), false, false, true, false), from(70));
        assert_eq!(
            decide(&own(70, true), false, false, true, false),
            Ok(Begin::Nothing)
        );
        assert_eq!(decide(&[], true, false, true, false), from(50));
        assert_eq!(decide(&[], false, true, true, false), Ok(Begin::Nothing));
        // The lost bytes belong to this part, the only one: it is copied again.
        let lost = |part| {
            let how = "is gone".to_owned();
            [LostProgress {
                part,
                done: 70,
                how,
            }]
        };
        for complete in [false, true] {
            let own = own(70, complete);
            let again = with_lost(&lost(2), &own, true, false, true, false);
            assert_eq!(again, from(50));
            let error = with_lost(&lost(2), &own, false, false, true, false).unwrap_err();
            assert!(error.contains("b is gone") && error.contains("--force"));
        }
        // The lost bytes belong to another part: this part must not hide the loss.
        for (empty, resume) in [(false, false), (false, true), (true, false), (true, true)] {
            let error = with_lost(&lost(1), &sibling, empty, false, resume, false).unwrap_err();
            assert!(error.contains("part 1") && error.contains("--force"));
        }
        let forced = with_lost(&lost(1), &sibling, false, false, false, true);
        assert_eq!(forced, from(50));
        // These parts are refused.
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
