//! Messages between clients and the metadata service about names and attributes.

use bytes::Bytes;
use weft_proto::Kind;
use weft_proto::meta::{
    AcceptRollbackReply, AcceptRollbackRequest, Accessed, AttachReply, AttachRequest, Attributes,
    ConnectedClient, Create, DetachReply, DetachRequest, Entry, FileKind, GetXattrReply,
    GetXattrRequest, HeartbeatReply, HeartbeatRequest, JoinServerReply, JoinServerRequest,
    KeepSmall, KeptSmall, LayoutOptions, LeaveServerReply, LeaveServerRequest, LinkRequest,
    ListClientsReply, ListClientsRequest, ListReply, ListRequest, ListXattrReply, ListXattrRequest,
    MakeDirectoryReply, MakeDirectoryRequest, MakeLinkRequest, MakeNodeRequest, ReadLinkReply,
    ReadLinkRequest, ReassertReply, ReassertRequest, RemoveDirectoryRequest, RemoveXattrRequest,
    RenameReply, RenameRequest, Replica, ReplicaProgress, ReportReply, ReportRequest, Server,
    ServerMapReply, ServerMapRequest, ServerState, SetAttributesRequest, SetXattrRequest,
    SmallFile, StatRequest, Target, TimeUpdate, TruncateRequest, UnlinkReply, UnlinkRequest,
    XattrDone,
};

use super::cases::Golden;
use super::replica::replica_set;
use super::values::{attributes, bytes, held_lock, position, stat, target, usage, who};

fn layout_options() -> LayoutOptions {
    LayoutOptions {
        cells: Some(6),
        bsu: Some(0),
        chunk: Some(4096),
        servers: vec![3, 1],
        base: Some(3),
        storage: None,
        replicas: None,
        parity: None,
    }
}

fn unlinked() -> UnlinkReply {
    UnlinkReply {
        file: 77,
        links: 1,
        directory: Some(Attributes {
            size: 3,
            ..Attributes::default()
        }),
    }
}

fn xattr_name() -> Bytes {
    Bytes::from_static(b"user.mime_type")
}

pub fn messages(golden: &mut Golden) {
    open_files(golden);
    attributes_of_files(golden);
    new_names(golden);
    other_names(golden);
    extended_attributes(golden);
    service(golden);
}

/// Reports of a client about its open files.
fn open_files(golden: &mut Golden) {
    golden.call(
        &AttachRequest {
            who: who(),
            target: target(),
            read: true,
            write: true,
            create: Some(Create {
                mode: 0o644,
                exclusive: true,
                layout: Some(layout_options()),
                umask: 0o22,
            }),
            inline: true,
            keep: None,
        },
        &AttachReply {
            attributes: attributes(),
            epoch: 9,
            created: true,
            inline: Some(Bytes::from_static(b"in")),
            sole: true,
            ..AttachReply::default()
        },
    );
    let shared = AttachReply {
        shared: true,
        ..AttachReply::default()
    };
    golden.message(Kind::Attach, "SharedAttachReply", &shared);
    let keeping = AttachRequest {
        keep: Some(KeepSmall {
            directory: 5,
            after: Bytes::from_static(b"n"),
            files: 64,
        }),
        ..AttachRequest::default()
    };
    golden.message(Kind::Attach, "KeepingAttachRequest", &keeping);
    let kept = AttachReply {
        kept: Some(KeptSmall {
            ahead: vec![SmallFile {
                name: Bytes::from_static(b"o"),
                attributes: Attributes::default(),
                inline: Bytes::from_static(b"in"),
            }],
        }),
        ..AttachReply::default()
    };
    golden.message(Kind::Attach, "KeptAttachReply", &kept);
    let named = ReassertRequest {
        application: "job 7".to_owned(),
        ..ReassertRequest::default()
    };
    golden.message(Kind::Reassert, "ApplicationReassert", &named);
    golden.call(
        &ReportRequest {
            file: 77,
            size: Some(0),
            modified: Some(-1),
            detach: true,
            write: true,
            end: Some(0),
            kill_priv: true,
            turn: Some(5),
            can_ask: true,
            forks: true,
        },
        &ReportReply {
            size_wanted: true,
            attributes: Some(Attributes {
                xattrs: true,
                ..Attributes::default()
            }),
            alone: true,
            turn: 5,
        },
    );
    golden.call(
        &DetachRequest {
            reading: vec![1, 300],
            writing: vec![2],
            accessed: vec![Accessed { file: 3, time: 300 }],
        },
        &DetachReply {},
    );
    golden.call(
        &ReassertRequest {
            reading: vec![77, 77],
            writing: vec![300],
            locks: vec![held_lock()],
            lazy: true,
            name: "mount".to_owned(),
            ..ReassertRequest::default()
        },
        &ReassertReply {
            gone: vec![300],
            lost: vec![held_lock()],
        },
    );
}

/// Attributes and sizes.
fn attributes_of_files(golden: &mut Golden) {
    golden.call(
        &StatRequest {
            who: who(),
            target: target(),
        },
        &stat(),
    );
    golden.call(
        &SetAttributesRequest {
            who: who(),
            target: target(),
            mode: Some(0),
            uid: Some(1),
            gid: Some(2),
            accessed: Some(TimeUpdate {
                now: true,
                nanos: 0,
            }),
            modified: Some(TimeUpdate {
                now: false,
                nanos: 5,
            }),
            layout: Some(layout_options()),
            kill_priv: true,
            policy: None,
        },
        &stat(),
    );
    golden.call(
        &TruncateRequest {
            who: who(),
            target: target(),
            size: 4096,
            attached: true,
            grow: true,
        },
        &stat(),
    );
}

