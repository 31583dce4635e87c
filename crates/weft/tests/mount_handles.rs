//! File handles: a mount can be exported, by NFS servers and by what else keeps handles of files.

mod mount_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mount_support::{Mounted, sh};

/// The program `tests/c/handles.c`.
struct Handles(PathBuf);

impl Handles {
    fn compiled(m: &Mounted) -> Handles {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/handles.c");
        let program = m.beside("programs").join("handles");
        let flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
        let status = Command::new("cc")
            .args(flags)
            .arg(source)
            .arg("-o")
            .arg(&program)
            .status()
            .expect("a C compiler: install gcc");
        assert!(status.success());
        Handles(program)
    }

    fn run(&self, words: &[&Path]) -> Result<String, String> {
        let output = Command::new(&self.0).args(words).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            Ok(said)
        } else {
            Err(said)
        }
    }

    fn of(&self, path: &Path) -> PathBuf {
        let handle = self.run(&[Path::new("name"), path]).unwrap();
        handle.trim().into()
    }
}

/// Has the kernel forget what no program uses, where it may be asked for that.
fn forget(m: &Mounted) {
    sh(&m.path, "echo 2 > /proc/sys/vm/drop_caches || true");
}

#[test]
fn handles_open_files_that_the_kernel_has_forgotten_also_after_another_mount() {
    let Some(m) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let handles = Handles::compiled(&m);
    fs::create_dir_all(m.file("a/b")).unwrap();
    fs::write(m.file("a/b/small"), "small").unwrap();
    let large = "large".repeat(100_000);
    fs::write(m.file("a/b/large"), &large).unwrap();
    let [small, big, directory] = ["a/b/small", "a/b/large", "a/b"].map(|p| handles.of(&m.file(p)));
    let open = |handle: &Path| handles.run(&[Path::new("open"), &m.path, handle]);
    for round in 0..3 {
        match round {
            0 => forget(&m),
            1 => {
                m.unmount();
                m.mount("");
            }
            _ => fs::rename(m.file("a/b"), m.file("moved")).unwrap(),
        }
        assert_eq!(open(&small).unwrap(), "small", "{round}");
        assert_eq!(open(&big).unwrap(), large, "{round}");
        let names = open(&directory).unwrap();
        let mut names: Vec<&str> = names.lines().collect();
        names.sort_unstable();
        assert_eq!(names, ["large", "small"], "{round}");
        forget(&m);
        let above = handles
            .run(&[Path::new("up"), &m.path, &directory])
            .unwrap();
        let expected: &[&str] = if round < 2 { &["b"] } else { &["a", "moved"] };
        let mut above: Vec<&str> = above.lines().collect();
        above.sort_unstable();
        assert_eq!(above, expected, "{round}");
    }
    // A file that is gone is stale, and stays so though another gets its name.
    fs::remove_file(m.file("moved/small")).unwrap();
    fs::write(m.file("moved/small"), "another").unwrap();
    forget(&m);
    let stale = open(&small).unwrap_err();
    assert!(stale.contains("Stale"), "{stale}");
}
