//! All tests of the network in one program: linking one for each file took most of the time of a
//! build.

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
