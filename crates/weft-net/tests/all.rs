//! All network tests in one program: linking one program per file took most of the build time.

mod common;

mod brief_calls;
mod calls;
mod cancel;
mod download;
mod flood;
mod garbage;
mod greedy;
mod handshake;
mod local;
mod loss;
mod tamper;
mod upload;
mod wakers;
