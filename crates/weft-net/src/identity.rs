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
    /// Its process, if that is on this machine and visible from here.
    pub process: Option<u32>,
}

impl Peer {
    /// Whether its process is known to have ended, so that it never comes back. A process that has
    /// got the same number since counts as alive.
    pub fn has_died(&self) -> bool {
        self.process.is_some_and(|process| !is_alive(process))
    }
}

/// A process that has ended and was not waited for yet is as dead as one that is not there.
fn is_alive(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        // Without /proc nothing is known.
        return !std::path::Path::new("/proc/self/stat").exists();
    };
    // Behind the name, which may hold anything: the state.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    !state.is_some_and(|state| state.starts_with(['Z', 'X']))
}
