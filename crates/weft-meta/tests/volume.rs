//! Formatting, opening, and the server map.

use crate::common;

use std::sync::Arc;

use common::{Volume, creating, settings};
use prost::Message;
use weft_kv::{MemKv, OrderedKv, Space};
use weft_layout::ServerId;
use weft_meta::record::VolumeRecord;
use weft_meta::{MetaError, Namespace, VolumeSettings, mutates};
use weft_proto::Kind;
use weft_proto::meta::*;
use weft_proto::stamp::Position;

#[test]
fn an_engine_without_a_volume_is_refused() {
    let error = Namespace::open(Arc::new(MemKv::new())).unwrap_err();
    assert!(matches!(error, MetaError::NotFormatted));
}

#[test]
fn a_volume_is_not_formatted_twice() {
    let v = Volume::mem();
    let error = Namespace::format(&*v.kv, &settings()).unwrap_err();
    assert!(matches!(error, MetaError::AlreadyFormatted { .. }));
    assert_eq!(v.meta.name(), "test");
    assert_eq!(v.meta.id(), *b"sixteen byte id.");
    assert_eq!(v.meta.counts().unwrap().files, 1);
}

#[test]
fn formatting_is_durable() {
    let kv = MemKv::new();
    Namespace::format(&kv, &settings()).unwrap();
    kv.crash_power_loss();
    assert!(Namespace::open(Arc::new(kv)).is_ok());
}

#[test]
fn a_volume_of_another_format_is_refused() {
    let v = Volume::mem();
    v.kv.transact(&mut |txn| {
        let bytes = txn.get(Space("volume"), b"volume")?.unwrap();
        let mut record = VolumeRecord::decode(bytes.as_slice()).unwrap();
        record.format = 99;
        txn.put(Space("volume"), b"volume", &record.encode_to_vec());
        Ok(())
    })
    .unwrap();
    let error = Namespace::open(v.kv).unwrap_err();
    assert!(matches!(
        error,
        MetaError::FormatVersion {
            found: 99,
            known: 2
        }
    ));
}

#[test]
fn illegal_settings_are_refused() {
    let refused = |change: &dyn Fn(&mut VolumeSettings)| {
        let mut settings = settings();
        change(&mut settings);
        let kv = MemKv::new();
        let error = Namespace::format(&kv, &settings).unwrap_err();
        assert!(matches!(error, MetaError::Settings { .. }), "{error}");
    };
    refused(&|settings| settings.servers.clear());
    refused(&|settings| settings.name.clear());
    refused(&|settings| settings.servers.push((ServerId(2), "twice:1".into())));
}

fn heartbeat(id: u32, address: &str) -> HeartbeatRequest {
    HeartbeatRequest {
        id,
        address: address.into(),
        metrics: "m:1".into(),
        usage: Usage {
            capacity: 100,
            used: 30,
            available: 70,
        },
        store: bytes::Bytes::new(),
        ..HeartbeatRequest::default()
    }
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn servers_that_move_do_not_stop_files_from_being_created() {
    const ROUNDS: i64 = 2000;
    let v = Volume::mem();
    let (kv, meta) = (v.kv.clone(), Arc::new(v.meta));
    let (done, ended) = std::sync::mpsc::channel();
    let moves = (meta.clone(), done.clone());
    std::thread::spawn(move || {
        let (meta, done) = moves;
        for round in 0..ROUNDS {
            let address = format!("host{round}:1");
            meta.heartbeat(SECOND, &heartbeat(2, &address)).unwrap();
        }
        done.send(()).unwrap();
    });
    std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let request = creating(0, &format!("/f{round}"), 0o644, true);
            meta.attach(SECOND, 1, &request).unwrap();
        }
        done.send(()).unwrap();
    });
    for _ in 0..2 {
        let waited = ended.recv_timeout(std::time::Duration::from_mins(1));
        waited.expect("one waits for the other");
    }
    let meta = Namespace::open(kv).unwrap();
    let map = meta.server_map(SECOND).unwrap();
    assert_eq!(map.servers[1].address, format!("host{}:1", ROUNDS - 1));
    assert_eq!(map.files, 1 + ROUNDS as u64);
}

