//! Parity of quiet files (`docs/design/0050-parity.md`).
//!
//! Owns no state but what its task remembers of files whose backups were told. The server of slot
//! 0 codes a file: `task` finds the files, `file` codes one; `calls` serves the steps on the other
//! servers. Invariant: backups are told to drop blocks only when all pieces are on stable storage
//! and the file's record says so.

mod calls;
mod file;
mod task;

pub(crate) use task::code_quiet_files;
