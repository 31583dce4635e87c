//! Named sockets on a mount: the kernel connects their programs.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use crate::mount_support::{Mounted, sh};

#[test]
fn programs_connect_by_a_socket_until_its_name_is_removed() {
    let Some(m) = Mounted::new() else { return };
    let (first, name) = (m.file("first"), m.file("socket"));
    let listener = UnixListener::bind(&first).unwrap();
    assert!(
        fs::symlink_metadata(&first)
            .unwrap()
            .file_type()
            .is_socket()
    );
    let again = UnixListener::bind(&first).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    fs::rename(&first, &name).unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard.reverse();
        stream.write_all(&heard).unwrap();
    });
    let mut stream = UnixStream::connect(&name).unwrap();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    answers.join().unwrap();
    assert!(heard.iter().rev().eq(&sent));
    // The name stays, but no process listens.
    let error = UnixStream::connect(&name).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    fs::remove_file(&name).unwrap();
    let error = UnixStream::connect(&name).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn datagrams_reach_a_socket_that_the_sender_may_write() {
    let Some(m) = Mounted::new() else { return };
    fs::set_permissions(&m.path, Permissions::from_mode(0o755)).unwrap();
    let socket = UnixDatagram::bind(m.file("s")).unwrap();
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .unwrap();
    let send = "socket(S, AF_UNIX, SOCK_DGRAM, 0); \
                print send(S, q(hello), 0, sockaddr_un(q(s))) ? q(yes) : $!";
    let sends = |mode| {
        fs::set_permissions(m.file("s"), Permissions::from_mode(mode)).unwrap();
        sh(
            &m.path,
            &format!(
                "setpriv --reuid 1000 --regid 1000 --clear-groups env LC_ALL=C perl -MSocket -e '{send}'"
            ),
        )
    };
    assert_eq!(sends(0o755), "Permission denied");
    assert_eq!(sends(0o722), "yes");
    let mut heard = [0; 10];
    assert_eq!(socket.recv(&mut heard).unwrap(), 5);
    assert_eq!(&heard[..5], b"hello");
}
