//! The server's side.

use bytes::Bytes;
use weft_proto::session::{Challenge, Hello, Proof, Role, Welcome};
use weft_proto::{
    Code, Failure, Flags, Kind, VERSION, VERSION_OLDEST, limits, prost::Message as _,
};

use super::proof::{NONCE_BYTES, client_proof, nonce, proofs_match, server_proof};
use super::protection_level;
use crate::admission::{Admission, ConnectionGrant, PendingSlot};
use crate::env::Env;
use crate::error::ReadError;
use crate::framing::{Frame, FrameReader};
use crate::identity::{Identity, Peer};
use crate::protection::Protection;
use crate::send_queue::{OutgoingFrame, SendMode, SendQueue};

/// How a connection came to a server.
pub(crate) struct Arrival<'a> {
    /// Where it comes from.
    pub address: &'a str,
    /// The server's local socket; empty: it has none.
    pub local: &'a str,
    /// Whether it came through that.
    pub came_locally: bool,
    /// The process that it comes from, if that is known.
    pub process: Option<u32>,
    /// Its slot until it is authenticated.
    pub slot: &'a PendingSlot,
}

/// A client that has proven the key, and what it was granted.
pub(crate) struct AuthenticatedClient {
    pub peer: Peer,
    /// Payload bytes of one reply that may be in flight to it.
    pub reply_window: u32,
    pub grant: ConnectionGrant,
}

/// The server's side of the handshake: returns the client and what it was granted, or why it was
/// refused.
pub(crate) async fn handshake_as_server(
    env: &Env,
    identity: &Identity,
    (server, incarnation): (Option<u32>, u64),
    admission: &Admission,
    arrival: Arrival<'_>,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<AuthenticatedClient, String> {
    let frame = reader.next().await.map_err(|e| refuse_garbage(queue, &e))?;
    let hello = first(&frame, queue)?;
    let id = request_id(&frame, queue)?;
    arrival.slot.said_hello();
    let checked = check(&hello, identity, &arrival);
    let checked =
        checked.and_then(|role| Ok((role, protection_level::choose(&hello, identity.wire)?)));
    let (role, wire) = match checked {
        Ok(checked) => checked,
        Err((code, why)) => return Err(refuse(queue, Kind::Hello, id, code, why)),
    };
    let challenge = Challenge {
        version: VERSION.min(hello.version_newest),
        nonce: nonce(env),
        volume: Bytes::copy_from_slice(&identity.volume),
        local: arrival.local.to_owned(),
        wire: wire as i32,
    };
    let said = challenge.encode_to_vec();
    answer(queue, Kind::Hello, id, said.clone())?;
    let given = reader.next().await.map_err(|e| e.to_string())?;
    let id = request_id(&given, queue)?;
    let given: Proof = given.request().map_err(|e| e.to_string())?;
    let expected = client_proof(&identity.key, &frame.body, &said);
    if !proofs_match(&given.proof, expected) {
        let why = "the key is wrong: use the volume.key of this volume (or the handshake was changed on the way)";
        let why = why.to_owned();
        return Err(refuse(queue, Kind::Proof, id, Code::Unauthenticated, why));
    }
    let Some(grant) = admission.authenticate() else {
        let why = "the server has as many connections as it may have; try again later".to_owned();
        return Err(refuse(queue, Kind::Proof, id, Code::Busy, why));
    };
    let proof = server_proof(&identity.key, &frame.body, &said);
    let welcome = Welcome {
        proof: Bytes::copy_from_slice(&proof),
        server,
        window: grant.window(),
        calls: grant.calls(),
        incarnation,
    };
    let both = (&frame.body[..], &said[..]);
    let protection = Protection::new(&identity.key, both, wire, arrival.came_locally);
    let (sealer, opener) = protection.map(|p| p.server_side(reader.pool())).unzip();
    reader.open_with(opener);
    reader.authenticated();
    queue.protect(sealer);
    answer(queue, Kind::Proof, id, welcome.encode_to_vec())?;
    let peer = Peer {
        address: arrival.address.to_owned(),
        role,
        client: hello.client,
        process: arrival.process,
    };
    Ok(AuthenticatedClient {
        peer,
        reply_window: hello.reply_window,
        grant,
    })
}

/// The request id of a frame of the handshake, which must be a whole request.
fn request_id(frame: &Frame, queue: &SendQueue) -> Result<u64, String> {
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

/// Checks a hello before the challenge.
fn check(
    hello: &Hello,
    identity: &Identity,
    arrival: &Arrival<'_>,
) -> Result<Role, (Code, String)> {
    if hello.version_newest < VERSION_OLDEST || hello.version_oldest > VERSION {
        let why = format!(
            "this server speaks versions {VERSION_OLDEST} to {VERSION} of Weft's protocol, the client {} to {}; \
             install the same release on both",
            hello.version_oldest, hello.version_newest
        );
        return Err((Code::Version, why));
    }
    if hello.nonce.len() != NONCE_BYTES {
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
    let expected = if arrival.came_locally {
        arrival.local
    } else {
        ""
    };
    if hello.local != expected {
        let why = "it came another way than it says: something relays between client and server";
        return Err((Code::Invalid, why.into()));
    }
    match Role::try_from(hello.role) {
        Ok(role) if role != Role::Unspecified => Ok(role),
        _ => Err((Code::Invalid, "the client's role is unknown".into())),
    }
}

/// Tells a client that its slot was given to another connection before the handshake ended.
pub(crate) fn evict(queue: &SendQueue) -> String {
    let why = "too many unauthenticated connections to the server; try again later".to_owned();
    refuse(queue, Kind::Hello, 0, Code::Busy, why)
}

fn answer(queue: &SendQueue, kind: Kind, id: u64, body: Vec<u8>) -> Result<(), String> {
    let flags = Flags::REPLY.with(Flags::LAST);
    let sent = queue.urgent(
        OutgoingFrame::bare(kind, flags, id, body),
        None,
        SendMode::Queued,
    );
    sent.map_err(|_| "the client closed the connection".to_owned())
}

/// Tells the client why, and returns it for the log.
fn refuse(queue: &SendQueue, kind: Kind, id: u64, code: Code, why: String) -> String {
    let body = Failure::new(code, why.clone()).encode_to_vec();
    let flags = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    let _ = queue.urgent(
        OutgoingFrame::bare(kind, flags, id, body),
        None,
        SendMode::Queued,
    );
    why
}

/// The hello, or why the first frame is none.
fn first(frame: &Frame, queue: &SendQueue) -> Result<Hello, String> {
    frame
        .request()
        .map_err(|e| refuse_garbage(queue, &ReadError::Frame(e)))
}

/// Tells a peer that speaks another protocol what this port is.
fn refuse_garbage(queue: &SendQueue, error: &ReadError) -> String {
    if let ReadError::Frame(_) = error {
        let why = "this port speaks Weft's protocol and nothing else".to_owned();
        refuse(queue, Kind::Hello, 0, Code::Version, why);
    }
    error.to_string()
}
