//! An attacker on the path between client and server: changed bytes are detected and never
//! delivered.

use crate::common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use common::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use weft_net::{CallError, ConnectError, Connection, Env, Identity, Served, Wire};
use weft_proto::io::SyncRequest;
use weft_proto::meta::{Target, UnlinkRequest};
use weft_proto::prost::Message;
use weft_proto::session::{Challenge, Hello};
use weft_proto::{Code, Failure, Flags, HEADER_BYTES, Header, Kind};

const TAG: usize = 16;
const SEGMENT: usize = 64 << 10;
const BOTH: [Wire; 2] = [Wire::Mac, Wire::Encrypted];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// Maps a frame to the frames that the path delivers instead.
type Script = Box<dyn FnMut(Way, Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// A stretch of the path that the attacker controls.
struct Path {
    address: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Path {
    async fn to(server: &str, tags: bool, script: Script) -> Path {
        let (listener, address) = listener().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (server, all) = (server.to_owned(), seen.clone());
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&server).await.unwrap();
            let (script, client, server) = (
                Arc::new(Mutex::new(script)),
                client.into_split(),
                server.into_split(),
            );
            let up = carry(
                Way::ToServer,
                tags,
                client.0,
                server.1,
                script.clone(),
                all.clone(),
            );
            let down = carry(Way::ToClient, tags, server.0, client.1, script, all);
            tokio::join!(up, down);
        });
        Path { address, seen }
    }
}

async fn carry(
    way: Way,
    tags: bool,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<u8>>>,
) {
    // The welcome is the only frame of the handshake with a tag.
    let bare = if way == Way::ToServer { 2 } else { 1 };
    for number in 0.. {
        let (tags, first) = (tags && number >= bare, number == 1);
        let Some(frame) = next(&mut from, tags, first).await else {
            return;
        };
        seen.lock().unwrap().extend_from_slice(&frame);
        let frames = script.lock().unwrap()(way, frame);
        for frame in frames {
            if to.write_all(&frame).await.is_err() {
                return;
            }
        }
    }
}

fn lengths(frame: &[u8]) -> (usize, usize) {
    let length = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
    (length(16), length(20))
}

/// The next frame. A failure in place of the welcome has no tag.
async fn next(from: &mut OwnedReadHalf, tags: bool, welcome: bool) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEADER_BYTES];
    from.read_exact(&mut frame).await.ok()?;
    let (body, payload) = lengths(&frame);
    let failed = frame[6] & 4 != 0;
    let tags = if tags && !(welcome && failed) {
        TAG * (1 + payload.div_ceil(SEGMENT))
    } else {
        0
    };
    frame.resize(HEADER_BYTES + body + payload + tags, 0);
    from.read_exact(&mut frame[HEADER_BYTES..]).await.ok()?;
    Some(frame)
}

fn kind(frame: &[u8]) -> Kind {
    Kind::from_code(frame[4]).unwrap()
}

/// The frame with a changed body or payload, valid checksums and its original tags.
fn changed(frame: &[u8], tagged: bool, change: impl FnOnce(&mut [u8], &mut [u8])) -> Vec<u8> {
    let (body_len, payload_len) = lengths(frame);
    let (head, rest) = frame.split_at(HEADER_BYTES);
    let (body, rest) = rest.split_at(body_len);
    let (tag, rest) = rest.split_at(if tagged { TAG } else { 0 });
    let (payload, tags) = rest.split_at(payload_len);
    let (mut body, mut payload) = (body.to_vec(), payload.to_vec());
    change(&mut body, &mut payload);
    let header = Header::decode(head.try_into().unwrap()).unwrap();
    let parts = [Bytes::from(payload.clone())];
    let new = Header::encode(header.kind, header.flags, header.request, &body, &parts);
    [&new[..], &body, tag, &payload, tags].concat()
}

#[derive(Clone, Copy, Debug)]
enum Attack {
    FlipBody,
    FlipPayload,
    /// A bit of the request id, which is never encrypted.
    FlipHeader,
    FlipTag,
    Replay,
    Drop,
    Swap,
    Inject,
}

impl Attack {
    const ALL: [Attack; 8] = [
        Attack::FlipBody,
        Attack::FlipPayload,
        Attack::FlipHeader,
        Attack::FlipTag,
        Attack::Replay,
        Attack::Drop,
        Attack::Swap,
        Attack::Inject,
    ];

