//! Messages about the chunks of addressed files, and the options that ask for one.

use bytes::Bytes;
use weft_proto::Kind;
use weft_proto::addressed::{
    Callback, CallbacksReply, CallbacksRequest, ChangedBytes, ChunkRun, CleanReply, CleanRequest,
    DroppedShare, NameChunksReply, NameChunksRequest, ReadNamesReply, ReadNamesRequest,
};
use weft_proto::io::{CellRun, ViewKind};
use weft_proto::meta::{Attributes, LayoutOptions, SetAttributesRequest};

use super::cases::Golden;
use super::order::claim;
use super::values::access;

pub fn messages(golden: &mut Golden) {
    golden.call(
        &NameChunksRequest {
            access: access(ViewKind::Cell(1)),
            chunk: 4096 + (1 << 31),
            names: Bytes::from_static(b"new names"),
            old: Bytes::from_static(b"old names"),
            all: true,
            sync: true,
        },
        &NameChunksReply {
            lacking: Bytes::from_static(&[0, 0x81]),
            changed: true,
        },
    );
    golden.call(
        &CleanRequest { run: true },
        &CleanReply {
            named: 12,
            named_bytes: 49_152,
            chunks: 10,
            chunk_bytes: 40_960,
            removed: 3,
            removed_bytes: 12_288,
            missing: 1,
            removed_since_start: 20_480,
            never: true,
        },
    );
    golden.call(
        &ReadNamesRequest {
            access: access(ViewKind::Cell(1)),
            claim: Some(claim()),
            callback: true,
            after: 0x0102_0304_0506_0708,
        },
        &ReadNamesReply {
            chunks: vec![ChunkRun {
                cell: 2,
                first: 3,
                count: 4,
            }],
            names: Bytes::from_static(b"names"),
            lengths: vec![CellRun {
                first: 1,
                count: 2,
                step: 3,
                length: 70_000,
            }],
            granted: true,
            registration: 0x0102_0304_0506_0708,
            share: 9,
        },
    );
    golden.call(
        &CallbacksRequest {
            registration: 0x0102_0304_0506_0708,
            cursor: 5,
            dropped: vec![DroppedShare { file: 6, share: 7 }],
        },
        &CallbacksReply {
            registration: 0x0102_0304_0506_0708,
            cursor: 8,
            changes: vec![
                Callback {
                    file: 6,
                    bytes: None,
                },
                Callback {
                    file: 7,
                    bytes: Some(ChangedBytes {
                        cell: 1,
                        fork: "data".into(),
                        start: 2,
                        end: 3,
                        names: Bytes::from_static(b"new names"),
                        length: 4,
                    }),
                },
            ],
        },
    );
    let options = LayoutOptions {
        storage: Some(1),
        ..LayoutOptions::default()
    };
    golden.message(Kind::NameChunks, "AddressedLayoutOptions", &options);
    let policy = Attributes {
        policy: "seq-2".into(),
        ..Attributes::default()
    };
    golden.message(Kind::Stat, "AttributesWithPolicy", &policy);
    let set = SetAttributesRequest {
        policy: Some("seq-2".into()),
        ..SetAttributesRequest::default()
    };
    golden.message(Kind::SetAttributes, "SetPolicyRequest", &set);
}
