#![allow(unsafe_code)] // Buffers of Python are pointers whose validity their exporter promises.
#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments of Python arrive as values"
)]
//! The native half of the Python package `weft`: its module `weft._weft`.
//!
//! Each class translates its arguments, calls `weft-client` and translates the outcome. What is
//! convenient in Python and needs nothing native (arrays, fsspec, asyncio, PyTorch) is Python, in
//! `python/weft/`. `_weft.pyi` documents every class and function for Python programmers.
//!
//! Invariants:
//! 1. The interpreter's lock is released while a call waits, and signals end the wait.
//! 2. Every failure is an `OSError` with errno, reason and file; arguments that no call can use are
//!    a `ValueError` or a `TypeError`.
//! 3. A handle works in a process that inherited it by `fork`: it connects and attaches again there
//!    ([`per_process`]).
//! 4. Buffers of Python stay exported as long as a call or an operation may touch their memory.
//!
//! See `docs/design/0043-python.md`.
//!
//! | module | what |
//! | --- | --- |
//! | `errors.rs`, `waiting.rs` | failures as exceptions; calls that wait |
//! | `buffer.rs`, `per_process.rs` | memory of Python; handles after a fork |
//! | `volume.rs`, `names.rs`, `stat.rs`, `checkpoints.rs`, `quotas.rs` | connections, and what is asked by path |
//! | `file.rs`, `view.rs`, `requests.rs` | attached files, their views, structured requests |
//! | `pattern.rs`, `group.rs`, `pointer.rs` | what a call touches, with whom, and where |
//! | `operation.rs` | operations in the background |

mod buffer;
mod checkpoints;
mod errors;
mod file;
mod group;
mod names;
mod operation;
mod pattern;
mod per_process;
mod pointer;
mod quotas;
mod requests;
mod stat;
mod view;
mod volume;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<volume::Volume>()?;
    module.add_class::<file::File>()?;
    module.add_class::<view::View>()?;
    module.add_class::<pattern::Pattern>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<pointer::SharedPointer>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<stat::Stat>()?;
    module.add_class::<stat::Entry>()?;
    module.add_class::<checkpoints::Checkpoint>()?;
    module.add_class::<quotas::Quota>()?;
    module.add_function(wrap_pyfunction!(operation::wait_any, module)?)?;
    Ok(())
}
