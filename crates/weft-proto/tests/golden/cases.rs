//! Messages, compared with the files that hold their bytes.
//!
//! `<family>/<Message>.txt` holds the bytes of one message in hexadecimal digits, one field or part
//! of a field on each line. A `#` starts a comment.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::fs;
use std::path::{Path, PathBuf};

use weft_proto::prost::Message;
use weft_proto::{Call, Kind, body_from};

/// The folder of the families.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
/// Maximum bytes per line in the expected content of a missing file.
const LINE: usize = 16;

/// Messages with every field set, by file name.
#[derive(Default)]
pub struct Golden {
    messages: BTreeMap<String, Vec<u8>>,
    kinds: Vec<Kind>,
}

impl Golden {
    /// Adds the request and the reply of a call.
    pub fn call<C>(&mut self, request: &C, reply: &C::Reply)
    where
        C: Call + PartialEq + Debug,
        C::Reply: PartialEq + Debug,
    {
        let (kind, family) = (C::KIND, family::<C>());
        self.add(kind, &format!("{family}/{kind:?}Request"), request);
        self.add(kind, &format!("{family}/{kind:?}Reply"), reply);
        self.kinds.push(kind);
    }

    /// Adds a message of no single call, or another form of a message. Frames of `kind` carry it.
    pub fn message<M>(&mut self, kind: Kind, name: &str, message: &M)
    where
        M: Message + Default + PartialEq + Debug,
    {
        self.add(kind, &format!("{}/{name}", family::<M>()), message);
    }

    fn add<M>(&mut self, kind: Kind, name: &str, message: &M)
    where
        M: Message + Default + PartialEq + Debug,
    {
        let bytes = message.encode_to_vec();
        let decoded = body_from::<M>(kind, &bytes);
        assert_eq!(
            decoded.as_ref(),
            Ok(message),
            "{name} decodes to another message"
        );
        let before = self.messages.insert(format!("{name}.txt"), bytes);
        assert_eq!(before, None, "{name} was added twice");
    }

    /// The kinds of the added calls.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The files that differ from their messages, are missing, or belong to no message.
    pub fn differences(&self) -> Vec<String> {
        let files = files(Path::new(FOLDER));
        let mut found: Vec<String> = files
            .iter()
            .filter(|name| !self.messages.contains_key(*name))
            .map(|name| format!("{name} belongs to no message"))
            .collect();
        for (name, bytes) in &self.messages {
            if files.contains(name) {
                let path = Path::new(FOLDER).join(name);
                let text = fs::read_to_string(path).expect("the file is text");
                found.extend(difference(&text, bytes).map(|how| format!("{name}: {how}")));
            } else {
                let wanted = dump(bytes);
                found.push(format!("{name} is missing; it would hold\n{wanted}"));
            }
        }
        found
    }
}

/// The module of `weft_proto` that a message belongs to: the one below `messages`, or the top one.
fn family<M>() -> &'static str {
    let mut path = type_name::<M>().split("::").skip(1);
    let module = path.find(|module| *module != "messages");
    module.expect("a message type has a module")
}

/// The names of all data files below `folder`, relative to it.
fn files(folder: &Path) -> BTreeSet<String> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).expect("the folder can be listed");
        entries.map(|e| e.expect("an entry").path()).collect()
    };
    let families = entries(folder).into_iter().filter(|path| path.is_dir());
    families
        .flat_map(|family| entries(&family))
        .map(|path| {
            let name = path
                .strip_prefix(folder)
                .expect("the file is below the folder");
            name.to_str().expect("names are ASCII").to_owned()
        })
        .collect()
}

/// Describes the first difference between a file and the bytes of its message.
fn difference(text: &str, bytes: &[u8]) -> Option<String> {
    let mut at = 0;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let digits = line.split('#').next().unwrap_or_default();
        for digits in digits.split_whitespace() {
            let Ok(byte) = u8::from_str_radix(digits, 16) else {
                return Some(format!("line {number}: {digits} is no byte"));
            };
            match bytes.get(at) {
                Some(now) if *now == byte => at += 1,
                Some(now) => {
                    return Some(format!(
                        "line {number}, byte {at}: the file has {byte:02x}, the message {now:02x}"
                    ));
                }
                None => {
                    return Some(format!(
                        "line {number}: the message ends after {at} bytes, before {byte:02x}"
                    ));
                }
            }
        }
    }
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    Some(format!(
        "the file ends after {at} bytes; the message goes on with\n{}",
        dump(rest)
    ))
}

/// Bytes in the form of a file.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(LINE) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{}", digits.join(" "));
    }
    text
}

#[test]
fn a_difference_is_reported_with_line_and_byte() {
    let text = "# A message\n08 4d  # file = 77\n10 01\n";
    assert_eq!(difference(text, &[8, 0x4d, 0x10, 1]), None);
    let how = |bytes: &[u8]| difference(text, bytes).unwrap();
    assert!(how(&[8, 0x4e, 0x10, 1]).contains("line 2, byte 1: the file has 4d"));
    assert!(how(&[8, 0x4d, 0x10]).contains("ends after 3 bytes"));
    assert!(how(&[8, 0x4d, 0x10, 1, 5]).contains("goes on with\n05"));
    assert!(difference("zz", &[]).unwrap().contains("zz is no byte"));
}
