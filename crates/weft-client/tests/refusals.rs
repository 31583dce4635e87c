//! What servers refuse of clients that do not follow the protocol: nothing is changed by it, and
//! others are not disturbed.

use crate::common;

use std::sync::Arc;

use bytes::Bytes;
use common::{KEY, TestVolume, VOLUME};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use weft_client::{Access as Attach, File, NewLayout, Volume};
use weft_layout::{
    ADDRESSED_BIT, Pattern as PatternOf, Request, ServerId, Storage, View, ViewOffset,
};
use weft_net::{BufferPool, CallError, Connection, Env, Identity, Wire};
use weft_proto::addressed::{NameChunksRequest, ReadNamesRequest};
use weft_proto::io::{Access, Grid, Pattern, WriteRequest};
use weft_proto::order::{Claim, ClaimRequest, OutcomeRequest, SettleRequest, Step};
use weft_proto::session::Role;
use weft_proto::{Call, Code};
use weft_sum::ChunkName;

const CHUNK: usize = 65_536;

/// A connection to the only server, as a client of this number.
async fn connect(test: &TestVolume, client: u64) -> Connection {
    let identity = Identity {
        key: KEY,
        volume: VOLUME,
        role: Role::Client,
        client,
        wire: Wire::Mac,
    };
    let (pool, counters) = (BufferPool::default(), Arc::default());
    let address = &test.addresses[0];
    let opened = Connection::open(&Env::system(), &identity, address, pool, counters).await;
    opened.unwrap()
}

/// A file of one cell with two chunks.
async fn file_of_two(volume: &Volume, path: &str, storage: Storage) -> (File, Vec<u8>) {
    let layout = NewLayout {
        cells: Some(1),
        bsu: Some(16 * CHUNK as u64),
        chunk: Some(CHUNK as u32),
        storage: Some(storage),
        ..NewLayout::default()
    };
    let access = Attach::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    let data = random(file.id(), 2 * CHUNK);
    let view = file.canonical().unwrap();
    view.write_at(ViewOffset(0), Bytes::from(data.clone()))
        .await
        .unwrap();
    (file, data)
}

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

async fn contents(file: &File) -> Vec<u8> {
    let mut data = vec![0; 4 * CHUNK];
    let view = file.canonical().unwrap();
    let length = view.read_at(ViewOffset(0), &mut data).await.unwrap();
    data.truncate(length as usize);
    data
}

/// An access to the only cell of a file.
fn access(file: u64, request: &Request) -> Access {
    Access {
        file,
        grid: Grid {
            cells: 1,
            bsu: 16 * CHUNK as u64,
            servers: 1,
        },
        view: weft_proto::io::View::from(&View::canonical()),
        pattern: Pattern::from_request(request, true).unwrap(),
        fork: "data".to_owned(),
        ..Access::default()
    }
}

fn range(file: u64, offset: usize, length: usize) -> Access {
    let (offset, length) = (ViewOffset(offset as u64), length as u64);
    access(file, &Request::Contiguous { offset, length })
}

fn names(chunks: &[&[u8]]) -> Bytes {
    let names: Vec<[u8; 32]> = chunks
        .iter()
        .map(|chunk| *ChunkName::of(chunk).as_bytes())
        .collect();
    names.concat().into()
}

