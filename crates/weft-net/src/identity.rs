//! The identity of a process: the volume's key that it proves, and what it says of itself.

use std::fmt;

use weft_proto::session::{Role, Wire};

/// The volume's key: 32 secret bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey(pub [u8; 32]);

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(secret)")
    }
}

impl VolumeKey {
    /// The keyed hash over the bodies of hello and challenge, separated by `label`.
    ///
    /// It covers the bytes as they were sent, not as they were understood, so that fields which
    /// only a newer peer knows count, too.
    pub(crate) fn hash_transcript(&self, label: &str, hello: &[u8], challenge: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(label.as_bytes());
        for body in [hello, challenge] {
            hasher.update(&(body.len() as u64).to_le_bytes());
            hasher.update(body);
        }
        *hasher.finalize().as_bytes()
    }
}

/// The identity of a process that opens or accepts connections.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Proven at connect.
    pub key: VolumeKey,
    /// The volume's id; all zeros for a client that does not know it yet.
    pub volume: [u8; 16],
    /// The role in which it connects.
    pub role: Role,
    /// Its number as a client: random, the same on all its connections.
    pub client: u64,
    /// The least protection of frames that it accepts, as client and as server.
    pub wire: Wire,
}

/// The peer of an accepted connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it connected from.
    pub address: String,
    /// Its role.
    pub role: Role,
    /// Its number as a client.
    pub client: u64,
}
