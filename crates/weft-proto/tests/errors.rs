//! Every code has an errno and a retry class, and `docs/protocol.md` lists every code, kind and
//! limit.

use weft_layout::Grid;
use weft_proto::prost::Message;
use weft_proto::{Code, ConvertError, Failure, FrameError, Kind, Retry};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    std::fs::read_to_string(path).expect("docs/protocol.md is readable")
}

/// The cells of the page's table rows.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn every_code_is_in_the_list_once_and_keeps_its_number() {
    for (number, code) in Code::ALL.iter().enumerate() {
        assert_eq!(*code as usize, number);
    }
    assert!(
        Code::try_from(i32::try_from(Code::ALL.len()).unwrap()).is_err(),
        "a code is missing from Code::ALL"
    );
}

#[test]
fn every_failure_carries_an_errno_and_a_retry_class() {
    for code in Code::ALL {
        let failure = Failure::new(code, "words");
        let failure = Failure::decode(&failure.encode_to_vec()[..]).unwrap();
        assert_eq!((failure.code(), failure.retry()), (code, code.retry()));
        assert_eq!(failure.errno, code.errno());
        assert!(
            (1..134).contains(&failure.errno),
            "{code:?} has an errno that Linux does not define"
        );
    }
}

#[test]
fn a_code_of_a_newer_peer_keeps_its_errno_and_retry_class() {
    let newer = Failure {
        code: 99,
        errno: 122,
        retry: Retry::Later as i32,
        message: String::new(),
    };
    let newer = Failure::decode(&newer.encode_to_vec()[..]).unwrap();
    assert_eq!(
        (newer.code(), newer.errno, newer.retry()),
        (Code::Internal, 122, Retry::Later)
    );
}

#[test]
fn protocol_md_lists_every_code_with_its_errno_and_retry_class() {
    let page = page();
    let rows = rows(&page);
    for code in Code::ALL {
        let (number, name) = ((code as i32).to_string(), format!("`{code:?}`"));
        let row = rows
            .iter()
            .find(|row| row.len() == 5 && row[0] == number && row[1] == name);
        let row = row.unwrap_or_else(|| panic!("docs/protocol.md has no row for code {code:?}"));
        assert!(
            row[2].ends_with(&format!(" {}", code.errno())),
            "{code:?}: errno {}",
            code.errno()
        );
        assert_eq!(row[3], format!("{:?}", code.retry()), "{code:?}");
    }
}

#[test]
fn protocol_md_lists_every_kind() {
    let page = page();
    let rows = rows(&page);
    for kind in Kind::ALL {
        let (number, name) = (kind.code().to_string(), format!("`{}`", kind.name()));
        let row = rows
            .iter()
            .find(|row| row.len() > 2 && row[0] == number && row[1] == name);
        assert!(
            row.is_some(),
            "docs/protocol.md has no row for kind {number} {name}"
        );
    }
}

