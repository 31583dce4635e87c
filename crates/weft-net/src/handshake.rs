//! Hello, challenge, proof, welcome: both sides prove the volume's key without sending it.
//!
//! Each proof is a BLAKE3 keyed hash over everything both sides said, nonces included, so that no
//! message can be replayed, reflected or downgraded. The server proves itself only to a client that
//! has proven itself. From the same bytes both derive what protects the frames that follow, the
//! first of which is the server's welcome.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_proto::session::{Challenge, Hello, Proof, Role, Welcome, Wire};
use weft_proto::{
    Call, Code, Failure, Flags, FrameError, Kind, VERSION, VERSION_OLDEST, limits,
    prost::Message as _,
};

use crate::env::{BoxRead, BoxWrite, Env};
use crate::error::{ConnectError, ReadError};
use crate::frames::{Frame, FrameReader, unexpected};
use crate::protection::Protection;
use crate::queue::{Message, SendQueue, Sender};
use crate::server::{Bounds, Granted, Guest, Windows};

/// The volume's key: 32 secret bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey(pub [u8; 32]);

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(secret)")
    }
}

/// Who a process is when it opens or accepts connections.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Proven at connect.
    pub key: VolumeKey,
    /// The volume's id; a client that does not know it yet says all zeros.
    pub volume: [u8; 16],
    /// What it is, where it connects.
    pub role: Role,
    /// Its number as a client: random, the same on all its connections.
    pub client: u64,
    /// The least protection of frames that it takes part in, as client and as server.
    pub wire: Wire,
}

/// The peer of an accepted connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it connected from.
    pub address: String,
    /// What it is.
    pub role: Role,
    /// Its number as a client.
    pub client: u64,
}

/// How a connection came to a server, and what there is for it.
pub(crate) struct Door<'a> {
    /// Where it comes from.
    pub address: &'a str,
    /// The server's local socket; empty: it has none.
    pub local: &'a str,
    /// Whether it came through that.
    pub came_locally: bool,
    /// Its place until it is proven.
    pub guest: &'a Guest,
    /// Places for proven connections.
    pub places: &'a Arc<Semaphore>,
    /// Their windows.
    pub windows: &'a Arc<Windows>,
}

/// A client that has proven the key, and what it was granted.
pub(crate) struct Proven {
    pub peer: Peer,
    /// What may be in flight to it of one reply.
    pub reply_window: u32,
    pub window: Granted,
    pub place: OwnedSemaphorePermit,
}

/// What a server has told a client.
pub(crate) struct Introduced {
    pub welcome: Welcome,
    /// The server's local socket; empty: it has none.
    pub local: String,
    /// How frames are protected.
    pub wire: Wire,
}

/// Over the bytes as they were sent, not as they were understood: a field that only a newer peer
/// knows counts, too.
pub(crate) fn keyed_over(key: &VolumeKey, label: &str, hello: &[u8], challenge: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(label.as_bytes());
    for said in [hello, challenge] {
        hasher.update(&(said.len() as u64).to_le_bytes());
        hasher.update(said);
    }
    *hasher.finalize().as_bytes()
}

/// Compared as BLAKE3 hashes, which takes the same time wherever they differ.
fn same(found: &[u8], expected: [u8; 32]) -> bool {
    <[u8; 32]>::try_from(found)
        .is_ok_and(|found| blake3::Hash::from(found) == blake3::Hash::from(expected))
}

fn nonce(env: &Env) -> Bytes {
    let mut bytes = [0; 32];
    env.entropy.fill(&mut bytes);
    Bytes::copy_from_slice(&bytes)
}

