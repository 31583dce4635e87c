//! The style of the messages: lower case, no full stop, one line, and all values.

use std::fmt::Display;

use super::*;

#[allow(clippy::too_many_lines, reason = "one of each variant")]
fn one_of_each() -> Vec<MetaError> {
    vec![
        MetaError::NotFound {
            path: "the path".to_owned(),
        },
        MetaError::NoCheckpoint {
            path: "the path".to_owned(),
            name: "the name".to_owned(),
        },
        MetaError::HasCheckpoints {
            path: "the path".to_owned(),
        },
        MetaError::HasOwnCheckpoints {
            name: "the name".to_owned(),
        },
        MetaError::ReadOnly { id: 4097 },
        MetaError::Unsent { id: 4097 },
        MetaError::Delegated {
            directories: vec![4097],
        },
        MetaError::Exists {
            path: "the path".to_owned(),
        },
        MetaError::NotDirectory {
            path: "the path".to_owned(),
        },
        MetaError::IsDirectory {
            path: "the path".to_owned(),
        },
        MetaError::FileWithSlash {
            path: "the path".to_owned(),
        },
        MetaError::NotEmpty {
            path: "the path".to_owned(),
        },
        MetaError::LayoutHasData {
            path: "the path".to_owned(),
        },
        MetaError::LayoutInUse {
            path: "the path".to_owned(),
        },
        MetaError::Denied {
            path: "the path".to_owned(),
            uid: 4097,
            need: "a need",
        },
        MetaError::NotOwner {
            path: "the path".to_owned(),
            uid: 4097,
            action: "an action",
        },
        MetaError::LinkToDirectory {
            path: "the path".to_owned(),
        },
        MetaError::Loop {
            path: "the path".to_owned(),
        },
        MetaError::NameTooLong { length: 4097 },
        MetaError::PathTooLong { length: 4097 },
        MetaError::TooManyLinks {
            path: "the path".to_owned(),
        },
        MetaError::NoAttribute {
            path: "the path".to_owned(),
            name: "the name".to_owned(),
        },
        MetaError::AttributeExists {
            path: "the path".to_owned(),
            name: "the name".to_owned(),
        },
        MetaError::AttributeTooLarge {
            path: "the path".to_owned(),
            length: 4097,
        },
        MetaError::AttributesFull {
            path: "the path".to_owned(),
            length: 4097,
        },
        MetaError::Stale { id: 4097 },
        MetaError::Inline { id: 4097 },
        MetaError::Spilled { id: 4097 },
        MetaError::TooLarge {
            path: "the path".to_owned(),
            size: 4097,
        },
        MetaError::NeedsAttachment {
            path: "the path".to_owned(),
            policy: "the policy".to_owned(),
        },
        MetaError::Invalid {
            path: "the path".to_owned(),
            reason: "a reason",
        },
        MetaError::TooManyGroups { count: 4097 },
        MetaError::Layout {
            path: "the path".to_owned(),
            source: LayoutError::Cells { cells: 0 },
        },
        MetaError::UnknownServer { server: 4097 },
        MetaError::BaseNotAmong {
            path: "the path".to_owned(),
            base: 4097,
        },
        MetaError::Unsupported {
            path: "the path".to_owned(),
            reason: "a reason",
        },
        MetaError::QuotaExceeded {
            payer: "the payer".to_owned(),
            what: "a what",
            bound: 4097,
            wanted: 8193,
        },
        MetaError::CrossDevice {
            path: "the path".to_owned(),
        },
        MetaError::NotFormatted,
        MetaError::AlreadyFormatted {
            name: "the name".to_owned(),
        },
        MetaError::FormatVersion {
            found: 4097,
            known: 4097,
        },
        MetaError::Settings {
            reason: "the reason".to_owned(),
        },
        MetaError::WrongIntent {
            number: 4097,
            expected: "another kind",
        },
        MetaError::Corrupt {
            what: "a what",
            id: 4097,
            reason: "the reason".to_owned(),
        },
        MetaError::Lost { began: 4097 },
        MetaError::Kv(KvError::Aborted),
    ]
}

