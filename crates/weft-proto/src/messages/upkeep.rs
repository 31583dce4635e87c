//! Messages about a server's own upkeep: the scrub, which reads everything again to see whether it
//! still is what was written.

use prost::Message as _;

/// Start the scrub, or let it go on where it was stopped, or stop it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ScrubRequest {
    /// Whether it is to run.
    #[prost(bool, tag = "1")]
    pub run: bool,
    /// Bytes a second that it reads at most; 0: as much as leaves the disk to others.
    #[prost(uint64, tag = "2")]
    pub rate: u64,
    /// Begin a new pass even if one was stopped half-way.
    #[prost(bool, tag = "3")]
    pub anew: bool,
}

/// A pass as a server keeps it beside its store: length of the place 1, place, rate 8, what is told
/// of it (protobuf).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrubPassRecord {
    /// How far it is, at most 255 bytes.
    pub at: Vec<u8>,
    /// Bytes a second.
    pub rate: u64,
    /// What is told of it.
    pub told: ScrubStatusReply,
}

impl ScrubPassRecord {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.at.len() as u8];
        out.extend_from_slice(&self.at);
        out.extend_from_slice(&self.rate.to_le_bytes());
        out.extend_from_slice(&self.told.encode_to_vec());
        out
    }

    /// From bytes; `None`: they are not what was kept.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first()?;
        let (at, rest) = rest.split_at_checked(usize::from(*length))?;
        let (rate, told) = rest.split_at_checked(8)?;
        Some(Self {
            at: at.to_vec(),
            rate: u64::from_le_bytes(rate.try_into().ok()?),
            told: ScrubStatusReply::decode(told).ok()?,
        })
    }
}

/// Ask how far the scrub is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ScrubStatusRequest {}

/// Whether a pass is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ScrubState {
    /// There was none since the server was started.
    Never = 0,
    /// It runs.
    Running = 1,
    /// It was stopped and can go on.
    Stopped = 2,
    /// The last one came to its end.
    Done = 3,
}

/// What is wrong with blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ScrubFault {
    /// A fault of a newer peer.
    Unknown = 0,
    /// They do not match their checksums.
    Checksum = 1,
    /// The disk does not give them.
    Unreadable = 2,
    /// What says where the chunk lies is damaged.
    Entry = 3,
    /// A file of the server's index, or of the copy of it, is not what was written; of no file or
    /// chunk.
    Index = 4,
    /// They are known to be lost: reading them fails until they are written anew.
    Lost = 5,
}

/// Blocks of a chunk that are bad.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScrubFinding {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// The cell.
    #[prost(uint32, tag = "2")]
    pub cell: u32,
    /// The fork.
    #[prost(string, tag = "3")]
    pub fork: String,
    /// The chunk's number in the fork.
    #[prost(uint64, tag = "4")]
    pub chunk: u64,
    /// The first bad block of 4 KiB in the chunk.
    #[prost(uint32, tag = "5")]
    pub first: u32,
    /// How many are bad; 0 when the chunk as a whole is.
    #[prost(uint32, tag = "6")]
    pub blocks: u32,
    /// The disk of the server.
    #[prost(uint32, tag = "7")]
    pub disk: u32,
    /// The block of the disk where the first of them lies; the others follow it.
    #[prost(uint64, tag = "8")]
    pub place: u64,
    /// What is wrong.
    #[prost(enumeration = "ScrubFault", tag = "9")]
    pub fault: i32,
    /// What the disk or the index says; empty for a wrong checksum.
    #[prost(string, tag = "10")]
    pub reason: String,
}