#[test]
fn the_server_map_shows_which_servers_are_up() {
    let mut v = Volume::mem();
    let map = v.meta.server_map(SECOND).unwrap();
    assert_eq!((map.epoch, map.files, map.intents), (1, 1, 0));
    assert_eq!(map.volume, "test");
    assert!(
        map.servers
            .iter()
            .all(|server| server.state() == ServerState::Down)
    );
    let reply = v
        .meta
        .heartbeat(SECOND, &heartbeat(2, "host2:7000"))
        .unwrap();
    assert_eq!(reply.epoch, 1);
    let map = v.meta.server_map(6 * SECOND).unwrap();
    assert_eq!(map.servers[1].state(), ServerState::Up);
    assert_eq!(map.servers[1].usage.used, 30);
    assert_eq!(map.servers[1].metrics, "m:1");
    let map = v.meta.server_map(6 * SECOND + 1).unwrap();
    assert_eq!(map.servers[1].state(), ServerState::Down);
    let unknown = v.meta.heartbeat(SECOND, &heartbeat(9, "host9:1"));
    assert!(matches!(
        unknown,
        Err(MetaError::UnknownServer { server: 9 })
    ));
    assert!(v.meta.heartbeat(SECOND, &heartbeat(2, "")).is_err());
    // New files go to servers that are up, once all had time for a heartbeat.
    v.now = SECOND;
    let early = v.create(0, "early", 0o644).unwrap().layout.unwrap();
    assert_eq!(early.cells, 4);
    v.meta
        .heartbeat(20 * SECOND, &heartbeat(3, "host3:7000"))
        .unwrap();
    v.now = 21 * SECOND;
    let late = v.create(0, "late", 0o644).unwrap().layout.unwrap();
    assert_eq!((late.cells, late.servers), (1, vec![3]));
    v.now = 99 * SECOND;
    let none_up = v.create(0, "none", 0o644).unwrap().layout.unwrap();
    assert_eq!(none_up.cells, 4);
}

#[test]
fn a_moved_server_raises_the_epoch_durably() {
    let kv = Arc::new(MemKv::new());
    let v = Volume::over(kv.clone());
    let reply = v
        .meta
        .heartbeat(SECOND, &heartbeat(2, "elsewhere:1"))
        .unwrap();
    assert_eq!((reply.epoch, v.meta.epoch()), (2, 2));
    kv.crash_power_loss();
    let meta = Namespace::open(kv).unwrap();
    assert_eq!(meta.epoch(), 2);
    let map = meta.server_map(SECOND).unwrap();
    assert_eq!(map.servers[1].address, "elsewhere:1");
}

