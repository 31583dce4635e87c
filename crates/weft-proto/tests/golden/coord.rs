//! Messages of locks, watches, appends and syncs of the namespace.

use bytes::Bytes;
use weft_proto::coord::{
    AppendReply, AppendRequest, ChangedEntry, LockOutcome, LockReply, LockRequest,
    SyncNamespaceReply, SyncNamespaceRequest, TestLockReply, TestLockRequest, WatchReply,
    WatchRequest,
};

use super::cases::Golden;
use super::values::{held_lock, position};

pub fn messages(golden: &mut Golden) {
    golden.call(
        &LockRequest {
            lock: held_lock(),
            wait: true,
        },
        &LockReply {
            outcome: LockOutcome::Held as i32,
            blocker: Some(held_lock()),
        },
    );
    golden.call(
        &TestLockRequest { lock: held_lock() },
        &TestLockReply {
            blocker: Some(held_lock()),
        },
    );
    golden.call(
        &WatchRequest {
            boot: 9,
            cursor: 300,
            gathers: true,
        },
        &WatchReply {
            boot: 9,
            cursor: 301,
            everything: true,
            files: vec![77, 300],
            entries: vec![ChangedEntry {
                parent: 1,
                name: Bytes::from_static(b"n\xff"),
            }],
            recalled: vec![5],
            opened: vec![78],
        },
    );
    golden.call(
        &AppendRequest {
            file: 77,
            length: 4096,
            known_end: 300,
        },
        &AppendReply { offset: 1 << 40 },
    );
    golden.call(
        &SyncNamespaceRequest {
            changed: vec![position()],
        },
        &SyncNamespaceReply {},
    );
}