/// How far the scrub is and what it found.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScrubStatusReply {
    /// Whether a pass is under way.
    #[prost(enumeration = "ScrubState", tag = "1")]
    pub state: i32,
    /// Bytes verified in this pass.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Bytes there were to verify when it began.
    #[prost(uint64, tag = "3")]
    pub total: u64,
    /// Chunks verified in this pass.
    #[prost(uint64, tag = "4")]
    pub chunks: u64,
    /// Bad blocks found in this pass; a chunk whose place is not known counts as one.
    #[prost(uint64, tag = "5")]
    pub bad: u64,
    /// The first findings of this pass.
    #[prost(message, repeated, tag = "6")]
    pub findings: Vec<ScrubFinding>,
    /// Findings that did not fit.
    #[prost(uint64, tag = "7")]
    pub more: u64,
    /// Why it does not get on; empty: it does.
    #[prost(string, tag = "8")]
    pub trouble: String,
    /// Milliseconds until it reads on: so long it leaves the disk alone.
    #[prost(uint64, tag = "9")]
    pub rests: u64,
}

/// Ask for the disks of a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DisksRequest {}

/// Whether a disk is given new data, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum DiskCondition {
    /// A condition of a newer peer.
    Unknown = 0,
    /// It is.
    InUse = 1,
    /// It has no room.
    Full = 2,
    /// It failed an operation: it is read, but gets nothing new.
    Failed = 3,
    /// It is not there.
    Missing = 4,
    /// The configuration says that it gets nothing new.
    Closed = 5,
}

/// One disk of a server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DiskReport {
    /// Its number, as errors name it.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Its path on the server; empty: the server's own folder.
    #[prost(string, tag = "2")]
    pub path: String,
    /// Whether it is given new data.
    #[prost(enumeration = "DiskCondition", tag = "3")]
    pub condition: i32,
    /// What it failed at, or why it is missing.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// Bytes of its blocks that are in use.
    #[prost(uint64, tag = "5")]
    pub used: u64,
    /// Bytes it could still hold.
    #[prost(uint64, tag = "6")]
    pub available: u64,
    /// Operations that failed since the server was started.
    #[prost(uint64, tag = "7")]
    pub errors: u64,
}

/// The disks of a server, by number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DisksReply {
    /// At most 256.
    #[prost(message, repeated, tag = "1")]
    pub disks: Vec<DiskReport>,
}

/// Give free space back to the host now.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TrimRequest {}

/// What went back.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TrimReply {
    /// Bytes of free blocks that went back by this call.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Bytes of the server's files and devices that its hosts hold for blocks.
    #[prost(uint64, tag = "2")]
    pub held: u64,
    /// Bytes of blocks in use.
    #[prost(uint64, tag = "3")]
    pub used: u64,
}

/// Ask what is lost of what a server stored.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LossesRequest {}

/// What is lost: reading it fails until it is written anew, removed or accepted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LossesReply {
    /// Files of which something is lost.
    #[prost(uint64, tag = "1")]
    pub files: u64,
    /// Ranges of bytes.
    #[prost(uint64, tag = "2")]
    pub ranges: u64,
    /// Bytes.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// There is more than was counted.
    #[prost(bool, tag = "4")]
    pub more: bool,
}

/// Make zeros of what is lost of a file on a server, and show what is not proven: the user's word
/// that this is worth more than nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptLossesRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Instead: show what is not proven of all files; what is lost of them stays so.
    #[prost(bool, tag = "2")]
    pub all_unproven: bool,
}

/// What was made zeros or is shown; on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptLossesReply {
    /// Ranges of bytes, in cells and checkpoints.
    #[prost(uint64, tag = "1")]
    pub ranges: u64,
    /// Bytes.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_kept_as_the_format_says() {
        let told = ScrubStatusReply {
            state: ScrubState::Stopped as i32,
            bytes: 4096,
            total: 1000,
            findings: vec![ScrubFinding::default()],
            ..ScrubStatusReply::default()
        };
        let (at, rate) = (vec![1, 2, 3], 1 << 20);
        let bytes = ScrubPassRecord { at, rate, told }.encode();
        let hex = bytes
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let mut format = include_str!("../../../../docs/format.md").lines();
        let line = format.find_map(|line| line.strip_prefix("scrub pass: "));
        assert_eq!(line.map(|line| line.replace(' ', "")), Some(hex));
        let again = ScrubPassRecord::decode(&bytes).map(|record| record.encode());
        assert_eq!(again, Some(bytes));
    }
}
