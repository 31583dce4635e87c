//! Nonces and proofs.

use bytes::Bytes;

use crate::env::Env;
use crate::identity::VolumeKey;

pub(super) const NONCE_BYTES: usize = 32;

pub(super) fn nonce(env: &Env) -> Bytes {
    let mut bytes = [0; NONCE_BYTES];
    env.entropy.fill(&mut bytes);
    Bytes::copy_from_slice(&bytes)
}

/// The client's proof that it holds the key.
pub(super) fn client_proof(key: &VolumeKey, hello: &[u8], challenge: &[u8]) -> [u8; 32] {
    key.hash_transcript("weft client", hello, challenge)
}

/// The server's proof that it holds the key.
pub(super) fn server_proof(key: &VolumeKey, hello: &[u8], challenge: &[u8]) -> [u8; 32] {
    key.hash_transcript("weft server", hello, challenge)
}

/// Compares as BLAKE3 hashes, which takes the same time wherever the two differ.
pub(super) fn proofs_match(found: &[u8], expected: [u8; 32]) -> bool {
    <[u8; 32]>::try_from(found)
        .is_ok_and(|found| blake3::Hash::from(found) == blake3::Hash::from(expected))
}

#[cfg(test)]
mod tests {
    use weft_proto::prost::Message as _;
    use weft_proto::session::{Challenge, Hello};

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    }

    /// Checks the example of `docs/protocol.md`, against which another implementation can verify
    /// its proofs.
    #[test]
    fn the_proofs_of_protocol_md_are_correct() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let page = std::fs::read_to_string(page).unwrap();
        let value = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            bytes(line[name.len()..].trim())
        };
        let key = VolumeKey(value("key          ").try_into().unwrap());
        let (hello, challenge) = (value("hello        "), value("challenge    "));
        let client = client_proof(&key, &hello, &challenge);
        let server = server_proof(&key, &hello, &challenge);
        assert_eq!(client[..], value("proof C      "));
        assert_eq!(server[..], value("proof S      "));
        Hello::decode(&hello[..]).unwrap();
        Challenge::decode(&challenge[..]).unwrap();
    }
}
