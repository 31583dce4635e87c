//! The client's side.

use bytes::Bytes;
use weft_proto::session::{Challenge, Hello, Proof, Welcome, Wire};
use weft_proto::{
    Call, Code, Failure, Flags, FrameError, VERSION, VERSION_OLDEST, prost::Message as _,
};

use super::proof::{NONCE_BYTES, client_proof, nonce, proofs_match, server_proof};
use super::protection_level;
use crate::env::Env;
use crate::error::{ConnectError, ReadError};
use crate::framing::{Frame, FrameReader, unexpected};
use crate::identity::Identity;
use crate::protection::Protection;
use crate::send_queue::{OutgoingFrame, SendMode, SendQueue};

/// What an authenticated server has said.
pub(crate) struct Greeting {
    pub welcome: Welcome,
    /// The server's local socket; empty: it has none.
    pub local: String,
    /// How frames are protected.
    pub wire: Wire,
}

/// The client's side of the handshake: returns what the server said once both proofs are checked.
/// `local` is the server's local socket, if the stream goes there.
pub(crate) async fn handshake_as_client(
    env: &Env,
    identity: &Identity,
    address: &str,
    local: Option<&str>,
    reply_window: u32,
    reader: &mut FrameReader,
    queue: &SendQueue,
) -> Result<Greeting, ConnectError> {
    let protocol = |reason: String| ConnectError::Protocol {
        address: address.to_owned(),
        reason,
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
    let answer = request::<Hello>(hello.clone(), 1, address, reader, queue).await?;
    let said = answer.body.clone();
    let challenge: Challenge = answer.body_as().map_err(|e| protocol(e.to_string()))?;
    if !(VERSION_OLDEST..=VERSION).contains(&challenge.version) {
        return Err(protocol(format!("it chose version {}", challenge.version)));
    }
    if challenge.nonce.len() != NONCE_BYTES {
        return Err(protocol("its nonce has the wrong length".into()));
    }
    if known && challenge.volume != identity.volume[..] {
        return Err(ConnectError::Refused {
            address: address.to_owned(),
            failure: Failure::new(Code::WrongVolume, "it serves another volume"),
        });
    }
    let wire = protection_level::accept(&challenge, identity.wire).map_err(|failure| {
        ConnectError::Refused {
            address: address.to_owned(),
            failure,
        }
    })?;
    let proof = client_proof(&identity.key, &hello, &said);
    let protection = Protection::new(&identity.key, (&hello, &said), wire, local.is_some());
    let (sealer, opener) = protection.map(|p| p.client_side(reader.pool())).unzip();
    // The welcome already has a tag.
    reader.open_with(opener);
    let proof = Proof {
        proof: Bytes::copy_from_slice(&proof),
    };
    let answer = request::<Proof>(proof.encode_to_vec(), 2, address, reader, queue).await?;
    let welcome: Welcome = answer.body_as().map_err(|e| protocol(e.to_string()))?;
    let expected = server_proof(&identity.key, &hello, &said);
    if !proofs_match(&welcome.proof, expected) {
        return Err(ConnectError::Impostor {
            address: address.to_owned(),
        });
    }
    if welcome.calls == 0 {
        return Err(protocol("it grants no calls".into()));
    }
    queue.protect(sealer);
    reader.authenticated();
    Ok(Greeting {
        welcome,
        local: challenge.local,
        wire,
    })
}

/// Sends one request of the handshake and returns the frame that answers it.
async fn request<C: Call>(
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
        OutgoingFrame::bare(C::KIND, Flags::LAST, id, body),
        None,
        SendMode::Queued,
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
