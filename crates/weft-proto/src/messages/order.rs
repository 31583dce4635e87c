//! Messages about the order among the operations of a file (`docs/design/0031-order.md`).

/// Gives an operation its place in the order of its file: it is atomic, and waits for earlier
/// operations that conflict.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Claim {
    /// A random number, not 0.
    #[prost(fixed64, tag = "1")]
    pub operation: u64,
    /// The server that decides: of the operation's servers the one with the lowest number.
    #[prost(uint32, tag = "2")]
    pub coordinator: u32,
    /// The operation touches this server only: it takes effect in the call, in its turn.
    #[prost(bool, tag = "3")]
    pub alone: bool,
    /// Wait for conflicting operations. Unless set, the claim is refused if there are any.
    #[prost(bool, tag = "4")]
    pub wait: bool,
    /// Earlier operations of the client that end first.
    #[prost(fixed64, repeated, tag = "5")]
    pub ended: Vec<u64>,
}

/// Claim a whole file, or the bytes of an operation that is staged.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClaimRequest {
    /// The claim.
    #[prost(message, required, tag = "1")]
    pub claim: Claim,
    /// All bytes of all forks of this file; 0: what is staged.
    #[prost(uint64, tag = "2")]
    pub file: u64,
}

/// The answer to a claim.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ClaimReply {
    /// It is granted; otherwise an operation that conflicts is in its way.
    #[prost(bool, tag = "1")]
    pub granted: bool,
}

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Step {
    /// End the operation: what is staged and has not taken effect is discarded, and its claim
    /// ends.
    End = 0,
    /// What is staged takes effect. On the coordinator this decides the operation. The claim
    /// stays.
    Commit = 1,
    /// Give the claim back and keep what is staged.
    GiveBack = 2,
}

/// Take the next step of an operation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SettleRequest {
    /// The operation; 0: none.
    #[prost(fixed64, tag = "1")]
    pub operation: u64,
    /// The step.
    #[prost(enumeration = "Step", tag = "2")]
    pub step: i32,
    /// Further operations of the client that end first.
    #[prost(fixed64, repeated, tag = "3")]
    pub ended: Vec<u64>,
}

/// Done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SettleReply {
    /// The server knew the operation, and it still had its claim. If not, a commit has done
    /// nothing.
    #[prost(bool, tag = "1")]
    pub known: bool,
}

/// Ask whether an operation has taken effect on a server. Where its client seems to be gone, the
/// server first learns the outcome.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OutcomeRequest {
    /// The operation.
    #[prost(fixed64, tag = "1")]
    pub operation: u64,
    /// To its coordinator: an operation that is not decided is aborted, so that the outcome does
    /// not change any more.
    #[prost(bool, tag = "2")]
    pub abort: bool,
}

/// The outcome.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OutcomeReply {
    /// It has taken effect; on the coordinator this means that it is decided.
    #[prost(bool, tag = "1")]
    pub committed: bool,
}

/// Refuse reads, writes and clears without a claim on these files, for a minute, or no longer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForceCautionRequest {
    /// The files.
    #[prost(uint64, repeated, tag = "1")]
    pub files: Vec<u64>,
    /// Refuse them from now on.
    #[prost(bool, tag = "2")]
    pub forced: bool,
}

/// Done: operations without a claim that began before have ended.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ForceCautionReply {}
