//! Hello, challenge, proof, welcome: both sides prove the volume's key without sending it.
//!
//! Each proof is a BLAKE3 keyed hash over everything both sides said, nonces included, so that no message can be
//! replayed, reflected or downgraded. The server proves itself only to a client that has proven itself.

use std::fmt;

use bytes::Bytes;
use weft_proto::session::{Challenge, Hello, Proof, Role, Welcome};
use weft_proto::{
    Call, Code, Failure, Flags, FrameError, Kind, VERSION, VERSION_OLDEST, prost::Message,
};

use crate::env::{BoxRead, BoxWrite, Env};
use crate::error::{ConnectError, ReadError};
use crate::frames::{Frame, FrameReader, unexpected};
use crate::queue::SendQueue;
use crate::server::Bounds;

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

fn proof(key: &VolumeKey, side: &str, hello: &Hello, challenge: &Challenge) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(side.as_bytes());
    for said in [hello.encode_to_vec(), challenge.encode_to_vec()] {
        hasher.update(&(said.len() as u64).to_le_bytes());
        hasher.update(&said);
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

/// Client side: returns the server's welcome once both proofs are checked.
pub(crate) async fn introduce(
    env: &Env,
    identity: &Identity,
    address: &str,
    reply_window: u32,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<Welcome, ConnectError> {
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
    };
    let challenge: Challenge = ask(&hello, 1, address, reader, queue).await?;
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
    let mine = proof(&identity.key, "weft client", &hello, &challenge);
    let welcome: Welcome = ask(
        &Proof {
            proof: Bytes::copy_from_slice(&mine),
        },
        2,
        address,
        reader,
        queue,
    )
    .await?;
    if !same(
        &welcome.proof,
        proof(&identity.key, "weft server", &hello, &challenge),
    ) {
        return Err(ConnectError::Impostor {
            address: address.to_owned(),
        });
    }
    Ok(welcome)
}

async fn ask<C: Call>(
    request: &C,
    id: u64,
    address: &str,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<C::Reply, ConnectError> {
    let protocol = |e: &dyn fmt::Display| ConnectError::Protocol {
        address: address.to_owned(),
        reason: e.to_string(),
    };
    queue
        .send_now(C::KIND, Flags::LAST, id, request.encode_to_vec())
        .map_err(|_| protocol(&"it closed the connection"))?;
    let frame = reader.next().await.map_err(|e| protocol(&e))?;
    if frame.header.flags.has(Flags::FAILED) {
        let failure: Failure = frame.body_as().map_err(|e| protocol(&e))?;
        return Err(ConnectError::Refused {
            address: address.to_owned(),
            failure,
        });
    }
    if frame.header.kind != C::KIND || frame.header.request != id {
        return Err(protocol(&unexpected(frame.header.kind, C::KIND)));
    }
    frame.body_as().map_err(|e| protocol(&e))
}

/// Server side: returns who the client is, and what it may have in flight of one reply.
pub(crate) async fn receive(
    env: &Env,
    identity: &Identity,
    server: Option<u32>,
    bounds: &Bounds,
    address: String,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<(Peer, u32), String> {
    let frame = reader.next().await.map_err(|e| refuse_garbage(queue, &e))?;
    let hello: Hello = first(&frame, queue)?;
    let refuse = |kind: Kind, id: u64, code: Code, why: String| {
        let body = Failure::new(code, why.clone()).encode_to_vec();
        let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
        let _ = queue.send_now(kind, flags, id, body);
        why
    };
    let answer = |kind, id, body| {
        queue
            .send_now(kind, Flags::REPLY.with(Flags::LAST), id, body)
            .map_err(|_| gone())
    };
    let id = frame.header.request;
    if hello.version_newest < VERSION_OLDEST || hello.version_oldest > VERSION {
        let why = format!(
            "this server speaks versions {VERSION_OLDEST} to {VERSION} of Weft's protocol, the client {} to {}; \
             install the same release on both",
            hello.version_oldest, hello.version_newest
        );
        return Err(refuse(Kind::Hello, id, Code::Version, why));
    }
    if hello.nonce.len() != 32 {
        return Err(refuse(
            Kind::Hello,
            id,
            Code::Invalid,
            "the nonce must be 32 bytes".into(),
        ));
    }
    if !hello.volume.is_empty() && hello.volume != identity.volume[..] {
        let why = "this server belongs to another volume; check the address".to_owned();
        return Err(refuse(Kind::Hello, id, Code::WrongVolume, why));
    }
    let Some(role) = Role::try_from(hello.role)
        .ok()
        .filter(|r| *r != Role::Unspecified)
    else {
        return Err(refuse(
            Kind::Hello,
            id,
            Code::Invalid,
            "the client's role is unknown".into(),
        ));
    };
    let challenge = Challenge {
        version: VERSION.min(hello.version_newest),
        nonce: nonce(env),
        volume: Bytes::copy_from_slice(&identity.volume),
    };
    answer(Kind::Hello, id, challenge.encode_to_vec())?;
    let frame = reader.next().await.map_err(|e| e.to_string())?;
    let given: Proof = frame.request().map_err(|e| e.to_string())?;
    let id = frame.header.request;
    if !same(
        &given.proof,
        proof(&identity.key, "weft client", &hello, &challenge),
    ) {
        let why = "the key is wrong: use the volume.key of this volume".to_owned();
        return Err(refuse(Kind::Proof, id, Code::Unauthenticated, why));
    }
    let mine = proof(&identity.key, "weft server", &hello, &challenge);
    let welcome = Welcome {
        proof: Bytes::copy_from_slice(&mine),
        server,
        window: bounds.window,
        calls: bounds.calls,
    };
    answer(Kind::Proof, id, welcome.encode_to_vec())?;
    Ok((
        Peer {
            address,
            role,
            client: hello.client,
        },
        hello.reply_window,
    ))
}

fn gone() -> String {
    "the client closed the connection".to_owned()
}

fn first(frame: &Frame, queue: &SendQueue) -> Result<Hello, String> {
    frame
        .request()
        .map_err(|e| refuse_garbage(queue, &ReadError::Frame(e)))
}

/// Whoever sends something else is told what this port is.
fn refuse_garbage(queue: &SendQueue, error: &ReadError) -> String {
    if let ReadError::Frame(FrameError::Magic(_) | FrameError::Kind(_) | FrameError::Body { .. }) =
        error
    {
        let failure = Failure::new(
            Code::Version,
            "this port speaks Weft's protocol and nothing else",
        );
        let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
        let _ = queue.send_now(Kind::Hello, flags, 0, failure.encode_to_vec());
    }
    error.to_string()
}

/// The halves of a stream that was just opened.
pub(crate) type Halves = (BoxRead, BoxWrite);
