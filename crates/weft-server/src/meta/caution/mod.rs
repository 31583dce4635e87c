//! Forces caution where two applications have a file open and one of them writes it (Vesta §4.3).
//!
//! Owns the list of these files ([`ForcedFiles`]), in memory: clients compare anew when they
//! attach, and servers remember for a minute.

mod files;
mod force;

pub(super) use files::ForcedFiles;