/// Calls that create names.
fn new_names(golden: &mut Golden) {
    golden.call(
        &MakeDirectoryRequest {
            who: who(),
            target: target(),
            mode: 0o755,
            umask: 0o22,
            lease: true,
        },
        &MakeDirectoryReply {
            attributes: stat().attributes,
            leased: true,
        },
    );
    golden.call(
        &MakeLinkRequest {
            who: who(),
            target: target(),
            text: Bytes::from_static(b"../c"),
        },
        &stat(),
    );
    golden.call(
        &MakeNodeRequest {
            who: who(),
            target: target(),
            kind: FileKind::CharDevice as i32,
            mode: 0o600,
            device: 0x0103,
            umask: 0o22,
        },
        &stat(),
    );
    golden.call(
        &LinkRequest {
            who: who(),
            source: Target {
                at: 77,
                path: Bytes::new(),
                follow: false,
            },
            target: target(),
        },
        &stat(),
    );
}

/// Calls that change, remove or list names.
fn other_names(golden: &mut Golden) {
    golden.call(
        &RenameRequest {
            who: who(),
            source: target(),
            target: target(),
            no_replace: true,
            exchange: true,
        },
        &RenameReply {
            file: 77,
            other: 78,
        },
    );
    golden.call(
        &UnlinkRequest {
            who: who(),
            target: target(),
        },
        &unlinked(),
    );
    golden.call(
        &RemoveDirectoryRequest {
            who: who(),
            target: target(),
        },
        &unlinked(),
    );
    golden.call(
        &ListRequest {
            who: who(),
            target: target(),
            after: Bytes::from_static(b"m"),
            limit: 1000,
        },
        &ListReply {
            entries: vec![Entry {
                name: Bytes::from_static(b"n"),
                attributes: attributes(),
            }],
            more: true,
            directory: Attributes {
                id: 1,
                ..Attributes::default()
            },
        },
    );
    golden.call(
        &ReadLinkRequest {
            who: who(),
            target: target(),
        },
        &ReadLinkReply {
            text: Bytes::from_static(b"../c"),
        },
    );
}

/// Extended attributes.
fn extended_attributes(golden: &mut Golden) {
    golden.call(
        &GetXattrRequest {
            who: who(),
            target: target(),
            name: xattr_name(),
        },
        &GetXattrReply {
            value: Bytes::from_static(b"\0v"),
        },
    );
    golden.call(
        &SetXattrRequest {
            who: who(),
            target: target(),
            name: xattr_name(),
            value: Bytes::from_static(b"\0v"),
            create: true,
            replace: true,
        },
        &XattrDone {},
    );
    golden.call(
        &ListXattrRequest {
            who: who(),
            target: target(),
        },
        &ListXattrReply {
            names: vec![xattr_name(), xattr_name()],
        },
    );
    golden.call(
        &RemoveXattrRequest {
            who: who(),
            target: target(),
            name: xattr_name(),
        },
        &XattrDone {},
    );
}

fn progress() -> ReplicaProgress {
    ReplicaProgress {
        number: 1,
        done: 300,
        total: 5000,
        elapsed: 70_000,
        obstacle: "bad".to_owned(),
    }
}

/// Servers and clients of the volume.
fn service(golden: &mut Golden) {
    golden.call(
        &ServerMapRequest {},
        &ServerMapReply {
            epoch: 9,
            servers: vec![Server {
                id: 3,
                address: "10.0.0.3:7100".to_owned(),
                state: ServerState::Down as i32,
                usage: usage(),
                metrics: "10.0.0.3:7200".to_owned(),
                since: 300,
                newest: 300,
                replicas: vec![Replica {
                    number: 1,
                    address: "10.0.0.3:7100".to_owned(),
                    primary: true,
                    in_sync: true,
                    up: true,
                    usage: usage(),
                    metrics: "10.0.0.3:7200".to_owned(),
                    leaving: true,
                    domain: "rack-3".to_owned(),
                    progress: Some(progress()),
                }],
                missing: 1,
            }],
            files: 5,
            intents: 6,
            volume: "home".to_owned(),
            rolled_back: true,
            recovering: true,
        },
    );
    golden.call(
        &HeartbeatRequest {
            id: 3,
            address: "10.0.0.3:7100".to_owned(),
            metrics: "10.0.0.3:7200".to_owned(),
            usage: usage(),
            store: bytes(7, 16),
            durable: Some(position()),
            has: vec![position()],
            rolled_back: true,
            service: Some(position()),
            doubted: 300,
            newest: 300,
            replica: 1,
            progress: vec![progress()],
        },
        &HeartbeatReply {
            epoch: 9,
            since: 300,
            check: vec![position()],
            service: Some(position()),
            doubt: 300,
            replicas: Some(replica_set()),
        },
    );
    golden.call(
        &AcceptRollbackRequest { server: Some(3) },
        &AcceptRollbackReply { refused: true },
    );
    golden.call(
        &JoinServerRequest {
            address: "10.0.0.3:7100".to_owned(),
            store: bytes(7, 16),
            server: Some(3),
            replaces: Some(1),
            domain: "rack-3".to_owned(),
            missing: true,
        },
        &JoinServerReply {
            server: 3,
            replica: 2,
            volume: "home".to_owned(),
        },
    );
    golden.call(
        &LeaveServerRequest {
            server: 3,
            replica: 1,
            stay: true,
            succeeded: true,
        },
        &LeaveServerReply { left: true },
    );
    golden.call(
        &ListClientsRequest {},
        &ListClientsReply {
            clients: vec![ConnectedClient {
                address: "10.0.0.3:7100".to_owned(),
                name: "mount".to_owned(),
                since: 300,
            }],
        },
    );
}
