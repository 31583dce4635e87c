//! Messages about directories delegated to a client.

use bytes::Bytes;
use weft_proto::delegation::{
    ChangeNamesReply, ChangeNamesRequest, DelegateReply, DelegateRequest, NameChange, NameChanged,
    NewFile,
};
use weft_proto::meta::{Attributes, Credentials, FileKind, Layout, SetAttributesRequest};
use weft_proto::{Code, Failure};

use super::cases::Golden;

fn two_cells() -> Layout {
    Layout {
        cells: 2,
        servers: vec![1, 2],
        ..Layout::default()
    }
}

fn created() -> NameChange {
    let made = NewFile {
        mode: 0o666,
        umask: 0o22,
        layout: two_cells(),
        reading: true,
        writing: true,
        data: Some(Bytes::from_static(b"x")),
        modified: 3,
        spilled: true,
        kind: FileKind::Directory as i32,
    };
    NameChange {
        who: Credentials::default(),
        directory: 77,
        name: Bytes::from_static(b"n\xff"),
        file: 301,
        time: 2,
        made: Some(made),
        set: Some(Box::new(SetAttributesRequest {
            mode: Some(0o600),
            ..SetAttributesRequest::default()
        })),
        set_time: 4,
        directory_time: 5,
        modified_time: 6,
    }
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &DelegateRequest {
            directory: 77,
            ids: 300,
            also: vec![78, 79],
        },
        &DelegateReply {
            granted: true,
            first: 301,
            layouts: vec![two_cells()],
            also: vec![79],
        },
    );
    golden.call(
        &ChangeNamesRequest {
            changes: vec![created()],
            given_back: vec![77],
        },
        &ChangeNamesReply {
            done: vec![NameChanged {
                refused: Some(Failure {
                    code: Code::Exists as i32,
                    ..Failure::default()
                }),
                attributes: Some(Attributes::default()),
                unleased: true,
                undelegated: true,
            }],
        },
    );
}
