//! Agreement on how frames are protected.

use weft_proto::session::{Challenge, Hello, Wire};
use weft_proto::{Code, Failure};

/// The server's choice: as it is configured, or better if the client asks for it.
pub(super) fn choose(hello: &Hello, least: Wire) -> Result<Wire, (Code, String)> {
    // A level that only a newer client knows is above all levels known here.
    let most = Wire::try_from(hello.wire_most).unwrap_or(Wire::MOST);
    let why = match Wire::try_from(hello.wire_least) {
        Ok(theirs) if theirs.max(least) <= most => return Ok(theirs.max(least)),
        Ok(_) => format!(
            "this server has wire = \"{least}\", and the client speaks \"{most}\" at most; install the same release on both, or \
             have the volume's administrator set wire"
        ),
        Err(_) => format!(
            "this server speaks wire = \"{}\" at most, and the client asks for more; install the same release on both",
            Wire::MOST
        ),
    };
    Err((Code::Version, why))
}

/// Checks the server's choice: never less than `least`, whatever the server said.
pub(super) fn accept(challenge: &Challenge, least: Wire) -> Result<Wire, Failure> {
    let why = match Wire::try_from(challenge.wire) {
        Ok(wire) if wire >= least => return Ok(wire),
        Ok(wire) => format!(
            "the server chose wire = \"{wire}\", and this side requires \"{least}\" at least; set the same on both, or \
             install the same release"
        ),
        Err(_) => format!(
            "the server chose a protection of frames that this side does not know (it knows up to \"{}\"); install the same \
             release on both",
            Wire::MOST
        ),
    };
    Err(Failure::new(Code::Version, why))
}
