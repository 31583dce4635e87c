//! Every decoder of bytes on a disk, by the name of its record in `docs/format.md`, for fuzzing.
//!
//! Each decodes and encodes again, so that a fuzzer can compare the result with its input: a record
//! has one encoding, and all other bytes are refused.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::log::{find_frames, parse};
use crate::record::{
    CheckpointRecord, ChunkRecord, DiskRecord, FileRecord, ForkEntry, ForkRecord, FrameRecord,
    Header, HistoryRecord, ItemRecord, LabelRecord, LogWatermark, NoteRecord, RunningRecord,
    ServicePositionRecord, StoreRecord, decode_body, new_body,
};

/// Decodes bytes and encodes the result; `None`: they were refused.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// The decoders. Each returns its input or `None`.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("label", label),
    ("log", |bytes| log(bytes, false)),
    ("log after power loss", |bytes| log(bytes, true)),
    ("body", body),
    ("file key", |key| {
        Some(FileRecord::key(FileRecord::decode_key(key).ok()?))
    }),
    ("file value", |value| {
        Some(FileRecord::decode(b"", value).ok()?.encode())
    }),
    ("checkpoint key", |key| {
        let (file, number) = CheckpointRecord::decode_key(key)?;
        Some(CheckpointRecord::key(file, number))
    }),
    ("checkpoint value", |value| {
        Some(CheckpointRecord::decode(b"", value).ok()?.encode())
    }),
    ("fork key", fork_key),
    ("fork value", |value| {
        Some(ForkRecord::decode(b"", value).ok()?.encode())
    }),
    ("chunk key", |key| {
        let (id, chunk) = ChunkRecord::decode_key(key).ok()?;
        Some(ChunkRecord::key(id, chunk))
    }),
    ("chunk value", chunk),
    ("disk key", |key| {
        Some(DiskRecord::key(DiskRecord::decode_key(key)?))
    }),
    ("disk value", |value| {
        Some(DiskRecord::decode(b"", value).ok()?.encode())
    }),
    ("store value", |value| {
        Some(StoreRecord::decode(value).ok()?.encode())
    }),
    ("note", |value| {
        Some(NoteRecord::encode(&NoteRecord::decode(b"", value).ok()?))
    }),
    ("incarnations", |value| {
        let mut bytes = HistoryRecord::decode(value)?.encode();
        bytes.resize(value.len(), 0);
        Some(bytes)
    }),
    ("service", |value| {
        Some(ServicePositionRecord::decode(value)?.encode())
    }),
    ("reached", |value| {
        Some(LogWatermark::decode(value)?.encode())
    }),
    ("running", |value| {
        Some(RunningRecord::encode(&RunningRecord::decode(value)?))
    }),
];

/// The kinds of items in the complete frames of a log segment, as `docs/format.md` numbers them.
pub fn item_kinds(segment: &[u8]) -> BTreeSet<u8> {
    let frames = find_frames(&Bytes::copy_from_slice(segment), 0);
    let items = frames.iter().flat_map(|(_, _, items)| items);
    let kind = |item: &ItemRecord| {
        let mut out = Vec::new();
        item.encode(&mut out);
        out[0]
    };
    items.map(kind).collect()
}

/// Bytes after a label are ignored.
fn label(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = LabelRecord::decode(bytes).ok()?.encode();
    out.extend_from_slice(bytes.get(out.len()..)?);
    Some(out)
}

/// A segment, as a restart reads it. Truncated bytes and frames of an older version are copied as
/// they are.
fn log(bytes: &[u8], power_lost: bool) -> Option<Vec<u8>> {
    let segment = Bytes::copy_from_slice(bytes);
    let parsed = parse(&[segment], 0, power_lost, 0).ok()?;
    if parsed.damage.is_some() {
        return None;
    }
    let mut out = Vec::new();
    for frame in parsed.frames {
        let at = frame.at.1 as usize;
        let Header::Good(header) = FrameRecord::decode(&bytes[at..]) else {
            return None;
        };
        if !header.ends {
            out.extend_from_slice(&bytes[at..at + header.stride() as usize]);
            continue;
        }
        let mut body = new_body(frame.modified);
        for item in frame.items {
            item.encode(&mut body);
        }
        FrameRecord::append(&mut out, frame.sequence, header.synced, &body);
    }
    let rest = &bytes[out.len()..];
    match parsed.truncate_at {
        Some((_, at)) => assert_eq!(at as usize, out.len(), "frames are as long as they were"),
        None => assert!(rest.iter().all(|b| *b == 0), "zeros follow the frames"),
    }
    out.extend_from_slice(rest);
    Some(out)
}

fn body(bytes: &[u8]) -> Option<Vec<u8>> {
    let (modified, items) = decode_body(&Bytes::copy_from_slice(bytes))?;
    let mut out = new_body(modified);
    for item in items {
        item.encode(&mut out);
    }
    Some(out)
}

fn fork_key(key: &[u8]) -> Option<Vec<u8>> {
    Some(match ForkRecord::decode_key(key).ok()? {
        ForkEntry::Live(key) => ForkRecord::key(&key),
        ForkEntry::Checkpoint(key, id) => ForkRecord::checkpoint_fork_key(&key, id),
    })
}

fn chunk(value: &[u8]) -> Option<Vec<u8>> {
    let runs = ChunkRecord::decode(b"", value).ok()?;
    let only = ChunkRecord::decode_runs(b"", value).ok()?;
    assert_eq!(runs.runs, only, "both ways of reading see the same");
    Some(ChunkRecord::encode(&runs))
}