    /// The frames delivered instead of `frame`; the next frame overtakes one in `held`.
    fn on(self, frame: Vec<u8>, wire: Wire, held: &mut Option<Vec<u8>>) -> Vec<Vec<u8>> {
        // Encrypted checksums cannot be recomputed and need not be.
        let tagged = wire != Wire::Plain;
        let flip = |at_body: bool| {
            if wire == Wire::Encrypted {
                let (body, _) = lengths(&frame);
                let mut frame = frame.clone();
                let at = HEADER_BYTES + body + if at_body { 0 } else { TAG + 1 };
                frame[at - 1] ^= 1;
                return frame;
            }
            changed(&frame, tagged, |body, payload| {
                let place = if at_body { body } else { payload };
                *place.last_mut().unwrap() ^= 1;
            })
        };
        match self {
            Attack::FlipBody => vec![flip(true)],
            Attack::FlipPayload => vec![flip(false)],
            Attack::FlipHeader => {
                let mut frame = frame;
                frame[8] ^= 64;
                vec![if wire == Wire::Mac {
                    changed(&frame, tagged, |_, _| {})
                } else {
                    frame
                }]
            }
            Attack::FlipTag => {
                let mut frame = frame;
                *frame.last_mut().unwrap() ^= 1;
                vec![frame]
            }
            Attack::Replay => vec![frame.clone(), frame],
            Attack::Drop => vec![],
            Attack::Swap => {
                *held = Some(frame);
                vec![]
            }
            Attack::Inject => {
                let (_, payload) = lengths(&frame);
                let forged = changed(&frame, tagged, |body, _| body[1] ^= 8);
                assert!(payload < SEGMENT);
                vec![forged, frame]
            }
        }
    }
}

fn by_tcp_pinging() -> Env {
    let mut env = by_tcp();
    // The receiver detects a dropped frame at the next frame; frequent pings provide one.
    env.timing.ping = Duration::from_millis(20);
    env
}

fn client(wire: Wire) -> Identity {
    Identity { wire, ..identity() }
}

/// A server that records the syncs that it served.
async fn server(wire: Wire) -> (Server, Arc<Mutex<Vec<u64>>>) {
    let syncs = Arc::new(Mutex::new(Vec::new()));
    let notes = syncs.clone();
    let options = Options {
        env: by_tcp(),
        wire,
        ..Options::default()
    };
    let server = Server::start(options, move |call: Served| {
        if call.kind == Kind::Sync {
            let file = call.request::<SyncRequest>().unwrap().file;
            notes.lock().unwrap().push(file);
        }
        standard(call)
    });
    (server.await, syncs)
}

const BYTES: usize = 9000;

/// Writes, reads and syncs, and checks the replies.
async fn exchange(connection: &Connection, number: u64) -> Result<(), CallError> {
    let request = write(number);
    let sent = connection.send(&request, vec![pattern(0, BYTES)], true);
    assert_eq!(sent.await?.reply().await?.bytes, BYTES as u64);
    let (_, mut incoming) = connection.fetch(&read(BYTES as u64)).await?;
    let mut found = Vec::new();
    while let Some(bytes) = incoming.next().await? {
        found.extend_from_slice(&bytes);
    }
    assert!(found == pattern(0, BYTES));
    assert_eq!(connection.call(&sync(number)).await?, sync_reply(number));
    Ok(())
}

/// Attacks one frame in the middle of a conversation; returns its result and the syncs that the
/// server served.
async fn attacked(wire: Wire, way: Way, attack: Attack) -> (Result<(), CallError>, Vec<u64>) {
    let (server, syncs) = server(wire).await;
    let target = match (attack, way) {
        (Attack::FlipPayload, Way::ToServer) => Kind::Write,
        (Attack::FlipPayload, Way::ToClient) => Kind::Read,
        _ => Kind::Sync,
    };
    let (mut passed, mut held) = (0, None);
    let script: Script = Box::new(move |from, frame| {
        if from != way {
            return vec![frame];
        }
        if let Some(held) = held.take() {
            return vec![frame, held];
        }
        passed += usize::from(kind(&frame) == target);
        if passed == 2 && kind(&frame) == target {
            passed += 1;
            return attack.on(frame, wire, &mut held);
        }
        vec![frame]
    });
    let path = Path::to(&server.address, wire != Wire::Plain, script).await;
    let connection = connect_as(&by_tcp_pinging(), &client(wire), &path.address).await;
    let connection = connection.unwrap();
    assert_eq!(connection.wire(), wire);
    let talk = async {
        for number in 1..=5 {
            exchange(&connection, number).await?;
        }
        Ok(())
    };
    let ended = within(talk).await;
    let syncs = syncs.lock().unwrap().clone();
    (ended, syncs)
}

