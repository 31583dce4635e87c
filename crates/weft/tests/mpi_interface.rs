//! MPI-IO: `mpiio/test`, with every MPI library that is installed.

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

#[test]
fn programs_on_mpi_io_work_with_every_mpi_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Cargo puts the library that is a dependency of this test beside it.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libweft.so");
    let folder = tempdir().unwrap();
    for name in ["libweft.so", "libweft.so.0"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    let output = Command::new(root.join("mpiio/test"))
        .env("WEFT", env!("CARGO_BIN_EXE_weft"))
        .env("WEFT_INCLUDE", root.join("crates/weft-c/include"))
        .env("WEFT_LIB", folder.path())
        .env("TMPDIR", folder.path())
        // Processes of MPICH spin while they wait: with few processors that takes long.
        .env("LIMIT", "180")
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    // What was skipped is said by name.
    eprintln!("{said}");
    assert!(
        output.status.success() && said.contains("all MPI-IO tests passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
