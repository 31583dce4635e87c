use bytes::{BufMut, Bytes, BytesMut};
use weft_proto::{CHECKSUMS_AT, Flags, HEADER_BYTES};

use super::keys::SEGMENT;
use super::*;
use crate::error::Tampered;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn pair(cover: Cover) -> (Sealer, Opener) {
    (
        Sealer::new([5; 16], cover, BufferPool::default()),
        Opener::new([5; 16], cover),
    )
}

/// A sealed frame: its head with the tag, its payload, and the payload's tags.
type Sealed = (BytesMut, Vec<u8>, Vec<u8>);

fn seal(sealer: &mut Sealer, head: &[u8], payload: &[Bytes]) -> Sealed {
    let (mut head, mut payload) = (head.to_vec(), payload.to_vec());
    let tags = sealer.seal(&mut head, &mut payload);
    (BytesMut::from(&head[..]), payload.concat(), tags)
}

fn open(opener: &mut Opener, (mut head, mut payload, tags): Sealed) -> Result<Vec<u8>, Tampered> {
    opener.open_head(&mut head)?;
    opener.open_payload(&mut payload, &tags)?;
    head.put_slice(&payload);
    Ok(head.to_vec())
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn protected_frames_open_however_their_payload_is_split() {
    let head = noise(HEADER_BYTES + 9);
    for cover in [Cover::Heads, Cover::All, Cover::Encrypted] {
        let (mut sealer, mut opener) = pair(cover);
        for length in [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5] {
            let payload = Bytes::from(noise(length));
            for piece in [1, 1000, SEGMENT - 3, SEGMENT, SEGMENT + 7, usize::MAX] {
                if length / piece.min(length.max(1)) > 10_000 {
                    continue;
                }
                let parts: Vec<Bytes> = payload
                    .chunks(piece.min(length.max(1)))
                    .map(|part| payload.slice_ref(part))
                    .collect();
                let sent = seal(&mut sealer, &head, &parts);
                assert_eq!(sent.2.len(), opener.payload_tags(length));
                let hidden = cover == Cover::Encrypted;
                assert_eq!(sent.0[..CHECKSUMS_AT], head[..CHECKSUMS_AT]);
                assert_eq!(
                    sent.0[CHECKSUMS_AT..head.len()] != head[CHECKSUMS_AT..],
                    hidden
                );
                assert_eq!(sent.1[..] != payload[..], hidden && length > 0);
                let found = open(&mut opener, sent).unwrap();
                assert!(found == [&head[..], &payload].concat());
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_detected() {
    let (head, payload) = (noise(HEADER_BYTES + 9), Bytes::from(noise(SEGMENT + 40)));
    for cover in [Cover::All, Cover::Encrypted] {
        let sealed = seal(&mut pair(cover).0, &head, std::slice::from_ref(&payload));
        let mut places = 0;
        for part in 0..3 {
            let length = [sealed.0.len(), sealed.1.len(), sealed.2.len()][part];
            for at in (0..length).step_by(1 + length / 200).chain([length - 1]) {
                let mut changed = sealed.clone();
                let place = match part {
                    0 => &mut changed.0[at],
                    1 => &mut changed.1[at],
                    _ => &mut changed.2[at],
                };
                *place ^= 1 << (at % 8);
                let opened = open(&mut pair(cover).1, changed);
                assert_eq!(opened, Err(Tampered { frame: 0 }), "{cover:?} {part} {at}");
                places += 1;
            }
        }
        assert!(places > 200);
    }
}

#[test]
fn a_frame_opens_only_at_its_position_in_the_stream() {
    let head = noise(HEADER_BYTES);
    for cover in [Cover::Heads, Cover::All, Cover::Encrypted] {
        let (mut sealer, _) = pair(cover);
        let frames: Vec<Sealed> = (0..4).map(|_| seal(&mut sealer, &head, &[])).collect();
        for order in [&[0, 0][..], &[1], &[0, 2], &[0, 2, 1], &[0, 1, 1]] {
            let mut opener = pair(cover).1;
            let fits = order.iter().map(|i| open(&mut opener, frames[*i].clone()));
            let fits = fits.take_while(Result::is_ok).count();
            assert!(fits < order.len(), "{cover:?} {order:?}");
        }
    }
}

#[test]
fn segments_cannot_be_swapped() {
    let payload = Bytes::from(noise(2 * SEGMENT));
    for cover in [Cover::All, Cover::Encrypted] {
        let (mut sealer, mut opener) = pair(cover);
        let (head, sent, tags) = seal(
            &mut sealer,
            &noise(HEADER_BYTES),
            std::slice::from_ref(&payload),
        );
        let turned = [&sent[SEGMENT..], &sent[..SEGMENT]].concat();
        let turned_tags = [&tags[TAG_BYTES..], &tags[..TAG_BYTES]].concat();
        assert!(open(&mut opener, (head, turned, turned_tags)).is_err());
    }
}

#[test]
fn each_direction_connection_and_key_has_its_own_secret() {
    let secret = |key: u8, hello: &[u8], wire| {
        let protection = Protection::new(&VolumeKey([key; 32]), (hello, b"c"), wire, false);
        let protection = protection.unwrap();
        [protection.to_server, protection.to_client]
    };
    let all = [
        secret(1, b"h", Wire::Mac),
        secret(2, b"h", Wire::Mac),
        secret(1, b"g", Wire::Mac),
    ];
    let all: std::collections::BTreeSet<_> = all.into_iter().flatten().collect();
    assert_eq!(all.len(), 6);
    assert!(Protection::new(&VolumeKey([1; 32]), (b"h", b"c"), Wire::Plain, false).is_none());
}

#[test]
fn a_failure_without_a_tag_is_accepted_only_as_the_first_frame_to_a_client() {
    let of = || Protection::new(&VolumeKey([1; 32]), (b"h", b"c"), Wire::Mac, false).unwrap();
    let (mut sealer, server) = of().server_side(BufferPool::default());
    let (_, mut client) = of().client_side(BufferPool::default());
    assert!(server.covers(Flags::FAILED) && client.covers(Flags::REPLY));
    assert!(!client.covers(Flags::FAILED));
    open(&mut client, seal(&mut sealer, &noise(HEADER_BYTES), &[])).unwrap();
    assert!(client.covers(Flags::FAILED));
}

/// Checks the example of `docs/protocol.md`, against which another implementation can verify its
/// keys and tags.
#[test]
fn the_tags_and_encryption_of_protocol_md_are_correct() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let value = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name)).unwrap();
        bytes(line[name.len()..].trim())
    };
    let key = VolumeKey(value("key          ").try_into().unwrap());
    let (hello, challenge) = (value("hello        "), value("challenge    "));
    let of = |wire| Protection::new(&key, (&hello, &challenge), wire, false).unwrap();
    let frame = value("frame        ");
    let (head, payload) = frame.split_at(frame.len() - 4);
    let payload = [Bytes::copy_from_slice(payload)];
    let sent = |wire| {
        let (head, payload, tags) = seal(
            &mut of(wire).client_side(BufferPool::default()).0,
            head,
            &payload,
        );
        [&head[..], &payload, &tags].concat()
    };
    let to_server = of(Wire::Mac).to_server;
    let shown = [
        ("to server    ", to_server.to_vec()),
        ("to client    ", of(Wire::Mac).to_client.to_vec()),
        ("as mac       ", sent(Wire::Mac)),
        ("as encrypted ", sent(Wire::Encrypted)),
    ];
    let digit = |d: u8| char::from(b"0123456789abcdef"[usize::from(d)]);
    let hex = |bytes: &[u8]| -> String {
        let digits = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
        digits.collect()
    };
    for (name, found) in &shown {
        assert_eq!(hex(found), hex(&value(name)), "{name}");
    }
}
