//! All tests of the namespace in one program: linking one for each file took most of the time of a
//! build.

#[macro_use]
mod common;
mod oracle;
#[path = "../../weft-store/tests/golden/packed.rs"]
mod packed;
mod quotas;

mod acl;
mod crash;
mod differential;
mod fsck;
mod full;
mod golden;
mod images;
mod inline;
mod intents;
mod locks;
mod open_files;
mod parity;
mod posix;
mod rename;
mod trees;
mod volume;
