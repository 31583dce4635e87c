//! The bytes of every message, with every field set. They never change, because peers of other
//! releases send them.
//!
//! Each family of messages has a file of values here and a folder of data files; `cases` compares
//! the two. A new message needs a call in its family's file, and a data file: without it the test
//! fails and prints the bytes.

mod addressed;
mod cases;
mod checkpoint;
mod collective;
mod coord;
mod delegation;
mod fsck;
mod inline;
mod io;
mod meta;
mod order;
mod parity;
mod pointer;
mod quota;
mod replica;
mod session;
mod upkeep;
mod values;

use bytes::Bytes;
use weft_proto::io::{
    Access, Part, PartKind, PartRepeat, Pattern, PatternKind, Runs, Shaped, ViewKind, WriteReply,
};
use weft_proto::prost::Message;
use weft_proto::session::Cancel;
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, Flags, HEADER_BYTES, Header, Kind, body_from};

use cases::Golden;
use values::{access, position};

#[test]
fn every_message_keeps_its_bytes() {
    let mut golden = Golden::default();
    checkpoint::messages(&mut golden);
    collective::messages(&mut golden);
    coord::messages(&mut golden);
    delegation::messages(&mut golden);
    fsck::messages(&mut golden);
    inline::messages(&mut golden);
    io::messages(&mut golden);
    meta::messages(&mut golden);
    order::messages(&mut golden);
    addressed::messages(&mut golden);
    parity::messages(&mut golden);
    pointer::messages(&mut golden);
    quota::messages(&mut golden);
    replica::messages(&mut golden);
    session::messages(&mut golden);
    upkeep::messages(&mut golden);
    golden.message(Kind::Read, "ShapedPattern", &shaped());
    golden.message(Kind::Read, "CellAccess", &access(ViewKind::Cell(5)));
    golden.message(Kind::Write, "Stamp", &stamp());
    let failure = Failure::new(Code::NoSpace, "server 3 is full");
    golden.message(Kind::Write, "Failure", &failure);

    let has = |kind: &&Kind| !golden.kinds().contains(kind);
    let without: Vec<&Kind> = Kind::ALL.iter().filter(has).collect();
    assert!(without.is_empty(), "{without:?} have no messages");
    let differences = golden.differences();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A nested request: two repetitions of a run and a list of three runs, two of them equal.
fn shaped() -> Pattern {
    let part = |at, kind| Part {
        at,
        kind: Some(kind),
    };
    let runs = Runs {
        gaps: vec![-3, 100],
        lengths: vec![5, 6],
        times: vec![2, 1],
        strides: vec![7, 0],
    };
    let repeat = PartRepeat {
        stride: -4096,
        times: 2,
    };
    let parts = vec![
        part(8192, PartKind::Repeat(repeat)),
        part(0, PartKind::Sequence(2)),
        part(-1, PartKind::Bytes(64)),
        part(300, PartKind::Runs(runs)),
    ];
    Pattern {
        kind: Some(PatternKind::Shaped(Shaped {
            offset: 1 << 40,
            parts,
        })),
    }
}

/// The position of the store in any reply.
fn stamp() -> Stamp {
    Stamp {
        changed: Some(position()),
        durable: 299,
    }
}

#[test]
fn a_stamp_adds_two_fields_to_any_reply() {
    let stamp = stamp();
    let reply = WriteReply {
        bytes: 1_000_000,
        ..WriteReply::default()
    };
    let stamped = [reply.encode_to_vec(), stamp.encode_to_vec()].concat();
    assert_eq!(body_from::<WriteReply>(Kind::Write, &stamped), Ok(reply));
    assert_eq!(body_from::<Stamp>(Kind::Write, &stamped), Ok(stamp));
}

#[test]
fn an_access_names_its_checkpoint() {
    let living = access(ViewKind::Cell(1));
    let kept = Access {
        checkpoint: 5,
        ..living.clone()
    };
    let (living, kept) = (living.encode_to_vec(), kept.encode_to_vec());
    assert_eq!(kept, [&living[..], &[0x40, 0x05]].concat());
}

#[test]
fn kinds_keep_their_numbers() {
    let numbers: Vec<u8> = Kind::ALL.iter().map(|k| k.code()).collect();
    let expected: Vec<u8> = (1..=6)
        .chain(32..=63)
        .chain(64..=98)
        .chain([100])
        .chain(104..=120)
        .chain(128..=146)
        .collect();
    assert_eq!(numbers, expected);
    for code in 0..=u8::MAX {
        let kind = Kind::from_code(code);
        assert_eq!(
            kind.map(Kind::code),
            expected.contains(&code).then_some(code)
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |d: u8| char::from(b"0123456789abcdef"[usize::from(d)]);
    let digits = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    digits.collect()
}

#[test]
fn the_header_keeps_its_bytes() {
    let body = Cancel { request: 300 }.encode_to_vec();
    let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    let payload = [Bytes::from_static(b"1234"), Bytes::from_static(b"56789")];
    let bytes = Header::encode(Kind::Cancel, flags, 0x0102_0304_0506_0708, &body, &payload);
    // Magic, kind, zero, flags, request, lengths, CRC-32C of "123456789", CRC-32C of the header and
    // body.
    let golden = "57454654 05 00 0700 0807060504030201 03000000 09000000 839206e3 1798463e";
    let golden: String = golden.split_whitespace().collect();
    assert_eq!(hex(&bytes), golden);
    let header = Header::decode(&bytes).unwrap();
    assert_eq!((header.kind, header.flags), (Kind::Cancel, flags));
    assert_eq!(header.request, 0x0102_0304_0506_0708);
    assert_eq!((header.body_len, header.payload_len), (3, 9));
    header.check_body(&bytes, &body).unwrap();
    header.check_payload(b"123456789").unwrap();
    let empty = Header::encode(Kind::Ping, Flags::LAST, 1, &[], &[]);
    assert_eq!(empty.len(), HEADER_BYTES);
    assert_eq!(
        hex(&empty[24..28]),
        "00000000",
        "the CRC of an empty payload"
    );
}
