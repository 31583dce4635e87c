//! The Python package: its own tests, run by pytest on a volume.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

/// The Python that has what the tests need: `WEFT_PYTHON`, which `./check` sets.
fn python() -> PathBuf {
    std::env::var_os("WEFT_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weft-python");
    let site = tempdir().unwrap();
    let package = site.path().join("weft");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(root.join("python/weft")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, package.join(path.file_name().unwrap())).unwrap();
        }
    }
    // Cargo puts the library that is a dependency of this test beside it.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libweft_python.so");
    std::fs::copy(library, package.join("_weft.abi3.so")).unwrap();
    let output = Command::new(python())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
        .current_dir(&root)
        .env("PYTHONPATH", site.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WEFT", env!("CARGO_BIN_EXE_weft"))
        .output()
        .expect("Python with pytest: ./check installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(" passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