#[tokio::test]
async fn changed_injected_replayed_dropped_or_reordered_frames_end_the_connection() {
    for wire in BOTH {
        for way in [Way::ToServer, Way::ToClient] {
            for attack in Attack::ALL {
                let (ended, syncs) = attacked(wire, way, attack).await;
                let what = format!("{wire} {way:?} {attack:?}: {ended:?}, served {syncs:?}");
                let Err(CallError::Lost { reason, .. }) = &ended else {
                    panic!("{what}");
                };
                // The side that detects the attack names it; the other sees the connection close.
                let noticed = way == Way::ToClient;
                assert_eq!(reason.contains("failed authentication"), noticed, "{what}");
                // The server serves each sync at most once, in order, and no forged one. A
                // sync with a forged reply was served.
                assert!([&[1][..], &[1, 2]].contains(&&syncs[..]), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn frames_that_are_relayed_unchanged_are_accepted() {
    for wire in [Wire::Plain, Wire::Mac, Wire::Encrypted] {
        let (server, syncs) = server(wire).await;
        let path = Path::to(
            &server.address,
            wire != Wire::Plain,
            Box::new(|_, f| vec![f]),
        )
        .await;
        let connection = connect_as(&by_tcp(), &client(wire), &path.address)
            .await
            .unwrap();
        for number in 1..=3 {
            within(exchange(&connection, number)).await.unwrap();
        }
        // Frames of several segments arrive unchanged too.
        let (_, mut incoming) = connection.fetch(&read(3_000_000)).await.unwrap();
        let mut found = Vec::new();
        while let Some(bytes) = within(incoming.next()).await.unwrap() {
            found.extend_from_slice(&bytes);
        }
        assert!(found == pattern(0, 3_000_000));
        let request = write(1);
        let sent = connection.send(&request, vec![pattern(0, 2_500_000)], true);
        let reply = within(within(sent).await.unwrap().reply()).await.unwrap();
        assert_eq!(reply.bytes, 2_500_000);
        assert_eq!(*syncs.lock().unwrap(), [1, 2, 3]);
    }
}

/// A limit that `docs/protocol.md` states under *What is not protected*.
#[tokio::test]
async fn without_protection_a_replayed_frame_is_delivered() {
    let (ended, syncs) = attacked(Wire::Plain, Way::ToServer, Attack::Replay).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(syncs, [1, 2, 2, 3, 4, 5]);
}

/// Edits the body of the first frame of a direction.
fn editing(way: Way, mut edit: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> Script {
    let mut done = false;
    Box::new(move |from, frame| {
        if from != way || std::mem::replace(&mut done, true) {
            return vec![frame];
        }
        let header = Header::decode(frame[..HEADER_BYTES].try_into().unwrap()).unwrap();
        let body = edit(&frame[HEADER_BYTES..]);
        let new = Header::encode(header.kind, header.flags, header.request, &body, &[]);
        vec![[&new[..], &body].concat()]
    })
}

/// Replaces the protection levels that the client offers.
fn saying(least: Wire, most: Wire) -> Script {
    editing(Way::ToServer, move |body| {
        let hello = Hello {
            wire_least: least as i32,
            wire_most: most as i32,
            ..Hello::decode(body).unwrap()
        };
        hello.encode_to_vec()
    })
}

fn choosing(wire: Wire) -> Script {
    editing(Way::ToClient, move |body| {
        let challenge = Challenge {
            wire: wire as i32,
            ..Challenge::decode(body).unwrap()
        };
        challenge.encode_to_vec()
    })
}

async fn refused(server: Wire, takes: Wire, script: Script) -> Failure {
    let (server, syncs) = self::server(server).await;
    let path = Path::to(&server.address, false, script).await;
    let refused = within(connect_as(&by_tcp(), &client(takes), &path.address)).await;
    assert!(syncs.lock().unwrap().is_empty());
    match refused.map(|_| ()).unwrap_err() {
        ConnectError::Refused { failure, .. } => failure,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn an_attacker_cannot_downgrade_the_protection() {
    // The server enforces its own minimum.
    let failure = refused(Wire::Mac, Wire::Mac, saying(Wire::Plain, Wire::Plain)).await;
    assert_eq!(failure.code(), Code::Version);
    assert!(
        failure.message.contains("wire = \"mac\""),
        "{}",
        failure.message
    );
    assert!(failure.message.contains("\"plain\""), "{}", failure.message);
    // The client enforces its own minimum, whatever hello the server received.
    let failure = refused(Wire::Plain, Wire::Encrypted, saying(Wire::Mac, Wire::Mac)).await;
    assert_eq!(failure.code(), Code::Version);
    assert!(
        failure.message.contains("wire = \"mac\""),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("\"encrypted\""),
        "{}",
        failure.message
    );
    let failure = refused(Wire::Mac, Wire::Mac, choosing(Wire::Plain)).await;
    assert_eq!(failure.code(), Code::Version);
    // Where both sides accept the lower level, the proofs reveal the changed choice.
    let failure = refused(Wire::Mac, Wire::Plain, choosing(Wire::Plain)).await;
    assert_eq!(failure.code(), Code::Unauthenticated);
    let failure = refused(Wire::Encrypted, Wire::Plain, choosing(Wire::Mac)).await;
    assert_eq!(failure.code(), Code::Unauthenticated);
    let script = saying(Wire::Mac, Wire::Encrypted);
    let failure = refused(Wire::Plain, Wire::Plain, script).await;
    assert_eq!(
        failure.code(),
        Code::Unauthenticated,
        "the server detects a changed hello"
    );
}

#[tokio::test]
async fn the_stronger_protection_level_is_negotiated() {
    let levels = [Wire::Plain, Wire::Mac, Wire::Encrypted];
    for set in levels {
        let (server, _) = server(set).await;
        for takes in levels {
            let connection = connect_as(&by_tcp(), &client(takes), &server.address).await;
            let connection = connection.unwrap();
            assert_eq!(connection.wire(), set.max(takes));
            within(connection.call(&sync(1))).await.unwrap();
        }
    }
}

#[tokio::test]
async fn either_side_refuses_a_peer_without_protection() {
    let (server, _) = server(Wire::Mac).await;
    let mut raw = Raw::dial(&server.address).await;
    raw.send(Kind::Hello, Flags::LAST, 1, &hello(&VOLUME), &[])
        .await;
    let answer = raw.receive().await.unwrap();
    assert!(answer.header.flags.has(Flags::FAILED));
    let failure = Failure::decode(&answer.body[..]).unwrap();
    assert_eq!(failure.code(), Code::Version);
    let said = &failure.message;
    assert!(
        said.contains("\"mac\"") && said.contains("\"plain\""),
        "{said}"
    );

    let (listener, address) = listener().await;
    let serving = async {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        raw.receive().await.unwrap();
        let challenge = Challenge {
            version: 1,
            nonce: Bytes::from_static(&[2; 32]),
            volume: Bytes::from_static(&VOLUME),
            ..Challenge::default()
        };
        let end = Flags::REPLY.with(Flags::LAST);
        raw.send(Kind::Hello, end, 1, &challenge, &[]).await;
        assert!(
            raw.receive().await.is_none(),
            "the client disconnects without a proof"
        );
    };
    let client = client(Wire::Mac);
    let by_tcp = by_tcp();
    let (refused, ()) = tokio::join!(connect_as(&by_tcp, &client, &address), serving);
    let error = refused.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("\"plain\"") && error.contains("\"mac\""),
        "{error}"
    );
}

#[tokio::test]
async fn a_changed_welcome_is_reported_as_an_impostor() {
    for wire in BOTH {
        let (server, _) = server(wire).await;
        let mut number = 0;
        let script: Script = Box::new(move |way, mut frame| {
            if way == Way::ToClient {
                number += 1;
                if number == 2 && wire == Wire::Mac {
                    // A byte of the granted window.
                    frame = changed(&frame, true, |body, _| body[37] ^= 1);
                } else if number == 2 {
                    frame[HEADER_BYTES + 37] ^= 1;
                }
            }
            vec![frame]
        });
        let path = Path::to(&server.address, true, script).await;
        let refused = within(connect_as(&by_tcp(), &client(wire), &path.address)).await;
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, ConnectError::Impostor { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_encrypted_connection_reveals_neither_names_nor_bytes() {
    // The fixture expects this pattern in a write.
    let (name, secret) = ("a-very-telling-name", pattern(0, 2000));
    let contains = |all: &[u8], part: &[u8]| all.windows(part.len()).any(|w| w == part);
    for wire in [Wire::Plain, Wire::Mac, Wire::Encrypted] {
        let (server, _) = server(wire).await;
        let tags = wire != Wire::Plain;
        let path = Path::to(&server.address, tags, Box::new(|_, f| vec![f])).await;
        let connection = connect_as(&by_tcp(), &client(wire), &path.address)
            .await
            .unwrap();
        let unlink = UnlinkRequest {
            target: Target {
                path: Bytes::copy_from_slice(name.as_bytes()),
                ..Target::default()
            },
            ..UnlinkRequest::default()
        };
        // The fixture has no namespace; only the sent name matters.
        within(connection.call(&unlink)).await.unwrap_err();
        let request = write(7);
        let sent = connection.send(&request, vec![secret.clone()], true);
        within(async { sent.await?.reply().await }).await.unwrap();
        let seen = path.seen.lock().unwrap().clone();
        let open = wire != Wire::Encrypted;
        assert_eq!(contains(&seen, name.as_bytes()), open, "{wire}");
        assert_eq!(contains(&seen, &secret), open, "{wire}");
        // The checksum of the bytes is hidden as well.
        let sum = weft_sum::of(&secret).to_le_bytes();
        assert_eq!(contains(&seen, &sum), open, "{wire}");
    }
}
