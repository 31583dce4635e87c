//! The header is what the library exports, and compilers take it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// With `WEFT_BLESS=1` the header is written anew.
#[test]
fn the_header_is_generated_from_the_library() {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(root())
        .with_config(config)
        .generate()
        .unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let path = root().join("include/weft.h");
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read(&path).unwrap();
    assert!(
        committed == generated,
        "include/weft.h is outdated: run WEFT_BLESS=1 cargo test -p weft-c --test header"
    );
}

fn compile(compiler: &str, standard: &str, file: &Path) {
    let folder = tempdir().unwrap();
    let output = Command::new(compiler)
        .args([
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-c",
            "-I",
        ])
        .arg(root().join("include"))
        .arg("-o")
        .arg(folder.path().join("out.o"))
        .arg(file)
        .output()
        .unwrap_or_else(|e| panic!("cannot run {compiler}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {standard}: {said}");
}

#[test]
fn c99_and_cpp17_compile_the_header_without_a_warning() {
    let folder = tempdir().unwrap();
    for (compiler, standard, name) in [
        ("cc", "-std=c99", "header.c"),
        ("cc", "-std=c11", "header.c"),
        ("c++", "-std=c++17", "header.cpp"),
    ] {
        let file = folder.path().join(name);
        let program = "#include <weft.h>\n#include <weft.h>\nint main(void) { return weft_version() == 0; }\n";
        std::fs::write(&file, program).unwrap();
        compile(compiler, standard, &file);
    }
}

#[test]
fn every_function_is_documented_in_the_header() {
    let header = std::fs::read_to_string(root().join("include/weft.h")).unwrap();
    let lines: Vec<&str> = header.lines().collect();
    let mut functions = 0;
    for (i, line) in lines.iter().enumerate() {
        if line.starts_with(' ')
            || line.starts_with("//")
            || !line.contains(" weft_")
            || !line.contains('(')
            || line.starts_with("typedef")
            || line.starts_with(" *")
        {
            continue;
        }
        functions += 1;
        assert!(lines[i - 1].starts_with("//"), "undocumented: {line}");
    }
    assert!(functions > 80, "{functions}");
}
