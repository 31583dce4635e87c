#![allow(unsafe_code)] // A C interface is made of pointers whose validity only the caller knows.
#![allow(
    non_camel_case_types,
    reason = "the types have the names that C programs see"
)]
#![allow(
    clippy::cast_possible_wrap,
    reason = "no offset is larger than OFFSET_MAX, and no memory longer than isize::MAX"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the safety of every function is what its documentation in C says of its arguments"
)]
//! `libweft`: the client of a volume for C, and for all that can call C.
//!
//! Each function translates its arguments, calls `weft-client` and translates the outcome; nothing
//! is decided here. The header `include/weft.h` is generated from this crate (`tests/header.rs`),
//! so doc comments of what is exported speak to a C programmer.
//!
//! Invariants:
//! 1. A call never unwinds into C and never returns a positive number for a failure: a negative
//!    errno, and the reason in [`error::weft_error_message`].
//! 2. A handle is used only in the process that made it. After `fork` the child's copy is refused
//!    and never freed: its threads are in the parent.
//! 3. Memory that was lent to an operation in the background is not touched any more once its wait
//!    or its cancellation has returned.
//! 4. Structures of options begin with their size, so that programs and libraries of different
//!    versions understand each other.
//!
//! See `docs/design/0040-c-interface.md`. What is the same for every language is in `weft-ffi`.
//!
//! | module | what |
//! | --- | --- |
//! | `error.rs`, `runtime.rs` | failures; forks |
//! | `arguments.rs` | pointers, texts and structures of the caller |
//! | `volume.rs`, `names.rs`, `attributes.rs`, `quota.rs` | connections; names, attributes, quotas |
//! | `file.rs`, `checkpoint.rs`, `view.rs` | attached files and their views |
//! | `pattern.rs`, `request.rs`, `group.rs`, `pointer.rs` | what a call touches, with whom, and where |
//! | `operation.rs` | operations in the background |

mod arguments;
mod attributes;
mod checkpoint;
mod error;
mod file;
mod group;
mod names;
mod operation;
mod pattern;
mod pointer;
mod quota;
mod request;
mod runtime;
mod view;
mod volume;