#[test]
fn an_accepted_older_store_is_used_once_its_data_is_in_doubt() {
    let kv = Arc::new(MemKv::new());
    let mut v = Volume::over(kv.clone());
    let at = |incarnation, sequence| {
        Some(Position {
            incarnation,
            sequence,
        })
    };
    let says = |incarnation, has: &[Position]| HeartbeatRequest {
        store: b"one".as_slice().into(),
        durable: at(incarnation, 9),
        has: has.to_vec(),
        ..heartbeat(2, "host2:1")
    };
    let up = |meta: &Namespace, now| {
        let map = meta.server_map(now).unwrap();
        map.servers.iter().find(|s| s.id == 2).unwrap().state() == ServerState::Up
    };
    v.meta.heartbeat(SECOND, &says(1, &[])).unwrap();
    v.create(0, "old", 0o644).unwrap();
    // A minute later the server comes back with an older store.
    let mut now = 60 * SECOND;
    let refused = HeartbeatRequest {
        rolled_back: true,
        newest: 5,
        ..says(2, &[])
    };
    let reply = v.meta.heartbeat(now, &refused).unwrap();
    assert_eq!((reply.check, reply.doubt), (vec![at(1, 9).unwrap()], 0));
    let map = v.meta.server_map(now).unwrap();
    assert_eq!(map.servers[1].state(), ServerState::RolledBack);
    assert_eq!(map.servers[1].newest, 5);
    // Doubt without an acceptance does not suffice.
    let doubts = |doubted| HeartbeatRequest {
        doubted,
        ..refused.clone()
    };
    assert_eq!(v.meta.heartbeat(now, &doubts(1)).unwrap().check.len(), 1);
    assert!(v.meta.accept_rollback(2).unwrap());
    let new = v.create(0, "new", 0o644).unwrap().id;
    // The acceptance survives a power loss of the service, and demands the doubt.
    kv.sync().unwrap();
    kv.crash_power_loss();
    let meta = Namespace::open(kv.clone()).unwrap();
    let reply = meta.heartbeat(now, &refused).unwrap();
    let old = v.meta.heartbeat(now, &refused).unwrap().doubt;
    assert_eq!((reply.check.len(), reply.doubt), (1, old));
    assert!(old != 0 && old <= new, "{old} {new}");
    assert!(!up(&meta, now));
    let reply = meta.heartbeat(now, &doubts(old)).unwrap();
    assert!(reply.check.is_empty() && up(&meta, now), "{reply:?}");
    // That is the server's store from now on, also after another power loss.
    kv.crash_power_loss();
    let meta = Namespace::open(kv).unwrap();
    now += 60 * SECOND;
    let reply = meta.heartbeat(now, &says(3, &[])).unwrap();
    assert_eq!((reply.check, reply.doubt), (vec![at(2, 9).unwrap()], 0));
    let reply = meta.heartbeat(now, &says(3, &[at(2, 9).unwrap()])).unwrap();
    assert!(reply.check.is_empty() && up(&meta, now), "{reply:?}");
}

#[test]
fn a_server_with_another_store_has_lost_its_older_files() {
    let kv = Arc::new(MemKv::new());
    let mut v = Volume::over(kv.clone());
    let with = |id: &'static [u8], address| HeartbeatRequest {
        store: id.into(),
        ..heartbeat(2, address)
    };
    let send = |v: &Volume, request: &HeartbeatRequest| {
        let reply = v.meta.heartbeat(SECOND, request).unwrap();
        (reply.epoch, reply.since)
    };
    // The first store loses nothing, and a server that names none has the known one.
    let moved = send(&v, &with(b"one", "host2:1"));
    assert_eq!(moved, (2, 0));
    assert_eq!(send(&v, &with(b"one", "host2:1")), (2, 0));
    assert_eq!(send(&v, &heartbeat(2, "host2:1")), (2, 0));
    let old = v.create(0, "old", 0o644).unwrap().id;
    let (epoch, since) = send(&v, &with(b"two", "host2:1"));
    assert_eq!(epoch, 3);
    let new = v.create(0, "new", 0o644).unwrap().id;
    assert!(old < since && since <= new, "{old} {since} {new}");
    // The same after a power loss, and other servers are not affected.
    kv.crash_power_loss();
    let meta = Namespace::open(kv).unwrap();
    let reply = meta.heartbeat(SECOND, &with(b"two", "host2:1")).unwrap();
    assert_eq!((reply.epoch, reply.since), (3, since));
    let map = meta.server_map(SECOND).unwrap();
    let sinces: Vec<u64> = map.servers.iter().map(|s| s.since).collect();
    assert_eq!(sinces, [0, since, 0, 0]);
}

#[test]
fn counts_follow_files_and_intents() {
    let mut v = Volume::mem();
    v.create(0, "f", 0o644).unwrap();
    v.mkdir(0, "d", 0o755).unwrap();
    assert_eq!(v.meta.counts().unwrap().files, 3);
    v.unlink(0, "f").unwrap();
    let counts = v.meta.counts().unwrap();
    assert_eq!((counts.files, counts.intents), (2, 1));
    v.carry_deletes();
    assert_eq!(v.meta.counts().unwrap().intents, 0);
}

#[test]
fn every_kind_of_call_declares_whether_it_must_sync() {
    assert!(mutates(Kind::Rename) && mutates(Kind::Unlink));
    assert!(!mutates(Kind::Stat) && !mutates(Kind::Report) && !mutates(Kind::Attach));
}
