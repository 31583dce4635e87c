//! Hello, challenge, proof, welcome: both sides prove the volume's key without sending it.
//!
//! Each proof is a BLAKE3 keyed hash over hello and challenge, nonces included, so that no message
//! can be replayed, reflected or downgraded. The server proves the key only to a client that has
//! proven it. From the same bytes both sides derive the keys that protect the frames that follow,
//! the first of which is the server's welcome.

mod client;
mod proof;
mod protection_level;
mod server;

pub(crate) use client::{Greeting, handshake_as_client};
pub(crate) use server::{Arrival, AuthenticatedClient, evict, handshake_as_server};
