//! The C library: its tests and examples, compiled by the machine's compiler and run on a volume,
//! plainly and under the address sanitizer.

mod files_support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use files_support::{Volume, weft};
use tempfile::{TempDir, tempdir};

/// The sources and the library.
struct C {
    root: PathBuf,
    libraries: PathBuf,
    folder: TempDir,
}

impl C {
    fn new() -> C {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // Cargo puts the library that is a dependency of this test beside it.
        let test = std::env::current_exe().unwrap();
        let libraries = test.parent().unwrap().to_owned();
        let folder = tempdir().unwrap();
        let named = folder.path().join("libweft.so.0");
        std::os::unix::fs::symlink(libraries.join("libweft.so"), named).unwrap();
        C {
            root,
            libraries,
            folder,
        }
    }

    /// Compiles a program against the shared library.
    fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let shared = self.libraries.join("libweft.so");
        self.link(source, flags, &[shared.to_str().unwrap()])
    }

    fn link(&self, source: &str, flags: &[&str], libraries: &[&str]) -> PathBuf {
        let name = Path::new(source).file_stem().unwrap();
        let program = self.folder.path().join(name);
        let output = Command::new("cc")
            .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread"])
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(flags)
            .arg("-I")
            .arg(self.root.join("crates/weft-c/include"))
            .arg(self.root.join(source))
            .args(libraries)
            .arg("-o")
            .arg(&program)
            .output()
            .expect("a C compiler: install gcc");
        assert!(output.status.success(), "{}", said(&output));
        program
    }

    /// A command that finds the library and the volume.
    fn command(&self, program: impl AsRef<Path>, volume: &Volume) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("WEFT_VOLUME", volume.path("volume"));
        command
    }

    fn run(&self, program: impl AsRef<Path>, volume: &Volume, args: &[&str]) -> String {
        let output = self.command(program, volume).args(args).output().unwrap();
        assert!(
            output.status.success(),
            "{:?}: {}",
            output.status,
            said(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SANITIZED: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

#[test]
fn views_and_requests_move_the_bytes_that_they_name() {
    let c = C::new();
    c.run(
        c.compile("crates/weft/tests/c/requests.c", &[]),
        &Volume::up(),
        &[],
    );
}

#[test]
fn names_checkpoints_quotas_forks_and_locks_work_from_c() {
    let c = C::new();
    c.run(
        c.compile("crates/weft/tests/c/names.c", &[]),
        &Volume::up(),
        &[],
    );
}

#[test]
fn operations_groups_threads_signals_and_forks_work_from_c() {
    let c = C::new();
    c.run(
        c.compile("crates/weft/tests/c/operations.c", &[]),
        &Volume::up(),
        &[],
    );
}

#[test]
fn c_programs_access_no_memory_but_their_own_and_leak_none() {
    let (c, volume) = (C::new(), Volume::up());
    for program in ["requests", "names", "operations"] {
        let source = format!("crates/weft/tests/c/{program}.c");
        c.run(c.compile(&source, SANITIZED), &volume, &[]);
    }
}

/// Element (r, c) of a matrix of 6 columns is 6 r + c.
fn matrix(rows: u32) -> Vec<u8> {
    (0..6 * rows)
        .flat_map(|n| f64::from(n).to_le_bytes())
        .collect()
}

fn the_examples_do_what_they_say(flags: &[&str]) {
    let (c, volume) = (C::new(), Volume::up());
    let writer = c.compile("examples/c/collective_writer.c", flags);
    c.run(writer, &volume, &["/matrix", "3", "1000", "6"]);
    let written = volume.command(["cat", "/matrix"]).output().unwrap();
    assert!(written.stdout == matrix(1000));

    let reader = c.compile("examples/c/strided_reader.c", flags);
    let column = c.run(&reader, &volume, &["/matrix", "1000", "6", "4"]);
    let expected = (0..1000).map(|r| (6 * r + 4).to_string());
    assert!(column.lines().eq(expected), "{column}");
    let absent = c
        .command(reader, &volume)
        .args(["/none", "1", "1", "0"])
        .output()
        .unwrap();
    assert!(
        !absent.status.success() && said(&absent).contains("/none"),
        "{}",
        said(&absent)
    );

    let bytes: Vec<u8> = (0..9_000_000_u32).map(|n| (n % 251) as u8).collect();
    volume.feed("put /source", &bytes);
    let copier = c.compile("examples/c/async_copy.c", flags);
    c.run(copier, &volume, &["/source", "/target"]);
    let target = volume.command(["cat", "/target"]).output().unwrap();
    assert!(target.stdout == bytes);
}

#[test]
fn the_examples_in_c_do_what_they_say() {
    the_examples_do_what_they_say(&[]);
}

#[test]
fn the_examples_in_c_access_no_memory_but_their_own_and_leak_none() {
    the_examples_do_what_they_say(SANITIZED);
}

#[test]
fn a_program_runs_with_the_static_library() {
    let (c, volume) = (C::new(), Volume::up());
    let archive = c.libraries.join("libweft.a");
    let libraries = [archive.to_str().unwrap(), "-lpthread", "-ldl", "-lm"];
    let program = c.link("crates/weft/tests/c/requests.c", &[], &libraries);
    c.run(program, &volume, &[]);
}

#[test]
fn the_library_exports_nothing_but_its_interface() {
    let c = C::new();
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(c.libraries.join("libweft.so"))
        .output()
        .unwrap();
    let symbols = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|l| l.split(' ').nth(2))
        .collect();
    let header = std::fs::read_to_string(c.root.join("crates/weft-c/include/weft.h")).unwrap();
    assert!(names.len() > 80, "{symbols}");
    for name in names {
        assert!(name.starts_with("weft_"), "{name} is exported");
        assert!(
            header.contains(&format!("{name}(")),
            "{name} is not in the header"
        );
    }
}

/// The program on the page, as a reader of it would build it.
#[test]
fn the_first_program_of_the_guide_works() {
    let (c, volume) = (C::new(), Volume::up());
    let page = std::fs::read_to_string(c.root.join("docs/interfaces/c.md")).unwrap();
    let (_, code) = page.split_once("```c\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let source = c.folder.path().join("hello.c");
    std::fs::write(&source, code).unwrap();
    let program = c.compile(source.to_str().unwrap(), &[]);
    c.run(program, &volume, &[]);
    let hello = volume.command(["cat", "/hello"]).output().unwrap();
    assert_eq!(hello.stdout, b"hello");
}

/// Functions that the table and the guide name.
#[test]
fn the_pages_name_functions_that_are_there() {
    let c = C::new();
    let header = std::fs::read_to_string(c.root.join("crates/weft-c/include/weft.h")).unwrap();
    for page in ["docs/interfaces.md", "docs/interfaces/c.md"] {
        let text = std::fs::read_to_string(c.root.join(page)).unwrap();
        // Hints of MPI-IO have such names, too.
        let text = text.replace("hint `weft_", "hint `");
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let named: Vec<&str> = words
            .filter(|w| w.to_lowercase().starts_with("weft_"))
            .collect();
        assert!(named.len() > 10, "{page}");
        for name in named.iter().filter(|name| !name.starts_with("WEFT_VOLUME")) {
            assert!(header.contains(name), "{page}: {name}");
        }
    }
}

/// A server that dies in the middle ends the calls with errors, and its return the trouble.
#[test]
fn calls_end_with_errors_when_servers_are_gone() {
    let (c, volume) = (C::new(), Volume::up());
    let program = c.compile("crates/weft/tests/c/outage.c", &[]);
    let mut command = c.command(program, &volume);
    command.env("WEFT", weft().get_program());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
