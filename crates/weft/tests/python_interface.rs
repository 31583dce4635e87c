//! The Python package: its own tests, run by pytest on a volume.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

/// The Python that has what the tests need: `WEFT_PYTHON`, which `./check` sets.
fn python() -> PathBuf {
    std::env::var_os("WEFT_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// Copies a folder of sources.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_file() {
            std::fs::copy(&path, to.join(name)).unwrap();
        } else if name != "__pycache__" {
            copy(&path, &to.join(name));
        }
    }
}

#[test]
fn the_tests_of_the_python_package_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weft-python");
    let site = tempdir().unwrap();
    let package = site.path().join("weft");
    copy(&root.join("python/weft"), &package);
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
