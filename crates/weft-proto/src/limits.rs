//! The bounds of the wire. A peer that exceeds one is refused and its connection closed.

/// Bytes of a body. Lists (of servers, of directory entries, of lengths) are paged to fit.
pub const BODY_MAX: u32 = 1 << 20;
/// Bytes of one frame's payload; larger transfers are several frames of one call.
pub const PAYLOAD_MAX: u32 = 1 << 20;
/// Bytes of a body before both sides have proven the key; frames have no payload until then.
pub const HANDSHAKE_BODY_MAX: u32 = 4096;
/// Bytes that the bodies of all requests in flight on one connection may have together.
pub const BODIES_MAX: u32 = 16 << 20;
/// Payload bytes that a call may always have sent and not yet been credited, whatever other calls
/// do; anything beyond counts against the window that all calls of the connection share.
pub const CALL_WINDOW: u32 = 64 << 10;
/// Uncredited payload of a call at which a receiver sends credit at the latest.
pub const CREDIT_MAX: u32 = 32 << 10;
/// Bytes that a frame with payload counts against windows at least, so that tiny frames are
/// bounded, too.
pub const FRAME_COST_MIN: u32 = 512;
/// Bytes of the smallest reply window that a client may request.
pub const REPLY_WINDOW_MIN: u32 = 2 << 20;
/// Bytes that one call may read or write for each server of its file, wherever they lie; a server
/// refuses larger requests.
pub const TRANSFER_MAX: u64 = 1 << 30;
/// Bytes that an operation with a claim may write on each server.
pub const STAGED_MAX: u64 = 64 << 20;
/// Runs of the lists in one request. A server refuses more; the client library splits plain lists.
pub const LIST_MAX: usize = 65_536;
/// Members of a group.
pub const MEMBERS_MAX: u32 = 1024;
/// Bytes of a group's name.
pub const GROUP_NAME_MAX: usize = 64;
/// Bytes of the name of a shared offset pointer.
pub const POINTER_NAME_MAX: usize = 64;
/// Milliseconds that a collective may wait for its members.
pub const WAIT_MAX: u32 = 3_600_000;
/// Collectives that may wait for members on a server at the same time.
pub const COLLECTIVES_MAX: usize = 256;
/// Bytes of a path from the root or from a directory.
pub const PATH_MAX: usize = 4096;
/// Bytes of one name in a directory.
pub const NAME_MAX: usize = 255;
/// Bytes of a consistency policy's name.
pub const POLICY_NAME_MAX: usize = 64;
/// Symbolic links followed in one resolution.
pub const LINKS_MAX: usize = 40;
/// Bytes of an extended attribute's value.
pub const XATTR_VALUE_MAX: usize = 64 << 10;
/// Bytes of all extended attributes of one file together, names included.
pub const XATTR_TOTAL_MAX: usize = 256 << 10;
/// Entries of one page of a directory listing.
pub const LIST_PAGE_MAX: u32 = 1000;
/// Names in a tree that is checkpointed.
pub const TREE_NAMES_MAX: usize = 1 << 17;
/// Files of a tree in one call to a server.
pub const TREE_BATCH_MAX: usize = 8192;
/// Files in one call that limits growth.
pub const GROWTH_BATCH_MAX: usize = 4096;
/// Depth of nested tree quotas.
pub const QUOTA_DEPTH_MAX: usize = 16;
/// Attachments that one call ends, and accesses that it reports.
pub const DETACH_MAX: usize = 4096;
/// Changes in delegated directories that one call reports.
pub const NAMES_AHEAD_MAX: usize = 256;
/// Ids for new files that come with one delegated directory.
pub const IDS_AHEAD_MAX: u32 = 1024;

/// Directories that may be delegated in addition to the one that is asked for.
pub const DELEGATED_ALSO_MAX: usize = 64;

/// Small files that one attach may attach in addition.
pub const ATTACH_AHEAD_MAX: u32 = 64;

/// The most bytes of them all.
pub const ATTACH_AHEAD_BYTES: usize = 256 << 10;
/// Locks that one client may hold, so that it can report them in one message after a restart of the
/// service.
pub const LOCKS_MAX: usize = 8192;
/// Lock requests of one client that may wait at the same time: fewer than its calls, so that it can
/// always unlock.
pub const LOCK_WAITS_MAX: usize = 128;
/// Bytes of names and ids in one answer to a watch.
pub const WATCH_BATCH_MAX: usize = 64 << 10;
/// Bytes of an inline file, which lie with its metadata.
pub const INLINE_MAX: usize = 16 << 10;
/// Entries of an access control list.
pub const ACL_ENTRIES_MAX: usize = 256;
/// Findings that a server reports of one scrub pass.
pub const SCRUB_FINDINGS_MAX: usize = 1000;
/// Names of inodes in one reply.
pub const NAMES_OF_MAX: usize = 1000;
/// Supplementary groups of a caller.
pub const GROUPS_MAX: usize = 65_536 / 4;

/// Bytes that a frame with a payload of this length counts against windows.
pub fn window_cost(payload: usize) -> u64 {
    match payload {
        0 => 0,
        bytes => (bytes as u64).max(u64::from(FRAME_COST_MIN)),
    }
}
