//! Whole namespaces as earlier versions left them: every later version opens them completely.
//!
//! `golden/NAME.namespace` is a packed folder (`weft-store/tests/golden/packed.rs`): below `meta`
//! the files of the engine, and `holds/records`, the bytes of every record, `holds/names`, the
//! results of operations on every name. Existing images never change; a new kind of record, or a
//! new form of one, adds images: give them a new number in `write_images_of_this_version`, and run
//! `cargo test -p weft-meta --test all images:: -- --ignored`.

use crate::common;
use crate::packed;

use std::fmt::Write as _;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Found, Volume, at, by_id, creating, who};
use packed::{Tree, gather, pack, scatter, unpack};
use weft_kv::{FjallKv, FjallOptions, OnLoss, OrderedKv, Space};
use weft_proto::checkpoint::{ListCheckpointsRequest, MakeCheckpointRequest};
use weft_proto::inline::StoreInlineRequest;
use weft_proto::meta::*;
use weft_proto::quota::{QuotaKind, SetQuotaRequest};

/// As `docs/design/0004-metadata.md` and `0007-checkpoints.md` name them.
const SPACES: [&str; 12] = [
    "checkpoints",
    "entries",
    "held",
    "inline",
    "inodes",
    "intents",
    "orphans",
    "quotas",
    "servers",
    "tree_files",
    "volume",
    "xattrs",
];

fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn engine(folder: &Path) -> Arc<FjallKv> {
    // Small, so that there are tables.
    let options = FjallOptions {
        cache: 1 << 20,
        memtable: 2 << 10,
        reserve: 0,
        loss: OnLoss::Refuse,
    };
    Arc::new(FjallKv::open(folder.join("meta"), options).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Every record of the engine.
fn records(kv: &dyn OrderedKv) -> String {
    let mut text = String::new();
    let reader = kv.snapshot().unwrap();
    for space in SPACES {
        let mut visit = |key: &[u8], value: &[u8]| {
            writeln!(text, "{space} {} {}", hex(key), hex(value)).unwrap();
            ControlFlow::Continue(())
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(Space(space), all.0, all.1, &mut visit).unwrap();
    }
    text
}

/// The results of operations on a name and on everything below it.
fn names(volume: &Volume, path: &str, target: &Target, text: &mut String) {
    let a = volume.stat_target(0, target.clone()).unwrap();
    write!(
        text,
        "{path}: kind {}, mode {:o}, {}:{}, links {}, size {} ({}), times {:?}, device {}",
        a.kind,
        a.mode,
        a.uid,
        a.gid,
        a.links,
        a.size,
        a.size_exact,
        [a.accessed, a.modified, a.changed, a.created],
        a.device
    )
    .unwrap();
    if let Some(l) = &a.layout {
        let grid = (l.cells, l.bsu, l.chunk, l.storage);
        write!(text, ", layout {grid:?} on {:?}", l.servers).unwrap();
    }
    let (who, target) = (who(0), target.clone());
    let asked = ListXattrRequest {
        who: who.clone(),
        target: target.clone(),
    };
    for name in volume.meta.list_xattr(&asked).unwrap().names {
        let asked = GetXattrRequest {
            who: who.clone(),
            target: target.clone(),
            name: name.clone(),
        };
        let value = volume.meta.get_xattr(&asked).unwrap().value;
        write!(text, ", {}={}", hex(&name), hex(&value)).unwrap();
    }
    if a.kind == 3 {
        let link = volume
            .meta
            .read_link(&ReadLinkRequest { who, target })
            .unwrap();
        writeln!(text, ", to {}", hex(&link.text)).unwrap();
        return;
    }
    text.push('\n');
    let asked = ListCheckpointsRequest {
        who: who.clone(),
        target: target.clone(),
        after: String::new(),
    };
    for c in volume.meta.list_checkpoints(&asked).unwrap().checkpoints {
        let (name, number, made) = (&c.name, c.number, c.made);
        writeln!(
            text,
            "{path}@{name}: {number}, made {made}, {} bytes",
            c.size
        )
        .unwrap();
        if c.image != 0 {
            names(volume, &format!("{path}@{name}"), &by_id(c.image), text);
        }
    }
    if a.kind == 2 {
        let asked = ListRequest {
            who,
            target,
            after: Vec::new().into(),
            limit: 0,
        };
        for entry in volume.meta.list(&asked).unwrap().entries {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            names(volume, &path, &by_id(entry.attributes.id), text);
        }
    }
}

fn all_names(volume: &Volume) -> String {
    let mut text = format!("volume {} {}\n", volume.meta.name(), hex(&volume.meta.id()));
    names(volume, "", &at("/"), &mut text);
    text
}

fn assert_sound(volume: &Volume, what: &str) {
    let mut found = Found::default();
    volume.meta.check(&mut found).unwrap();
    assert_eq!(found.0, [], "{what}");
}

#[test]
fn every_image_opens_completely() {
    let (mut count, mut spaces) = (0, std::collections::BTreeSet::new());
    for entry in fs::read_dir(images()).unwrap() {
        let path = entry.unwrap().path();
        let what = path.display().to_string();
        let image = unpack(&fs::read(&path).unwrap());
        let text = |name: &str| String::from_utf8(image[name].clone()).unwrap();
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        scatter(&image, "meta/", folder.path());
        let kv = engine(folder.path());
        assert_eq!(records(&*kv), text("holds/records"), "{what}");
        let records = text("holds/records");
        spaces.extend(
            records
                .lines()
                .filter_map(|l| l.split(' ').next())
                .map(str::to_owned),
        );
        let mut volume = Volume::opened(kv.clone());
        assert_eq!(all_names(&volume), text("holds/names"), "{what}");
        assert_sound(&volume, &what);
        // The namespace remains usable.
        volume.meta.reap_orphans().unwrap();
        let made = volume.create(0, "/new", 0o644).unwrap().id;
        assert!(
            !records.contains(&format!("inodes {made:016x} ")),
            "{what}: an id was given twice"
        );
        volume.unlink(0, "/new").unwrap();
        assert_sound(&volume, &what);
        drop(volume);
        kv.sync().unwrap();
        drop(kv);
        let volume = Volume::opened(engine(folder.path()));
        let (was, is) = (text("holds/names"), all_names(&volume));
        // Compare everything except the times of the root.
        assert!(is.lines().skip(2).eq(was.lines().skip(2)), "{what}: {is}");
        count += 1;
    }
    assert!(count >= 2, "images are missing");
    assert!(
        spaces.iter().eq(&SPACES),
        "spaces of which no image has a record: {spaces:?}"
    );
}

/// A sample of every kind of record.
fn story(v: &mut Volume) {
    v.mkdir(0, "/d", 0o777).unwrap();
    v.mkdir(0, "/d/inner", 0o2775).unwrap();
    v.create(0, "/d/file", 0o644).unwrap();
    v.create(7, "/d/linked", 0o600).unwrap();
    v.link(0, "/d/linked", "/d/inner/other \u{3c0}").unwrap();
    v.symlink(0, "/link", "d/file").unwrap();
    let mut request = creating(0, "/d/small", 0o644, true);
    (request.inline, request.write) = (true, true);
    let small = v.attach(1, &request).unwrap().reply.attributes.id;
    let store = StoreInlineRequest {
        file: small,
        data: "small".into(),
        detach: true,
        ..StoreInlineRequest::default()
    };
    v.meta.store_inline(2000, 1, &store).unwrap();
    let set = SetXattrRequest {
        who: who(0),
        target: at("/d/file"),
        name: "user.a".into(),
        value: "value".into(),
        ..SetXattrRequest::default()
    };
    v.meta.set_xattr(2010, &set).unwrap();
    let set = SetQuotaRequest {
        who: who(0),
        target: Some(at("/d/inner")),
        kind: QuotaKind::Tree as i32,
        ..SetQuotaRequest::default()
    };
    v.meta.set_quota(&set).unwrap();
    for (now, path) in [(2020, "/d/file"), (2030, "/d")] {
        let request = MakeCheckpointRequest {
            who: who(0),
            target: at(path),
            name: "before".into(),
        };
        let number = v.meta.make_checkpoint(now, &request).unwrap().number();
        v.meta.checkpoint_done(number, 0, now + 1).unwrap();
    }
    // Pending intents: a truncate and a delete; and an orphan that a client has open.
    v.truncate(0, "/d/linked", 10).unwrap();
    v.create(0, "/gone", 0o644).unwrap();
    v.unlink(0, "/gone").unwrap();
    let open = v.attach(1, &creating(0, "/open", 0o644, true)).unwrap();
    assert_ne!(open.reply.attributes.id, 0);
    v.unlink(0, "/open").unwrap();
    v.rename(0, "/link", "/d/moved").unwrap();
}

fn write_image(name: &str, close: bool) {
    let path = images().join(format!("{name}.namespace"));
    assert!(!path.exists(), "an image is never replaced");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kv = engine(folder.path());
    let mut volume = Volume::over(kv.clone());
    story(&mut volume);
    if close {
        volume.meta.close().unwrap();
        kv.sync().unwrap();
    }
    assert_sound(&volume, name);
    let mut image = Tree::new();
    image.insert("holds/names".into(), all_names(&volume).into_bytes());
    image.insert("holds/records".into(), records(&*kv).into_bytes());
    gather(&folder.path().join("meta"), "meta", &mut image);
    let packed = pack(&image);
    assert!(unpack(&packed) == image);
    println!("{name}: {} bytes", packed.len());
    fs::create_dir_all(images()).unwrap();
    fs::write(path, packed).unwrap();
}

/// For a new version of a record: give the images its number first.
#[test]
#[ignore = "writes new images"]
fn write_images_of_this_version() {
    write_image("1-killed", false);
    write_image("1-closed", true);
}