/// The values that a message must show. A new variant belongs in [`one_of_each`], too.
#[allow(
    clippy::match_same_arms,
    clippy::too_many_lines,
    reason = "one arm for each variant"
)]
fn values(error: &MetaError) -> Vec<&dyn Display> {
    match error {
        MetaError::NotFound { path } => vec![path],
        MetaError::NoCheckpoint { path, name } => vec![path, name],
        MetaError::HasCheckpoints { path } => vec![path],
        MetaError::HasOwnCheckpoints { name } => vec![name],
        MetaError::ReadOnly { id } => vec![id],
        MetaError::Unsent { id } => vec![id],
        MetaError::Delegated { directories } => vec![&directories[0]],
        MetaError::Exists { path } => vec![path],
        MetaError::NotDirectory { path } => vec![path],
        MetaError::IsDirectory { path } => vec![path],
        MetaError::FileWithSlash { path } => vec![path],
        MetaError::NotEmpty { path } => vec![path],
        MetaError::LayoutHasData { path } => vec![path],
        MetaError::LayoutInUse { path } => vec![path],
        MetaError::Denied { path, uid, need } => {
            vec![path, uid, need]
        }
        MetaError::NotOwner { path, uid, action } => {
            vec![path, uid, action]
        }
        MetaError::LinkToDirectory { path } => vec![path],
        MetaError::Loop { path } => vec![path],
        MetaError::NameTooLong { length } => vec![length],
        MetaError::PathTooLong { length } => vec![length],
        MetaError::TooManyLinks { path } => vec![path],
        MetaError::NoAttribute { path, name } => vec![path, name],
        MetaError::AttributeExists { path, name } => vec![path, name],
        MetaError::AttributeTooLarge { path, length } => {
            vec![path, length]
        }
        MetaError::AttributesFull { path, length } => {
            vec![path, length]
        }
        MetaError::Stale { id } => vec![id],
        MetaError::Inline { id } => vec![id],
        MetaError::Spilled { id } => vec![id],
        MetaError::TooLarge { path, size } => vec![path, size],
        MetaError::NeedsAttachment { path, policy } => vec![path, policy],
        MetaError::Invalid { path, reason } => vec![path, reason],
        MetaError::TooManyGroups { count } => vec![count],
        MetaError::Layout { path, source } => vec![path, source],
        MetaError::UnknownServer { server } => vec![server],
        MetaError::BaseNotAmong { path, base } => vec![path, base],
        MetaError::Unsupported { path, reason } => vec![path, reason],
        MetaError::QuotaExceeded {
            payer,
            what,
            bound,
            wanted,
        } => vec![payer, what, bound, wanted],
        MetaError::CrossDevice { path } => vec![path],
        MetaError::NotFormatted => vec![],
        MetaError::AlreadyFormatted { name } => vec![name],
        MetaError::FormatVersion { found, known } => vec![found, known],
        MetaError::Settings { reason } => vec![reason],
        MetaError::WrongIntent { number, expected } => {
            vec![number, expected]
        }
        MetaError::Corrupt { what, id, reason } => {
            vec![what, id, reason]
        }
        MetaError::Lost { began: _ } => vec![],
        MetaError::Kv(error) => vec![error],
    }
}

#[test]
fn every_message_follows_the_message_style_and_shows_its_values() {
    let all = one_of_each();
    let kinds: std::collections::HashSet<_> = all.iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), all.len());
    for error in all {
        let text = error.to_string();
        let first = text.chars().next().unwrap_or('.');
        assert!(first.is_lowercase() || first.is_numeric(), "{text}");
        assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        for value in values(&error) {
            assert!(text.contains(&value.to_string()), "{value}: {text}");
        }
    }
}
