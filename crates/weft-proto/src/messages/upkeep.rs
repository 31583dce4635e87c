//! Messages about the maintenance of a server: the scrub, which reads everything again to verify
//! it, disks, trim and losses.

use prost::Message as _;

/// Start, resume or stop the scrub.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ScrubRequest {
    /// Whether it is to run.
    #[prost(bool, tag = "1")]
    pub run: bool,
    /// The maximum of bytes read per second; 0: 256 MiB.
    #[prost(uint64, tag = "2")]
    pub rate: u64,
    /// Begin a new pass even if one was stopped.
    #[prost(bool, tag = "3")]
    pub anew: bool,
}

/// A pass as a server stores it beside its data: length of the position 1, position, rate 8, status
/// (protobuf).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrubPassRecord {
    /// Its position, at most 255 bytes.
    pub at: Vec<u8>,
    /// Bytes per second.
    pub rate: u64,
    /// Its status.
    pub told: ScrubStatusReply,
}

impl ScrubPassRecord {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.at.len() as u8];
        out.extend_from_slice(&self.at);
        out.extend_from_slice(&self.rate.to_le_bytes());
        out.extend_from_slice(&self.told.encode_to_vec());
        out
    }

    /// Decodes it; `None`: the bytes are invalid.
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

/// Ask for the status of the scrub.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ScrubStatusRequest {}

/// The state of the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ScrubState {
    /// No pass since the server was started.
    Never = 0,
    /// A pass is running.
    Running = 1,
    /// A pass was stopped and can be resumed.
    Stopped = 2,
    /// The last pass has ended.
    Done = 3,
}

/// The kinds of faults of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ScrubFault {
    /// A fault of a newer peer.
    Unknown = 0,
    /// They do not match their checksums.
    Checksum = 1,
    /// The disk cannot read them.
    Unreadable = 2,
    /// The index entry of the chunk's location is damaged.
    Entry = 3,
    /// A file of the server's index, or of its copy, is damaged; belongs to no file or chunk.
    Index = 4,
    /// They are known to be lost: reading them fails until they are rewritten.
    Lost = 5,
}

/// Bad blocks of a chunk.
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
    /// The fault.
    #[prost(enumeration = "ScrubFault", tag = "9")]
    pub fault: i32,
    /// The error of the disk or the index; empty for a wrong checksum.
    #[prost(string, tag = "10")]
    pub reason: String,
    /// The bytes were read from another replica, and written anew.
    #[prost(bool, tag = "11")]
    pub mended: bool,
}

/// Progress and findings of the scrub.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScrubStatusReply {
    /// The state of the scrub.
    #[prost(enumeration = "ScrubState", tag = "1")]
    pub state: i32,
    /// Bytes verified in this pass.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Bytes to verify when it began.
    #[prost(uint64, tag = "3")]
    pub total: u64,
    /// Chunks verified in this pass.
    #[prost(uint64, tag = "4")]
    pub chunks: u64,
    /// Bad blocks found in this pass; a chunk whose location is unknown counts as one.
    #[prost(uint64, tag = "5")]
    pub bad: u64,
    /// The first findings of this pass.
    #[prost(message, repeated, tag = "6")]
    pub findings: Vec<ScrubFinding>,
    /// Findings that did not fit.
    #[prost(uint64, tag = "7")]
    pub more: u64,
    /// Why it makes no progress; empty: it does.
    #[prost(string, tag = "8")]
    pub trouble: String,
    /// Milliseconds until it reads on; it leaves the disk idle until then.
    #[prost(uint64, tag = "9")]
    pub rests: u64,
    /// Bad blocks of this pass that were mended; they count as bad, too.
    #[prost(uint64, tag = "10")]
    pub mended: u64,
    /// Bytes that other replicas could not read or had otherwise, and that were sent to them anew.
    #[prost(uint64, tag = "11")]
    pub replica_bytes: u64,
    /// Files that these bytes are of.
    #[prost(uint64, tag = "12")]
    pub replica_files: u64,
}

/// Ask for the disks of a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DisksRequest {}

/// Whether a disk accepts new data, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum DiskCondition {
    /// A condition of a newer peer.
    Unknown = 0,
    /// It does.
    InUse = 1,
    /// It has no free space.
    Full = 2,
    /// An operation failed: it is read, but gets no new data.
    Failed = 3,
    /// It is missing.
    Missing = 4,
    /// The configuration closes it to new data.
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
    /// Whether it accepts new data.
    #[prost(enumeration = "DiskCondition", tag = "3")]
    pub condition: i32,
    /// The operation that failed, or why it is missing.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// Bytes of its blocks that are in use.
    #[prost(uint64, tag = "5")]
    pub used: u64,
    /// Bytes available.
    #[prost(uint64, tag = "6")]
    pub available: u64,
    /// Failed operations since the server was started.
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

/// Return free space to the host now.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TrimRequest {}

/// The result of a trim.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TrimReply {
    /// Bytes of free blocks that this call returned.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Bytes that the host holds for the server's files and devices.
    #[prost(uint64, tag = "2")]
    pub held: u64,
    /// Bytes of blocks in use.
    #[prost(uint64, tag = "3")]
    pub used: u64,
}

/// Ask for the losses of a server.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LossesRequest {}

/// Lost data: reading it fails until it is rewritten, removed or accepted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LossesReply {
    /// Files with losses.
    #[prost(uint64, tag = "1")]
    pub files: u64,
    /// Lost ranges of bytes.
    #[prost(uint64, tag = "2")]
    pub ranges: u64,
    /// Lost bytes.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// There are more losses than were counted.
    #[prost(bool, tag = "4")]
    pub more: bool,
}

/// Replace the lost bytes of a file on a server with zeros, and make unproven bytes readable: the
/// user's decision that this is better than errors.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AcceptLossesRequest {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Instead: make the unproven bytes of all files readable; lost bytes stay lost.
    #[prost(bool, tag = "2")]
    pub all_unproven: bool,
}

/// What was zeroed or made readable; on stable storage.
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
    fn a_scrub_pass_is_stored_as_format_md_documents() {
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
