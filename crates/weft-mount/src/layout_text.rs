//! Layouts as text: `cells=4 bsu=64KiB chunk=1MiB storage=addressed base=0 servers=0,1,2,3`, in a
//! request any of these words. Files are plain unless they, or their directory, say otherwise.

use std::fmt::Write;

use weft_client::NewLayout;
use weft_layout::Storage;
use weft_parity::Shape;
use weft_proto::meta::Layout;
use weft_proto::{parity_from_wire, storage_to_wire};

/// A layout as text, without what is not set.
pub(crate) fn show(layout: &Layout) -> String {
    let mut text = String::new();
    let mut word = |name: &str, value: String| {
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{name}={value}");
    };
    if layout.cells != 0 {
        word("cells", layout.cells.to_string());
    }
    if layout.bsu != 0 {
        word("bsu", size(layout.bsu));
    }
    if layout.chunk != 0 {
        word("chunk", size(layout.chunk.into()));
    }
    if layout.storage == storage_to_wire(Storage::Addressed) {
        word("storage", "addressed".to_owned());
    }
    if let Ok(Some(shape)) = parity_from_wire(layout.parity) {
        word("parity", shape.to_string());
    }
    if let Some(base) = layout.servers.first() {
        word("base", base.to_string());
        let servers: Vec<String> = layout.servers.iter().map(u32::to_string).collect();
        word("servers", servers.join(","));
    }
    text
}

fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// Parses the layout that a creator asks for.
///
/// # Errors
/// The reason, in words.
pub(crate) fn parse(text: &[u8]) -> Result<NewLayout, String> {
    let text = std::str::from_utf8(text).map_err(|_| "a layout must be text".to_owned())?;
    let mut layout = NewLayout::default();
    let mut seen = Vec::new();
    for word in text.split_ascii_whitespace() {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` is not NAME=VALUE"))?;
        if seen.contains(&name) {
            return Err(format!("`{name}` appears twice"));
        }
        seen.push(name);
        let number = |text: &str| {
            text.parse::<u32>()
                .map_err(|_| format!("`{word}`: not a number"))
        };
        match name {
            "cells" => layout.cells = Some(number(value)?),
            "bsu" => layout.bsu = Some(bytes(value)?),
            "chunk" => {
                let chunk = u32::try_from(bytes(value)?);
                layout.chunk = Some(chunk.map_err(|_| format!("`{word}`: too large"))?);
            }
            "replicas" => layout.replicas = Some(number(value)?),
            "parity" if value == "none" => layout.parity = Some(None),
            "parity" => {
                let shape = value.parse::<Shape>().map_err(|e| e.to_string())?;
                layout.parity = Some(Some(shape));
            }
            "storage" => layout.storage = Some(storage(value)?),
            "base" => layout.base = Some(number(value)?),
            "servers" => layout.servers = value.split(',').map(number).collect::<Result<_, _>>()?,
            _ => {
                return Err(format!(
                    "`{name}`: a layout has cells, bsu, chunk, storage, replicas, parity, base and servers"
                ));
            }
        }
    }
    // The list itself says where the first cell lies.
    if let Some(base) = layout.base
        && let Some(at) = layout.servers.iter().position(|s| *s == base)
    {
        layout.servers.rotate_left(at);
        layout.base = None;
    }
    Ok(layout)
}

fn storage(text: &str) -> Result<Storage, String> {
    match text {
        "plain" => Ok(Storage::Plain),
        "addressed" => Ok(Storage::Addressed),
        _ => Err(format!("`storage={text}`: choose plain or addressed")),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    weft_layout::size::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_round_trips_through_its_text() {
        let layout = Layout {
            cells: 4,
            bsu: 64 << 10,
            chunk: 1 << 20,
            servers: vec![2, 3, 0, 1],
            storage: 1,
            parity: 0,
        };
        let text = show(&layout);
        assert_eq!(
            text,
            "cells=4 bsu=64KiB chunk=1MiB storage=addressed base=2 servers=2,3,0,1"
        );
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(
            (parsed.cells, parsed.bsu, parsed.chunk),
            (Some(4), Some(64 << 10), Some(1 << 20))
        );
        assert_eq!((parsed.servers, parsed.base), (vec![2, 3, 0, 1], None));
        assert_eq!(parsed.storage, Some(Storage::Addressed));
        let parity = Layout {
            parity: 2 << 8 | 1,
            ..Layout::default()
        };
        assert_eq!(show(&parity), "parity=2+1");
        let parsed = parse(b"parity=2+1").unwrap().parity;
        assert_eq!(parsed, Some(Some(Shape::new(2, 1).unwrap())));
        assert_eq!(parse(b"parity=none").unwrap().parity, Some(None));
    }

    #[test]
    fn each_word_is_optional_and_errors_name_the_cause() {
        let parsed = parse(b"bsu=4096\n").unwrap();
        assert_eq!((parsed.bsu, parsed.cells), (Some(4096), None));
        assert_eq!(parse(b"base=2 servers=1,2,3").unwrap().servers, [2, 3, 1]);
        assert!(parse(b"").unwrap().servers.is_empty());
        for (text, word) in [
            ("cells", "NAME=VALUE"),
            ("cells=x", "not a number"),
            ("rows=3", "rows"),
            ("chunk=8G", "large"),
            ("parity=4", "K+M"),
            ("storage=tape", "plain or addressed"),
            ("cells=2 bsu=4096 cells=3", "twice"),
        ] {
            assert!(parse(text.as_bytes()).unwrap_err().contains(word), "{text}");
        }
    }
}
