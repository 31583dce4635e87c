//! Builds plug-ins.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../weft-policy")
}

/// Compiles a plug-in in C from `source` to `NAME.so` in `folder`, as a replacement that readers
/// see whole or not at all.
pub fn compile(folder: &Path, name: &str, source: &Path) {
    let new = folder.join(format!("{name}.so.new"));
    run(Command::new("cc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-shared",
            "-fPIC",
            "-I",
        ])
        .arg(package().join("include"))
        .arg("-o")
        .args([&new, source]));
    std::fs::rename(new, folder.join(format!("{name}.so"))).unwrap();
}

/// As [`compile`], of a text.
pub fn compile_text(folder: &Path, name: &str, text: &str) {
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, format!("#include \"weft_policy.h\"\n{text}")).unwrap();
    compile(folder, name, &source);
}

/// The source of an example.
pub fn example(name: &str) -> PathBuf {
    package().join("examples").join(name)
}

/// A plug-in in Rust, which is an example of `weft-policy`.
pub fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let profile = exe.ancestors().nth(2).unwrap();
    let library = profile.join(format!("examples/lib{name}.so"));
    if !library.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "-p", "weft-policy", "--examples"]);
        cargo.current_dir(package());
        cargo.env("CARGO_TARGET_DIR", profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        run(&mut cargo);
    }
    library
}
