//! One member's call in a collective.

use std::sync::Arc;

use tokio::time::Instant;
use weft_net::{Payload, Reply};
use weft_proto::collective::Membership;

use crate::io::collective::memory::ClientRoundMemory;
use crate::io::job::Job;

/// The call of one member, checked.
pub(in crate::io::collective) struct MemberCall {
    /// The client's id.
    pub(in crate::io::collective) from: u64,
    pub(in crate::io::collective) arrived: Instant,
    pub(in crate::io::collective) membership: Membership,
    pub(in crate::io::collective) job: Job,
    pub(in crate::io::collective) client: Arc<ClientRoundMemory>,
    pub(in crate::io::collective) reply: Reply,
    /// `None`: a read.
    pub(in crate::io::collective) write: Option<MemberWrite>,
}

/// What a writing member adds.
pub(in crate::io::collective) struct MemberWrite {
    pub(in crate::io::collective) payload: Payload,
    pub(in crate::io::collective) bytes: u64,
    pub(in crate::io::collective) chunk: u32,
    pub(in crate::io::collective) sync: bool,
    /// The member's request touches bytes twice.
    pub(in crate::io::collective) ordered: bool,
    pub(in crate::io::collective) member_order: bool,
}

/// Names members in a message, at most 16 of them.
pub(in crate::io) fn names(members: &[u32]) -> String {
    let shown: Vec<String> = members.iter().take(16).map(u32::to_string).collect();
    let more = members.len().saturating_sub(shown.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let plural = if members.len() == 1 {
        "member"
    } else {
        "members"
    };
    format!("{plural} {}{more}", shown.join(", "))
}