/// Client side: returns what the server tells once both proofs are checked. `local` is the server's
/// local socket if the stream goes there.
pub(crate) async fn introduce(
    env: &Env,
    identity: &Identity,
    address: &str,
    local: Option<&str>,
    reply_window: u32,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<Introduced, ConnectError> {
    let protocol = |e: String| ConnectError::Protocol {
        address: address.to_owned(),
        reason: e,
    };
    let known = identity.volume != [0; 16];
    let hello = Hello {
        version_oldest: VERSION_OLDEST,
        version_newest: VERSION,
        nonce: nonce(env),
        role: identity.role as i32,
        client: identity.client,
        volume: if known {
            Bytes::copy_from_slice(&identity.volume)
        } else {
            Bytes::new()
        },
        reply_window,
        local: local.unwrap_or_default().to_owned(),
        wire_least: identity.wire as i32,
        wire_most: Wire::MOST as i32,
    };
    let hello = hello.encode_to_vec();
    let said = ask::<Hello>(hello.clone(), 1, address, reader, queue).await?;
    let challenge: Challenge = said.body_as().map_err(|e| protocol(e.to_string()))?;
    if !(VERSION_OLDEST..=VERSION).contains(&challenge.version) {
        return Err(protocol(format!("it chose version {}", challenge.version)));
    }
    if challenge.nonce.len() != 32 {
        return Err(protocol("its nonce has the wrong length".into()));
    }
    if known && challenge.volume != identity.volume[..] {
        return Err(ConnectError::Refused {
            address: address.to_owned(),
            failure: Failure::new(Code::WrongVolume, "it serves another volume"),
        });
    }
    let wire = accept_wire(&challenge, identity.wire).map_err(|failure| ConnectError::Refused {
        address: address.to_owned(),
        failure,
    })?;
    let mine = keyed_over(&identity.key, "weft client", &hello, &said.body);
    let both = (&hello[..], &said.body[..]);
    let protection = Protection::of(&identity.key, both, wire, local.is_some());
    let (sealer, opener) = protection.map(|p| p.of_client(reader.pool())).unzip();
    // The welcome already has a tag.
    reader.open_with(opener);
    let given = Proof {
        proof: Bytes::copy_from_slice(&mine),
    };
    let answer = ask::<Proof>(given.encode_to_vec(), 2, address, reader, queue).await?;
    let welcome: Welcome = answer.body_as().map_err(|e| protocol(e.to_string()))?;
    let theirs = keyed_over(&identity.key, "weft server", &hello, &said.body);
    if !same(&welcome.proof, theirs) {
        return Err(ConnectError::Impostor {
            address: address.to_owned(),
        });
    }
    if welcome.calls == 0 {
        return Err(protocol("it grants no calls".into()));
    }
    queue.protect(sealer);
    reader.proven();
    Ok(Introduced {
        welcome,
        local: challenge.local,
        wire,
    })
}

/// Checks what a server chose: never less than this side takes, whatever it said.
fn accept_wire(challenge: &Challenge, least: Wire) -> Result<Wire, Failure> {
    let why = match Wire::try_from(challenge.wire) {
        Ok(wire) if wire >= least => return Ok(wire),
        Ok(wire) => format!(
            "the server would speak with wire = \"{wire}\", and this side takes \"{least}\" at least; set the same on both, or \
             install the same release"
        ),
        Err(_) => format!(
            "the server would protect frames in a way that this side does not know (it knows up to \"{}\"); install the same \
             release on both",
            Wire::MOST
        ),
    };
    Err(Failure::new(Code::Version, why))
}

/// Chooses how frames are protected: as the server is set, or better if the client asks for it.
fn choose_wire(hello: &Hello, least: Wire) -> Result<Wire, (Code, String)> {
    // What only a newer client knows is more than anything known here.
    let most = Wire::try_from(hello.wire_most).unwrap_or(Wire::MOST);
    let why = match Wire::try_from(hello.wire_least) {
        Ok(theirs) if theirs.max(least) <= most => return Ok(theirs.max(least)),
        Ok(_) => format!(
            "this server has wire = \"{least}\", and the client speaks \"{most}\" at most; install the same release on both, or \
             have the volume's administrator set wire"
        ),
        Err(_) => format!(
            "this server speaks wire = \"{}\" at most, and the client asks for more; install the same release on both",
            Wire::MOST
        ),
    };
    Err((Code::Version, why))
}

/// Sends one message of the handshake and returns the frame that answers it.
async fn ask<C: Call>(
    body: Vec<u8>,
    id: u64,
    address: &str,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<Frame, ConnectError> {
    let unreachable = |reason: String| ConnectError::Unreachable {
        address: address.to_owned(),
        reason,
    };
    let protocol = |e: FrameError| ConnectError::Protocol {
        address: address.to_owned(),
        reason: e.to_string(),
    };
    let sent = queue.urgent(
        Message::bare(C::KIND, Flags::LAST, id, body),
        None,
        Sender::Crowd,
    );
    sent.map_err(|_| unreachable("the peer closed the connection".into()))?;
    let frame = reader.next().await.map_err(|e| match e {
        ReadError::Frame(e) => protocol(e),
        ReadError::Tampered(_) => ConnectError::Impostor {
            address: address.to_owned(),
        },
        lost => unreachable(lost.to_string()),
    })?;
    if frame.header.flags.has(Flags::FAILED) {
        let failure: Failure = frame.body_as().map_err(protocol)?;
        return Err(ConnectError::Refused {
            address: address.to_owned(),
            failure,
        });
    }
    let flags = frame.header.flags;
    if frame.header.kind != C::KIND || frame.header.request != id || !flags.has(Flags::REPLY) {
        return Err(protocol(unexpected(frame.header.kind, C::KIND)));
    }
    Ok(frame)
}

/// Server side: returns who the client is and what it was granted, or why it was refused.
pub(crate) async fn receive(
    env: &Env,
    identity: &Identity,
    (server, incarnation): (Option<u32>, u64),
    bounds: &Bounds,
    door: Door<'_>,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<Proven, String> {
    let frame = reader.next().await.map_err(|e| refuse_garbage(queue, &e))?;
    let hello: Hello = first(&frame, queue)?;
    let id = number_of(&frame, queue)?;
    door.guest.spoke();
    let checked = check(&hello, identity, &door);
    let checked = checked.and_then(|role| Ok((role, choose_wire(&hello, identity.wire)?)));
    let (role, wire) = match checked {
        Ok(checked) => checked,
        Err((code, why)) => return Err(refuse(queue, Kind::Hello, id, code, why)),
    };
    let challenge = Challenge {
        version: VERSION.min(hello.version_newest),
        nonce: nonce(env),
        volume: Bytes::copy_from_slice(&identity.volume),
        local: door.local.to_owned(),
        wire: wire as i32,
    };
    let said = challenge.encode_to_vec();
    answer(queue, Kind::Hello, id, said.clone())?;
    let given = reader.next().await.map_err(|e| e.to_string())?;
    let id = number_of(&given, queue)?;
    let given: Proof = given.request().map_err(|e| e.to_string())?;
    let theirs = keyed_over(&identity.key, "weft client", &frame.body, &said);
    if !same(&given.proof, theirs) {
        let why = "the key is wrong: use the volume.key of this volume (or what both said was changed on the way)";
        let why = why.to_owned();
        return Err(refuse(queue, Kind::Proof, id, Code::Unauthenticated, why));
    }
    let Ok(place) = door.places.clone().try_acquire_owned() else {
        let why = "the server has as many connections as it may have; try again later".to_owned();
        return Err(refuse(queue, Kind::Proof, id, Code::Busy, why));
    };
    let window = door.windows.grant(bounds.window);
    let mine = keyed_over(&identity.key, "weft server", &frame.body, &said);
    let welcome = Welcome {
        proof: Bytes::copy_from_slice(&mine),
        server,
        window: window.bytes(),
        calls: bounds.calls,
        incarnation,
    };
    let both = (&frame.body[..], &said[..]);
    let protection = Protection::of(&identity.key, both, wire, door.came_locally);
    let (sealer, opener) = protection.map(|p| p.of_server(reader.pool())).unzip();
    reader.open_with(opener);
    reader.proven();
    queue.protect(sealer);
    answer(queue, Kind::Proof, id, welcome.encode_to_vec())?;
    let peer = Peer {
        address: door.address.to_owned(),
        role,
        client: hello.client,
    };
    Ok(Proven {
        peer,
        reply_window: hello.reply_window,
        window,
        place,
    })
}

/// The request id of a frame of the handshake, which is a whole request.
fn number_of(frame: &Frame, queue: &SendQueue) -> Result<u64, String> {
    let (kind, id) = (frame.header.kind, frame.header.request);
    let why = if id == 0 {
        "the request id 0 is not used"
    } else if frame.header.flags != Flags::LAST {
        "a client begins with requests of one frame each"
    } else {
        return Ok(id);
    };
    Err(refuse(queue, kind, id, Code::Invalid, why.to_owned()))
}

/// What a server checks before it challenges.
fn check(hello: &Hello, identity: &Identity, door: &Door<'_>) -> Result<Role, (Code, String)> {
    if hello.version_newest < VERSION_OLDEST || hello.version_oldest > VERSION {
        let why = format!(
            "this server speaks versions {VERSION_OLDEST} to {VERSION} of Weft's protocol, the client {} to {}; \
             install the same release on both",
            hello.version_oldest, hello.version_newest
        );
        return Err((Code::Version, why));
    }
    if hello.nonce.len() != 32 {
        return Err((Code::Invalid, "the nonce must be 32 bytes".into()));
    }
    if hello.reply_window < limits::REPLY_WINDOW_MIN {
        let why = format!(
            "the reply window must be at least {} bytes",
            limits::REPLY_WINDOW_MIN
        );
        return Err((Code::Invalid, why));
    }
    if !hello.volume.is_empty() && hello.volume != identity.volume[..] {
        let why = "this server belongs to another volume; check the address".to_owned();
        return Err((Code::WrongVolume, why));
    }
    let means = if door.came_locally { door.local } else { "" };
    if hello.local != means {
        let why = "it came another way than it says: somebody stands between client and server";
        return Err((Code::Invalid, why.into()));
    }
    match Role::try_from(hello.role) {
        Ok(role) if role != Role::Unspecified => Ok(role),
        _ => Err((Code::Invalid, "the client's role is unknown".into())),
    }
}

/// Tells a client that proved nothing yet that its place was given to another.
pub(crate) fn turn_away(queue: &SendQueue) -> String {
    let why = "too many connections to the server prove nothing; try again later".to_owned();
    refuse(queue, Kind::Hello, 0, Code::Busy, why)
}

fn answer(queue: &SendQueue, kind: Kind, id: u64, body: Vec<u8>) -> Result<(), String> {
    let flags = Flags::REPLY.with(Flags::LAST);
    let sent = queue.urgent(Message::bare(kind, flags, id, body), None, Sender::Crowd);
    sent.map_err(|_| "the client closed the connection".to_owned())
}

/// Says why, and returns it for the log.
fn refuse(queue: &SendQueue, kind: Kind, id: u64, code: Code, why: String) -> String {
    let body = Failure::new(code, why.clone()).encode_to_vec();
    let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    let _ = queue.urgent(Message::bare(kind, flags, id, body), None, Sender::Crowd);
    why
}

fn first(frame: &Frame, queue: &SendQueue) -> Result<Hello, String> {
    frame
        .request()
        .map_err(|e| refuse_garbage(queue, &ReadError::Frame(e)))
}

/// Whoever sends something else is told what this port is.
fn refuse_garbage(queue: &SendQueue, error: &ReadError) -> String {
    if let ReadError::Frame(_) = error {
        let why = "this port speaks Weft's protocol and nothing else".to_owned();
        refuse(queue, Kind::Hello, 0, Code::Version, why);
    }
    error.to_string()
}

/// The halves of a stream that was just accepted.
pub(crate) type Halves = (BoxRead, BoxWrite);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    }

    /// The example of `docs/protocol.md`, with which another implementation can check its proofs.
    #[test]
    fn the_page_shows_the_proofs_as_they_are() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let page = std::fs::read_to_string(page).unwrap();
        let value = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            bytes(line[name.len()..].trim())
        };
        let key = VolumeKey(value("key          ").try_into().unwrap());
        let (hello, challenge) = (value("hello        "), value("challenge    "));
        let client = keyed_over(&key, "weft client", &hello, &challenge);
        let server = keyed_over(&key, "weft server", &hello, &challenge);
        assert_eq!(client[..], value("proof C      "));
        assert_eq!(server[..], value("proof S      "));
        Hello::decode(&hello[..]).unwrap();
        Challenge::decode(&challenge[..]).unwrap();
    }
}
