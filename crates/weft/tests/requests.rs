//! `docs/requests.md`: every example on the page works as documented, and malformed requests
//! explain why.

mod files_support;

use std::path::Path;
use std::process::{Command, Stdio};

use files_support::{Volume, weft};

/// The page's examples: a shell command and its output.
fn examples() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/requests.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            console = line == "```console";
        } else if console && let Some(command) = line.strip_prefix("$ ") {
            examples.push((command.to_owned(), String::new()));
        } else if console && let Some((_, output)) = examples.last_mut() {
            output.push_str(line);
            output.push('\n');
        }
    }
    examples
}

#[test]
fn the_examples_of_the_page_work_as_documented() {
    let volume = Volume::up();
    let binary = weft().get_program().to_owned();
    let folder = Path::new(&binary).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let examples = examples();
    assert!(
        examples.len() > 15,
        "the page has {} examples",
        examples.len()
    );
    for (command, expected) in examples {
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("WEFT_VOLUME", volume.path("volume"))
            .env("PATH", &path)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim_end(), expected.trim_end(), "{command}");
    }
}

#[test]
fn malformed_requests_explain_why() {
    let volume = Volume::up();
    volume.feed("put /file", b"some bytes");
    for (line, word) in [
        ("read /file 5/", "too early"),
        ("read /file", "PATTERN"),
        ("read /file 2/-5x3", "from -10 to 2"),
        ("read /file 2 --length 5", "--length"),
        ("read /file 4 --memory 5", "must be equal"),
        (
            "read /file 4 --memory 2/1x2",
            "touches byte 1 more than once",
        ),
        ("read /file --slab 0:3", "--array"),
        (
            "read /file --slab 0:3 --array u8x",
            "is not an array description",
        ),
        ("write /file 3", "nothing was written"),
    ] {
        let output = volume
            .command(line.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!output.status.success(), "{line}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(word), "{line}: {error}");
    }
}