async fn refused<C: Call>(connection: &Connection, request: &C) -> (Code, String) {
    match connection.call(request).await {
        Err(CallError::Failed(failure)) => (failure.code(), failure.message),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_do_not_fit_are_refused_and_change_nothing() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let (file, data) = file_of_two(&volume, "/a", Storage::Addressed).await;
    let (other, of_other) = file_of_two(&volume, "/b", Storage::Addressed).await;
    let (plain, of_plain) = file_of_two(&volume, "/plain", Storage::Plain).await;
    let server = connect(&test, 77).await;
    let (first, second) = of_other.split_at(CHUNK);
    let both = names(&[first, second]);
    let request = |access, names: Bytes| NameChunksRequest {
        access,
        chunk: CHUNK as u32 | ADDRESSED_BIT,
        names,
        ..NameChunksRequest::default()
    };
    let whole = || range(file.id(), 0, 2 * CHUNK);
    let apart = PatternOf::list([(0, CHUNK as u64), (3 << 16, CHUNK as u64)]);
    let apart = Request::new(ViewOffset(0), &apart).unwrap();
    let many = 1 << 14;
    for (bad, part) in [
        (request(whole(), both.slice(..32)), "names of 2 chunks"),
        (request(whole(), both.slice(..63)), "names of 2 chunks"),
        (request(whole(), Bytes::new()), "names of 2 chunks"),
        (
            request(range(file.id(), 1, 2 * CHUNK - 1), both.clone()),
            "begins where a chunk does",
        ),
        (
            request(access(file.id(), &apart), both.clone()),
            "one contiguous range",
        ),
        (
            request(
                range(file.id(), 0, many * CHUNK),
                both.slice(..32).repeat(many).into(),
            ),
            "at most 16383 chunks",
        ),
        (
            NameChunksRequest {
                old: both.slice(..32),
                ..request(whole(), both.clone())
            },
            "names of 2 chunks",
        ),
        (
            NameChunksRequest {
                chunk: CHUNK as u32,
                ..request(whole(), both.clone())
            },
            "chunk",
        ),
        (
            NameChunksRequest {
                chunk: (2 * CHUNK as u32) | ADDRESSED_BIT,
                ..request(range(file.id(), 0, CHUNK), both.slice(..32))
            },
            "chunk",
        ),
        (
            request(range(plain.id(), 0, 2 * CHUNK), both.clone()),
            "chunk",
        ),
    ] {
        let (code, message) = refused(&server, &bad).await;
        assert!(message.contains(part), "{code:?} {message}, not {part}");
    }
    // Names of chunks that the server does not have are no error: it says so.
    let unknown = names(&[&random(1000, CHUNK), second]);
    let all = NameChunksRequest {
        all: true,
        ..request(whole(), unknown.clone())
    };
    let reply = server.call(&all).await.unwrap();
    assert_eq!((&reply.lacking[..], reply.changed), (&[1][..], false));
    // Nor are old names that do not hold.
    let conditional = NameChunksRequest {
        old: both.clone(),
        ..request(whole(), both.clone())
    };
    assert!(server.call(&conditional).await.unwrap().changed);
    for (file, data) in [(&file, &data), (&other, &of_other), (&plain, &of_plain)] {
        assert!(contents(file).await == *data);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_not_kept_coherent_without_a_claim() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let (file, _) = file_of_two(&volume, "/a", Storage::Addressed).await;
    let server = connect(&test, 77).await;
    let coherent = ReadNamesRequest {
        access: range(file.id(), 0, CHUNK),
        callback: true,
        ..ReadNamesRequest::default()
    };
    let (_, message) = refused(&server, &coherent).await;
    assert!(message.contains("read with a claim"), "{message}");
    let checkpoint = ReadNamesRequest {
        access: Access {
            checkpoint: 1,
            ..range(file.id(), 0, CHUNK)
        },
        ..ReadNamesRequest::default()
    };
    let (_, message) = refused(&server, &checkpoint).await;
    assert!(message.contains("of a file as it is"), "{message}");
    test.stop().await;
}

/// A write that is staged and not committed.
async fn stage(
    server: &Connection,
    file: u64,
    operation: u64,
    data: &[Bytes],
) -> Result<bool, CallError> {
    let length = data.iter().map(Bytes::len).sum();
    let request = WriteRequest {
        access: range(file, 0, length),
        chunk: CHUNK as u32 | ADDRESSED_BIT,
        bytes: length as u64,
        claim: Some(Claim {
            operation,
            ..Claim::default()
        }),
        ..WriteRequest::default()
    };
    let (first, rest) = data.split_first().unwrap();
    let mut out = server
        .send(&request, vec![first.clone()], rest.is_empty())
        .await?;
    for (n, part) in rest.iter().enumerate() {
        if out.answered() {
            break;
        }
        out.more(vec![part.clone()], n + 1 == rest.len()).await?;
    }
    out.reply().await.map(|reply| reply.granted)
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_are_not_the_clients_own_or_have_ended_change_nothing() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let (file, data) = file_of_two(&volume, "/a", Storage::Addressed).await;
    let (server, stranger) = (connect(&test, 77).await, connect(&test, 78).await);
    let claim = |operation, alone| ClaimRequest {
        claim: Claim {
            operation,
            alone,
            ..Claim::default()
        },
        file: file.id(),
    };
    let (_, message) = refused(&server, &claim(0, false)).await;
    assert!(message.contains("is not 0"), "{message}");
    let (_, message) = refused(&server, &claim(1, true)).await;
    assert!(message.contains("waits for its turn"), "{message}");
    let new = [Bytes::from(random(5, 2 * CHUNK))];
    let staged = stage(&server, file.id(), 1, &new).await;
    assert!(staged.unwrap(), "the claim is granted");
    // One of the same number, and one that conflicts.
    match stage(&server, file.id(), 1, &new).await {
        Err(CallError::Failed(failure)) => assert_eq!(failure.code(), Code::Exists),
        other => panic!("{other:?}"),
    }
    assert!(!stage(&stranger, file.id(), 2, &new).await.unwrap());
    // Another client cannot settle it; what has no claim, or was ended, cannot be committed.
    let settle = |operation, step: Step| SettleRequest {
        operation,
        step: step.into(),
        ..SettleRequest::default()
    };
    for step in [Step::Commit, Step::GiveBack, Step::End] {
        let settled = stranger.call(&settle(1, step)).await.unwrap();
        assert!(!settled.known, "{step:?}");
    }
    assert!(!stranger.call(&settle(2, Step::Commit)).await.unwrap().known);
    let mut wrong = settle(1, Step::End);
    wrong.step = 9;
    let (_, message) = refused(&server, &wrong).await;
    assert!(message.contains("unknown step"), "{message}");
    assert!(server.call(&settle(1, Step::End)).await.unwrap().known);
    assert!(!server.call(&settle(1, Step::Commit)).await.unwrap().known);
    assert!(contents(&file).await == data);
    // One that was ended before it came, or aborted by a question for its outcome.
    assert!(!server.call(&settle(3, Step::End)).await.unwrap().known);
    let abort = OutcomeRequest {
        operation: 4,
        abort: true,
    };
    let _ = stranger.call(&abort).await;
    match stage(&server, file.id(), 3, &new).await {
        Err(CallError::Failed(failure)) => assert_eq!(failure.code(), Code::Cancelled),
        other => panic!("{other:?}"),
    }
    assert!(contents(&file).await == data);
    test.stop().await;
}

/// A client that stages chunks and commits none of them is bounded; when it is gone the cleaner
/// brings their space back.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_staged_chunks_is_bounded_and_its_space_comes_back() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let (file, data) = file_of_two(&volume, "/a", Storage::Addressed).await;
    let store = || test.servers[0].as_ref().unwrap().store().unwrap().usage();
    let server = connect(&test, 77).await;
    let before = store().used;
    let mut staged = 0;
    let busy = loop {
        let part = |n| Bytes::from(random(staged * 100 + n, 1 << 20));
        let data: Vec<Bytes> = (0..32).map(part).collect();
        match stage(&server, file.id(), 100 + staged, &data).await {
            Ok(_) => staged += 1,
            Err(CallError::Failed(failure)) => break failure,
            Err(error) => panic!("{error}"),
        }
        assert!(staged < 8, "{staged} times 32 MiB");
    };
    assert_eq!(busy.code(), Code::Busy);
    assert!(busy.message.contains("staged"), "{}", busy.message);
    assert!(staged >= 2 && store().used > before + (64 << 20));
    // Others go on, and what is staged stays while its client is there.
    let other = file_of_two(&volume, "/b", Storage::Addressed).await;
    assert!(contents(&other.0).await == other.1);
    drop(server);
    let freed = async {
        loop {
            volume.clean(ServerId(0), true).await.unwrap();
            if store().used < before + (4 << 20) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let freed = tokio::time::timeout(std::time::Duration::from_secs(30), freed).await;
    assert!(freed.is_ok(), "{} bytes of {before}", store().used);
    assert!(contents(&file).await == data);
    test.stop().await;
}
