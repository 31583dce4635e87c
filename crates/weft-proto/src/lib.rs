//! Weft's wire messages: bytes to values and back
