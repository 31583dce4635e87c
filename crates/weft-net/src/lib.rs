//! Connections between Weft processes: handshake, framing, multiplexing, flow control
