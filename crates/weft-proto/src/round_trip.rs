//! Decoding followed by encoding, the form in which decoders are fuzzed.

use prost::Message;

/// Decodes bytes and encodes the value again; `None`: the decoder refused the bytes.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// The [`Decoder`] of a message.
pub(crate) fn round_trip<M: Message + Default>(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(M::decode(bytes).ok()?.encode_to_vec())
}
