//! Which peers the handshake accepts, and the error that each refused peer gets.

use crate::common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use tokio::io::AsyncReadExt;
use weft_net::{Bounds, ConnectError, Env, Identity, VolumeKey, Wire};
use weft_proto::prost::Message;
use weft_proto::session::{Challenge, Hello, Proof, Role, Welcome};
use weft_proto::{Code, Failure, Flags, Kind, Retry, VERSION, limits};

fn refusal(error: &ConnectError) -> &Failure {
    match error {
        ConnectError::Refused { failure, .. } => failure,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn both_sides_learn_the_identity_of_the_other() {
    let server = Server::by_tcp().await;
    let connection = server.connect().await;
    assert_eq!(connection.server(), Some(SERVER));
    within(connection.call(&sync(1))).await.unwrap();
    assert_eq!(
        server
            .fixture
            .opened
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
    drop(connection);
    let closed = &server.fixture.closed;
    until("the service sees the connection close", || {
        closed.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_know_the_volume_yet_is_served() {
    let server = Server::usual().await;
    let stranger = Identity {
        volume: [0; 16],
        ..identity()
    };
    let connection = connect_as(&Env::system(), &stranger, &server.address)
        .await
        .unwrap();
    within(connection.call(&sync(1))).await.unwrap();
}

#[tokio::test]
async fn a_client_with_a_wrong_key_gets_a_clear_refusal() {
    let server = Server::usual().await;
    let wrong = Identity {
        key: VolumeKey([8; 32]),
        ..identity()
    };
    let refused = connect_as(&Env::system(), &wrong, &server.address).await;
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(refusal(&error).code(), Code::Unauthenticated);
    assert!(error.to_string().contains("the key is wrong"), "{error}");
    within(server.connect().await.call(&sync(1))).await.unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_prove_the_key_is_refused_as_an_impostor() {
    let (listener, address) = listener().await;
    let faking = tokio::spawn(async move {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        raw.receive().await.unwrap();
        let end = Flags::REPLY.with(Flags::LAST);
        let challenge = Challenge {
            version: VERSION,
            nonce: Bytes::from_static(&[3; 32]),
            volume: Bytes::from_static(&VOLUME),
            local: String::new(),
            wire: Wire::Plain as i32,
        };
        raw.send(Kind::Hello, end, 1, &challenge, &[]).await;
        let given = Proof::decode(&raw.receive().await.unwrap().body[..]).unwrap();
        // Without the key the server can only return the client's own proof.
        let welcome = Welcome {
            proof: given.proof,
            server: Some(SERVER),
            window: 1 << 20,
            calls: 8,
            incarnation: 0,
        };
        raw.send(Kind::Proof, end, 2, &welcome, &[]).await;
        // The client sends nothing more.
        let mut more = Vec::new();
        within(raw.stream.read_to_end(&mut more)).await.unwrap();
        assert!(more.is_empty());
    });
    let refused = within(connect(&Env::system(), &address)).await;
    assert!(matches!(
        refused.map(|_| ()),
        Err(ConnectError::Impostor { .. })
    ));
    within(faking).await.unwrap();
}

#[tokio::test]
async fn either_side_refuses_a_peer_of_another_volume() {
    let server = Server::usual().await;
    let other = Identity {
        volume: [1; 16],
        ..identity()
    };
    let refused = connect_as(&Env::system(), &other, &server.address).await;
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(refusal(&error).code(), Code::WrongVolume);

    let (listener, address) = listener().await;
    tokio::spawn(async move {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        raw.receive().await.unwrap();
        let challenge = Challenge {
            version: VERSION,
            nonce: Bytes::from_static(&[3; 32]),
            volume: Bytes::from_static(&[4; 16]),
            local: String::new(),
            wire: Wire::Plain as i32,
        };
        raw.send(
            Kind::Hello,
            Flags::REPLY.with(Flags::LAST),
            1,
            &challenge,
            &[],
        )
        .await;
        raw.closed().await;
    });
    let error = within(connect(&Env::system(), &address))
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refusal(&error).code(), Code::WrongVolume);
}

async fn refused_hello(address: &str, hello: &Hello) -> Failure {
    let mut raw = Raw::dial(address).await;
    raw.send(Kind::Hello, Flags::LAST, 1, hello, &[]).await;
    let frame = raw.receive().await.expect("a failure");
    let end = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    assert_eq!((frame.header.flags, frame.header.kind), (end, Kind::Hello));
    assert!(raw.receive().await.is_none(), "the connection is closed");
    Failure::decode(&frame.body[..]).unwrap()
}

#[tokio::test]
async fn a_refusal_of_another_version_names_the_versions_of_the_client() {
    let server = Server::usual().await;
    for (oldest, newest) in [(VERSION + 1, VERSION + 7), (0, 0)] {
        let hello = Hello {
            version_oldest: oldest,
            version_newest: newest,
            ..hello(&VOLUME)
        };
        let failure = refused_hello(&server.address, &hello).await;
        assert_eq!(failure.code(), Code::Version);
        assert!(
            failure.message.contains(&format!("{oldest} to {newest}")),
            "{}",
            failure.message
        );
    }
}

#[tokio::test]
async fn a_newer_client_that_supports_this_version_is_served() {
    let server = Server::usual().await;
    let newer = Hello {
        version_newest: VERSION + 5,
        ..hello(&VOLUME)
    };
    Raw::prove_with(&server.address, &newer.encode_to_vec()).await;
}

#[tokio::test]
async fn unknown_fields_in_a_hello_are_ignored() {
    let server = Server::usual().await;
    let mut later = hello(&VOLUME).encode_to_vec();
    later.extend_from_slice(&[0xf8, 0x06, 0x01]); // field 111
    Raw::prove_with(&server.address, &later).await;
}

#[tokio::test]
async fn an_illegal_hello_is_refused() {
    let server = Server::usual().await;
    let nonce = Bytes::from_static(&[1; 31]);
    let illegal = [
        Hello {
            nonce,
            ..hello(&VOLUME)
        },
        Hello {
            role: Role::Unspecified as i32,
            ..hello(&VOLUME)
        },
        Hello {
            role: 99,
            ..hello(&VOLUME)
        },
        Hello {
            reply_window: limits::REPLY_WINDOW_MIN - 1,
            ..hello(&VOLUME)
        },
    ];
    for hello in illegal {
        assert_eq!(
            refused_hello(&server.address, &hello).await.code(),
            Code::Invalid
        );
    }
}

#[tokio::test]
async fn a_proof_is_valid_for_one_challenge_only() {
    let server = Server::usual().await;
    let hello = hello(&VOLUME).encode_to_vec();
    let mut proofs = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::dial(&server.address).await;
        raw.try_send(Kind::Hello, Flags::LAST, 1, &hello, &[])
            .await
            .unwrap();
        let challenge = raw.receive().await.unwrap();
        proofs.push(proof(&KEY, "weft client", &hello, &challenge.body));
        let replayed = Proof {
            proof: proofs[0].clone(),
        };
        raw.send(Kind::Proof, Flags::LAST, 2, &replayed, &[]).await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer.header.flags.has(Flags::FAILED), proofs.len() == 2);
    }
    assert_ne!(proofs[0], proofs[1]);
}

#[tokio::test]
async fn no_call_is_served_before_the_proof() {
    let server = Server::usual().await;
    let mut raw = Raw::dial(&server.address).await;
    raw.send(Kind::Sync, Flags::LAST, 1, &sync(1), &[]).await;
    assert!(raw.receive().await.unwrap().header.flags.has(Flags::FAILED));
    assert!(raw.receive().await.is_none());

    let mut raw = Raw::dial(&server.address).await;
    raw.send(Kind::Hello, Flags::LAST, 1, &hello(&VOLUME), &[])
        .await;
    raw.receive().await.unwrap();
    raw.send(Kind::Sync, Flags::LAST, 2, &sync(1), &[]).await;
    assert!(raw.receive().await.is_none());
    assert_eq!(server.counters.snapshot().calls, []);
}

#[tokio::test]
async fn a_client_beyond_the_connection_limit_is_refused_as_busy() {
    let bounds = Bounds {
        connections: 1,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        standard,
    )
    .await;
    let first = server.connect().await;
    let error = connect(&Env::system(), &server.address)
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(
        (refusal(&error).code(), refusal(&error).retry()),
        (Code::Busy, Retry::Later)
    );
    within(first.call(&sync(1))).await.unwrap();
    drop(first);
    within(async {
        while connect(&Env::system(), &server.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_connect_that_times_out_leaves_no_stream_open() {
    let (listener, address) = listener().await;
    let mut env = Env::system();
    env.timing.connect = Duration::from_millis(100);
    let (refused, accepted) = tokio::join!(connect(&env, &address), listener.accept());
    assert!(matches!(
        refused.map(|_| ()),
        Err(ConnectError::Timeout { .. })
    ));
    Raw::over(accepted.unwrap().0).closed().await;
}

#[tokio::test]
async fn a_refused_or_reset_connection_is_reported_as_unreachable() {
    let (listener, address) = listener().await;
    drop(listener);
    let refused = connect(&Env::system(), &address).await;
    assert!(matches!(
        refused.map(|_| ()),
        Err(ConnectError::Unreachable { .. })
    ));

    let (listener, address) = common::listener().await;
    let env = Env::system();
    let (refused, _) = tokio::join!(connect(&env, &address), async {
        Raw::over(listener.accept().await.unwrap().0)
            .receive()
            .await
    });
    let error = refused.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, ConnectError::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_first_frame_that_is_not_a_request_is_refused() {
    let server = Server::usual().await;
    let hello = hello(&VOLUME).encode_to_vec();
    let reply = Flags::REPLY.with(Flags::LAST);
    let failed = Flags::FAILED.with(Flags::LAST);
    for (flags, id) in [
        (Flags::LAST, 0),
        (reply, 1),
        (failed, 1),
        (Flags::default(), 1),
    ] {
        let mut raw = Raw::dial(&server.address).await;
        raw.try_send(Kind::Hello, flags, id, &hello, &[])
            .await
            .unwrap();
        let refused = raw.receive().await.unwrap();
        assert!(refused.header.flags.has(Flags::FAILED), "{flags:?} {id}");
        let failure = Failure::decode(&refused.body[..]).unwrap();
        assert_eq!(failure.code(), Code::Invalid);
        assert!(raw.receive().await.is_none());
    }
}

#[tokio::test]
async fn a_call_with_request_id_0_is_refused() {
    let server = Server::usual().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Sync, Flags::LAST, 0, &sync(1), &[]).await;
    assert!(raw.receive().await.is_none());
}
