//! Messages about the chunks of addressed files, and the options that ask for one.

use bytes::Bytes;
use weft_proto::Kind;
use weft_proto::addressed::{CleanReply, CleanRequest, NameChunksReply, NameChunksRequest};
use weft_proto::io::ViewKind;
use weft_proto::meta::LayoutOptions;

use super::cases::Golden;
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
    let options = LayoutOptions {
        storage: Some(1),
        ..LayoutOptions::default()
    };
    golden.message(Kind::NameChunks, "AddressedLayoutOptions", &options);
}
