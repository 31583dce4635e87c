//! Arbitrary bytes on the port: the server closes the connection soon and keeps serving.

use crate::common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use tokio::io::AsyncWriteExt;
use weft_net::{ConnectError, Env};
use weft_proto::{Flags, HEADER_BYTES, Header, Kind, VERSION};

/// Pseudo-random bytes, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.roll() as u8).collect()
    }
}

/// A server that waits long for a slow peer, so that a prompt close has another cause.
async fn patient_server() -> Server {
    let mut env = Env::system();
    env.timing.connect = TEST_TIMEOUT * 2;
    Server::start(
        Options {
            env,
            ..Options::default()
        },
        standard,
    )
    .await
}

async fn closes_on(server: &Server, bytes: &[u8]) {
    let mut raw = Raw::dial(&server.address).await;
    let _ = raw.stream.write_all(bytes).await;
    raw.closed().await;
    within(server.connect().await.call(&sync(1))).await.unwrap();
}

#[tokio::test]
async fn non_weft_clients_are_refused_at_their_first_bytes() {
    let server = patient_server().await;
    let requests: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: weft\r\n\r\n",
        b"GET /\r\n",
        b"\x16\x03\x01\x02\x00",
        b"WEFU",
        b"\0",
    ];
    for bytes in requests {
        closes_on(&server, bytes).await;
    }
    let mut dice = Dice(1);
    for len in [1, 31, 32, 33, 1000, 100_000] {
        closes_on(&server, &dice.bytes(len)).await;
    }
}

#[tokio::test]
async fn a_non_weft_client_gets_an_explanatory_reply() {
    let server = Server::usual().await;
    let mut raw = Raw::dial(&server.address).await;
    raw.stream.write_all(b"SSH-").await.unwrap();
    let frame = raw.receive().await.unwrap();
    assert!(frame.header.flags.has(Flags::FAILED));
    assert!(String::from_utf8_lossy(&frame.body).contains("Weft's protocol and nothing else"));
}

/// The header of a Hello with bytes overwritten after its checksum was computed.
fn forged(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = Header::encode(Kind::Hello, Flags::LAST, 1, &[], &[]);
    header[at..at + bytes.len()].copy_from_slice(bytes);
    header.to_vec()
}

#[tokio::test]
async fn oversized_lengths_are_refused_before_their_bytes_arrive() {
    let server = patient_server().await;
    for len in [u32::MAX, (1 << 20) + 1, 1 << 20, 4097] {
        closes_on(&server, &forged(16, &len.to_le_bytes())).await;
        closes_on(&server, &forged(20, &len.to_le_bytes())).await;
    }
    let honest = Header::encode(Kind::Hello, Flags::LAST, 1, &vec![0; 1 << 20], &[]);
    closes_on(&server, &honest).await;
    let payload = [Bytes::from(vec![0; 1])];
    let honest = Header::encode(Kind::Hello, Flags::LAST, 1, &[], &payload);
    closes_on(&server, &honest).await;
}

#[tokio::test]
async fn unknown_kinds_unknown_flags_and_damaged_headers_are_refused() {
    let server = patient_server().await;
    closes_on(&server, &forged(4, &[99])).await;
    closes_on(&server, &forged(5, &[1])).await;
    closes_on(&server, &forged(7, &[0x80])).await;
    closes_on(&server, &forged(28, &[0, 0, 0, 0])).await;
}

#[tokio::test]
async fn a_peer_that_sends_part_of_a_frame_is_disconnected_in_time() {
    let mut env = Env::system();
    env.timing.connect = Duration::from_millis(100);
    let server = Server::start(
        Options {
            env,
            ..Options::default()
        },
        standard,
    )
    .await;
    for bytes in [&b""[..], b"WEFT", &forged(16, &100u32.to_le_bytes())] {
        closes_on(&server, bytes).await;
    }
}

#[tokio::test]
async fn an_authenticated_peer_that_sends_garbage_harms_only_itself() {
    let server = Server::usual().await;
    let mut dice = Dice(2);
    for _ in 0..150 {
        let (mut raw, _) = Raw::prove(&server.address).await;
        let kinds = Kind::ALL;
        for _ in 0..dice.roll() % 8 {
            let kind = kinds[dice.roll() as usize % kinds.len()];
            let (body, payload) = (dice.roll() as usize % 40, dice.roll() as usize % 3 * 700);
            let (body, payload) = (dice.bytes(body), dice.bytes(payload));
            let flags = Flags((dice.roll() % 8) as u16);
            let mut frame = Header::encode(
                kind,
                flags,
                dice.roll() % 4,
                &body,
                &[payload.clone().into()],
            )
            .to_vec();
            frame.extend(body);
            frame.extend(payload);
            if dice.roll().is_multiple_of(3) {
                let at = dice.roll() as usize % frame.len();
                frame[at] ^= 1 << (dice.roll() % 8);
            }
            if raw.stream.write_all(&frame).await.is_err() {
                break;
            }
        }
    }
    within(server.connect().await.call(&sync(1))).await.unwrap();
    let mut raw = Raw::prove(&server.address).await.0;
    raw.stream.write_all(&[b'W'; HEADER_BYTES]).await.unwrap();
    raw.closed().await;
}

#[tokio::test]
async fn a_client_that_dials_another_service_reports_that() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.9\r\n",
    ] {
        let (listener, address) = listener().await;
        let other = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer).await.unwrap();
            Raw::over(stream).closed().await;
        };
        let env = Env::system();
        let (refused, ()) = tokio::join!(connect(&env, &address), other);
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, ConnectError::Protocol { .. }), "{error:?}");
        assert!(
            error.to_string().contains("does not speak Weft's protocol"),
            "{error}"
        );
    }
    assert_eq!(
        VERSION, 1,
        "review the refusals in this file for a new version"
    );
}
