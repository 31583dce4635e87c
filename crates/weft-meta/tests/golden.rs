//! The bytes of every record, which never change: a volume outlives every build.

use prost::Message;
use weft_meta::record::*;

fn fixed<M: Message + Default + PartialEq>(record: &M, hex: &str) {
    let bytes: String = record
        .encode_to_vec()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(bytes, hex);
    assert_eq!(
        &M::decode(record.encode_to_vec().as_slice()).unwrap(),
        record
    );
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        cells: 4,
        bsu: 65536,
        chunk: 262_144,
        servers: vec![3, 1, 300],
        storage: 1,
    }
}

#[test]
fn layout_record() {
    fixed(&layout(), "");
}

#[test]
fn wish_record() {
    let record = WishRecord {
        cells: Some(0),
        bsu: Some(7),
        chunk: Some(4096),
        servers: vec![2],
        base: Some(2),
    };
    fixed(&record, "");
}

#[test]
fn inode_record() {
    let record = InodeRecord {
        kind: 1,
        mode: 0o6755,
        uid: 1000,
        gid: 100,
        links: 2,
        size: 1 << 40,
        size_exact: true,
        accessed: 1,
        modified: -2,
        changed: 3,
        created: 4,
        modified_set: 5,
        written: 6,
        device: 7,
        layout: Some(layout()),
        wish: Some(WishRecord::default()),
        parent: 8,
        text: b"text".to_vec(),
        xattr_bytes: 9,
        truncate: 10,
        truncate_raced: true,
    };
    fixed(&record, "");
}

#[test]
fn small_records() {
    fixed(&EntryRecord { id: 300, kind: 2 }, "");
    fixed(&OrphanRecord { since: 5 }, "");
    let value = b"v".to_vec();
    fixed(&XattrRecord { value }, "");
    let address = "host:1".to_owned();
    fixed(&ServerRecord { address }, "");
}

#[test]
fn intent_records() {
    let delete = IntentRecord {
        file: 9,
        delete: Some(DeleteRecord {
            servers: vec![1, 2],
        }),
        truncate: None,
    };
    fixed(&delete, "");
    let truncate = IntentRecord {
        file: 9,
        delete: None,
        truncate: Some(TruncateRecord {
            layout: Some(layout()),
            size: 0,
        }),
    };
    fixed(&truncate, "");
}

#[test]
fn volume_records() {
    let volume = VolumeRecord {
        format: 1,
        id: (0..16).collect(),
        name: "home".into(),
    };
    fixed(&volume, "");
    let counters = CountersRecord {
        next_id: 1,
        next_intent: 2,
        files: 3,
        intents: 4,
        epoch: 5,
    };
    fixed(&counters, "");
}

#[test]
fn a_record_of_a_later_version_can_be_read() {
    let mut bytes = EntryRecord { id: 300, kind: 2 }.encode_to_vec();
    // Tag 100, as a later version might add.
    bytes.extend_from_slice(&[0xa0, 0x06, 0x01]);
    assert_eq!(EntryRecord::decode(bytes.as_slice()).unwrap().id, 300);
}
