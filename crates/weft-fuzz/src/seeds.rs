//! Valid bytes, from where they are fixed for ever: the documents and the tests of golden bytes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weft_proto::io::{Access, Contiguous, Grid, Partition, Pattern, PatternKind, View, ViewKind};
use weft_proto::prost::Message;
use weft_proto::{Flags, Header, Kind, meta};

use crate::mutate::sealed;

/// Golden bytes of the store, by name.
const FORMAT: &str = include_str!("../../../docs/format.md");
/// Folders of tests with golden bytes of records and messages, among other things.
const GOLDEN: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weft-meta/tests"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weft-proto/tests"),
];
/// The folder of the golden bytes of messages: a folder for each family, a file for each message.
const MESSAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../weft-proto/tests/golden");

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    let digits = digits.filter(|d| !d.is_empty() && d.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
}

/// All of them, whatever decodes them.
pub(crate) fn all() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(gather)
}

/// What a folder beside this crate holds.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).expect("the tests are beside this crate");
    entries.map(|entry| entry.expect("the folder can be listed").path())
}

/// The texts of these files with the extension `extension`.
fn texts(
    files: impl Iterator<Item = PathBuf>,
    extension: &'static str,
) -> impl Iterator<Item = String> {
    let files = files.filter(move |path| path.extension().is_some_and(|e| e == extension));
    files.map(|path| std::fs::read_to_string(path).expect("a test is text"))
}

/// The texts of the tests with golden bytes.
fn sources() -> impl Iterator<Item = String> {
    let folders = GOLDEN.iter().map(Path::new);
    texts(folders.flat_map(entries), "rs")
}

/// The bytes of every message. Behind a `#` stands what the bytes mean.
fn messages() -> impl Iterator<Item = Vec<u8>> {
    let families = entries(Path::new(MESSAGES)).filter(|path| path.is_dir());
    let texts = texts(families.flat_map(|family| entries(&family)), "txt");
    texts.filter_map(|text| {
        let digits = text.lines().filter_map(|line| line.split('#').next());
        from_hex(&digits.collect::<String>())
    })
}

fn gather() -> Vec<Vec<u8>> {
    let mut seeds = vec![watermark(), batch(), frame(), sealed(vec![1, 2, 3])];
    seeds.extend(parameters());
    for line in FORMAT.lines() {
        let Some(bytes) = line.split_once(": ").and_then(|(_, hex)| from_hex(hex)) else {
            continue;
        };
        // An item of the log is valid behind the time of a body.
        seeds.push([&[1, 0, 0, 0, 0, 0, 0, 0], &bytes[..]].concat());
        seeds.push(bytes);
    }
    for text in sources() {
        // Every other part lies between quotation marks.
        let quoted = text.split('"').skip(1).step_by(2);
        seeds.extend(quoted.filter_map(|text| from_hex(&text.replace('\\', ""))));
    }
    seeds.extend(messages());
    seeds.sort();
    seeds.dedup();
    seeds
}

fn watermark() -> Vec<u8> {
    let number = 40_u64;
    [
        &b"WfS\x01"[..],
        &number.to_le_bytes(),
        &(!number).to_le_bytes(),
    ]
    .concat()
}

/// A batch of one item, as fjall writes it.
fn batch() -> Vec<u8> {
    let mut bytes = vec![1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([
        2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0,
    ]);
    bytes.extend(b"kvv");
    bytes.push(3);
    // XXH3 of the item: `the_checksum_covers_the_items`.
    bytes.extend(0x6650_f84e_a289_5309_u64.to_le_bytes());
    bytes.extend(b"FJL\x03");
    bytes
}

fn frame() -> Vec<u8> {
    let (body, payload) = (&b"body"[..], b"payload");
    let parts = [payload.to_vec().into()];
    let header = Header::encode(Kind::Write, Flags::LAST, 7, body, &parts);
    [&header, body, payload].concat()
}

/// What goes through conversions.
fn parameters() -> Vec<Vec<u8>> {
    let grid = Grid {
        cells: 6,
        bsu: 4096,
        servers: 4,
    };
    let view = |kind| View { kind: Some(kind) };
    let partition = view(ViewKind::Partition(Partition {
        offset: 5,
        group: 3,
        stride: 10,
    }));
    let pattern = Pattern {
        kind: Some(PatternKind::Contiguous(Contiguous {
            offset: 1 << 40,
            length: 1_000_000,
        })),
    };
    let access = Access {
        file: 77,
        grid,
        view: partition,
        pattern: pattern.clone(),
        slot: 1,
        fork: "data".to_owned(),
        epoch: 1,
        checkpoint: 0,
    };
    let layout = meta::Layout {
        cells: 4,
        bsu: 65_536,
        chunk: 262_144,
        servers: vec![3, 1, 300],
        storage: 0,
        parity: 0,
    };
    vec![
        grid.encode_to_vec(),
        partition.encode_to_vec(),
        view(ViewKind::Cell(3)).encode_to_vec(),
        pattern.encode_to_vec(),
        access.encode_to_vec(),
        layout.encode_to_vec(),
    ]
}
