//! What `weft fsck` found, with the keys of its JSON.

use serde::Serialize;

/// What is printed.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) inodes: u64,
    pub(super) files: u64,
    pub(super) cells: u64,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) repaired: u64,
    pub(super) left: u64,
    pub(super) findings_not_kept: u64,
    pub(super) not_checked: Vec<NotChecked>,
    pub(super) findings: Vec<Row>,
    /// Replicas that lack acknowledged changes, and catch up by themselves.
    pub(super) replicas_behind: Vec<BehindReplica>,
}

/// A replica that is not in sync.
#[derive(Serialize)]
pub(super) struct BehindReplica {
    pub(super) node: String,
    pub(super) state: &'static str,
}

#[derive(Serialize)]
pub(super) struct NotChecked {
    pub(super) server: u32,
    pub(super) reason: String,
}

/// A finding.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) fault: &'static str,
    pub(super) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<u64>,
    pub(super) paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cell: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fork: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chunk: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<Blocks>,
    /// Bytes of the cell that are lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<Bytes>,
    /// What was done about it; absent: it is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repaired: Option<String>,
    /// Whether --repair may do something about it.
    #[serde(skip)]
    pub(super) repairable: bool,
}

/// Bad blocks of a chunk.
#[derive(Serialize)]
pub(super) struct Blocks {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) disk: u32,
    pub(super) disk_block: u64,
}

/// A range of bytes.
#[derive(Serialize)]
pub(super) struct Bytes {
    pub(super) offset: u64,
    pub(super) length: u64,
}