#[test]
fn protocol_md_states_the_limits() {
    use weft_proto::limits as l;
    let page = page();
    let rows = rows(&page);
    let limits = [
        ("BODY_MAX", u64::from(l::BODY_MAX)),
        ("PAYLOAD_MAX", u64::from(l::PAYLOAD_MAX)),
        ("HANDSHAKE_BODY_MAX", u64::from(l::HANDSHAKE_BODY_MAX)),
        ("BODIES_MAX", u64::from(l::BODIES_MAX)),
        ("CALL_WINDOW", u64::from(l::CALL_WINDOW)),
        ("CREDIT_MAX", u64::from(l::CREDIT_MAX)),
        ("FRAME_COST_MIN", u64::from(l::FRAME_COST_MIN)),
        ("REPLY_WINDOW_MIN", u64::from(l::REPLY_WINDOW_MIN)),
        ("TRANSFER_MAX", l::TRANSFER_MAX),
        ("STAGED_MAX", l::STAGED_MAX),
        ("LIST_MAX", l::LIST_MAX as u64),
        ("MEMBERS_MAX", u64::from(l::MEMBERS_MAX)),
        ("GROUP_NAME_MAX", l::GROUP_NAME_MAX as u64),
        ("POINTER_NAME_MAX", l::POINTER_NAME_MAX as u64),
        ("WAIT_MAX", u64::from(l::WAIT_MAX)),
        ("COLLECTIVES_MAX", l::COLLECTIVES_MAX as u64),
        ("PATH_MAX", l::PATH_MAX as u64),
        ("NAME_MAX", l::NAME_MAX as u64),
        ("LINKS_MAX", l::LINKS_MAX as u64),
        ("XATTR_VALUE_MAX", l::XATTR_VALUE_MAX as u64),
        ("XATTR_TOTAL_MAX", l::XATTR_TOTAL_MAX as u64),
        ("LIST_PAGE_MAX", u64::from(l::LIST_PAGE_MAX)),
        ("TREE_NAMES_MAX", l::TREE_NAMES_MAX as u64),
        ("TREE_BATCH_MAX", l::TREE_BATCH_MAX as u64),
        ("GROWTH_BATCH_MAX", l::GROWTH_BATCH_MAX as u64),
        ("QUOTA_DEPTH_MAX", l::QUOTA_DEPTH_MAX as u64),
        ("DETACH_MAX", l::DETACH_MAX as u64),
        ("NAMES_AHEAD_MAX", l::NAMES_AHEAD_MAX as u64),
        ("IDS_AHEAD_MAX", l::IDS_AHEAD_MAX.into()),
        ("LOCKS_MAX", l::LOCKS_MAX as u64),
        ("LOCK_WAITS_MAX", l::LOCK_WAITS_MAX as u64),
        ("WATCH_BATCH_MAX", l::WATCH_BATCH_MAX as u64),
        ("INLINE_MAX", l::INLINE_MAX as u64),
        ("ACL_ENTRIES_MAX", l::ACL_ENTRIES_MAX as u64),
        ("GROUPS_MAX", l::GROUPS_MAX as u64),
    ];
    for (name, value) in limits {
        let name = format!("`{name}`");
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/protocol.md has no row for {name}"));
        assert_eq!(row[1].replace(',', ""), value.to_string(), "{name}");
    }
}

/// Asserts that a message is one line in lower case without a full stop.
fn assert_style(message: &str) {
    assert!(
        !message.starts_with(char::is_uppercase)
            && !message.ends_with('.')
            && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn messages_about_bad_frames_have_one_style() {
    let all = [
        FrameError::Magic(*b"HTTP"),
        FrameError::Kind(200),
        FrameError::Flags(0x8000),
        FrameError::BodyTooLong(u32::MAX),
        FrameError::PayloadTooLong(u32::MAX),
        FrameError::HeaderChecksum {
            found: 1,
            expected: 2,
        },
        FrameError::PayloadChecksum {
            found: 1,
            expected: 2,
        },
        FrameError::Body {
            kind: Kind::Read,
            reason: "missing field".to_owned(),
        },
    ];
    for error in all {
        // The match forces a new variant into the list above.
        match error {
            FrameError::Magic(_)
            | FrameError::Kind(_)
            | FrameError::Flags(_)
            | FrameError::BodyTooLong(_)
            | FrameError::PayloadTooLong(_)
            | FrameError::HeaderChecksum { .. }
            | FrameError::PayloadChecksum { .. }
            | FrameError::Body { .. } => {}
        }
        assert_style(&error.to_string());
    }
}

#[test]
fn messages_about_invalid_values_have_one_style() {
    let too_long = usize::try_from(u32::MAX).unwrap();
    let errors = [
        ConvertError::List { runs: too_long },
        ConvertError::Unknown { what: "view" },
        Grid::new(0, 0, 0).unwrap_err().into(),
    ];
    for error in errors {
        assert_style(&error.to_string());
    }
}
