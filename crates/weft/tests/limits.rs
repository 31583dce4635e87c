//! A volume under limits of the system, temporary or permanent: descriptors, threads, memory, space
//! for logs. It keeps serving and needs no restart.

mod cgroup_support;
mod ends_support;
mod files_support;
mod one_server;

use std::fs;
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cgroup_support::Group;
use ends_support::Ends;
use files_support::weft;
use one_server::{OneServer, said};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_layout::{Request, ViewOffset};
use weft_net::{BufferPool, Connection, Env, Identity, VolumeKey, Wire};
use weft_proto::io::{Access, Pattern, WriteRequest};
use weft_proto::session::Role;

/// The volume of a test.
struct Volume(OneServer);

impl Deref for Volume {
    type Target = OneServer;

    fn deref(&self) -> &OneServer {
        &self.0
    }
}

impl Volume {
    fn up(before: &str) -> Volume {
        Volume(OneServer::up(before))
    }

    /// Runs a command line of plain words.
    fn weft(&self, line: &str) -> Output {
        let mut command = weft();
        command
            .env("WEFT_VOLUME", self.path())
            .args(line.split(' '));
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn log(&self, node: &str) -> PathBuf {
        self.path().join("log").join(format!("{node}.log"))
    }

    fn address(&self) -> std::net::SocketAddr {
        let text = fs::read_to_string(self.path().join("volume.address")).unwrap();
        text.trim().to_socket_addrs().unwrap().next().unwrap()
    }
}

/// Raises the limit of this process to its maximum.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, most).unwrap();
}

#[test]
fn silent_connections_do_not_exhaust_the_descriptors_of_the_service() {
    raise_descriptors();
    let volume = Volume::up("ulimit -Hn 1024; ulimit -n 1024;");
    let nodes = volume.nodes();
    let address = volume.address();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&ended);
        let creating = scope.spawn(|| {
            let mut created = 0;
            while !ended.load(Ordering::Relaxed) {
                let done = volume.weft(&format!("create /file-{created}"));
                assert!(done.status.success(), "{}", said(&done));
                created += 1;
            }
            created
        });
        let mut silent = Vec::new();
        for _ in 0..1500 {
            // Some are refused at once.
            silent.extend(TcpStream::connect_timeout(&address, Duration::from_secs(5)));
        }
        assert!(silent.len() > 1000, "{}", silent.len());
        for _ in 0..20 {
            let listed = volume.weft("ls /");
            assert!(listed.status.success(), "{}", said(&listed));
        }
        drop(ends);
        assert!(creating.join().unwrap() > 0);
    });
    for _ in 0..20 {
        let listed = volume.weft("ls /");
        assert!(listed.status.success(), "{}", said(&listed));
    }
    assert_eq!(volume.nodes(), nodes, "a node was restarted");
    let log = fs::read_to_string(volume.log("meta")).unwrap();
    assert!(!log.contains("key-value engine"), "{log}");
}

#[test]
fn a_volume_without_new_threads_keeps_serving() {
    let Some(group) = Group::new("pids") else {
        return;
    };
    let volume = Volume::up("");
    let nodes = volume.nodes();
    for node in &nodes {
        group.take(*node);
    }
    let threads = |pid: &i32| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let now: usize = nodes.iter().map(threads).sum();
    group.set(["pids.max", "pids.max"], &now.to_string());
    for number in 0..20 {
        for line in [format!("create /f{number}"), "ls /".to_owned()] {
            let done = volume.weft(&line);
            assert!(done.status.success(), "{line}: {}", said(&done));
        }
    }
    // A command that needs a new thread fails with a message and does not hang.
    let begun = Instant::now();
    let checked = volume.weft("fsck");
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert!(!checked.status.success());
    let reported = said(&checked) + &String::from_utf8_lossy(&checked.stdout);
    assert!(
        reported.contains("cannot start a thread"),
        "{reported} {}",
        checked.status
    );
    group.set(["pids.max", "pids.max"], "max");
    let checked = volume.weft("fsck");
    assert!(checked.status.success(), "{checked:?}");
    volume.down();
}

#[test]
fn a_volume_in_a_small_container_stays_within_its_memory() {
    const LIMIT: u64 = 150 << 20;
    let Some(group) = Group::new("memory") else {
        return;
    };
    group.set(["memory.max", "memory.limit_in_bytes"], &LIMIT.to_string());
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());
    let volume = Volume::up(&enter);
    let nodes = volume.nodes();
    let text = files_support::bytes(7, 100 << 20);
    for name in ["/a", "/b", "/c"] {
        let mut put = weft();
        put.env("WEFT_VOLUME", volume.path()).args(["put", name]);
        let mut put = put.stdin(Stdio::piped()).spawn().unwrap();
        put.stdin.take().unwrap().write_all(&text).unwrap();
        assert!(put.wait().unwrap().success());
    }
    for name in ["/a", "/b", "/c", "/a"] {
        let read = volume.weft(&format!("cat {name}"));
        assert!(read.stdout == text, "{name}: {}", said(&read));
    }
    assert_eq!(volume.nodes(), nodes);
    let resident: u64 = nodes.iter().map(|node| resident(*node)).sum();
    assert!(resident < LIMIT, "{resident}");
    volume.down();
}

/// Anonymous memory of a process.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}

/// A connection with the volume's key.
async fn connect(address: &str, key: VolumeKey, client: u64) -> Connection {
    let identity = Identity {
        key,
        volume: [0; 16],
        role: Role::Client,
        client,
        wire: Wire::Mac,
    };
    let (pool, counters) = (BufferPool::default(), Arc::default());
    let opened = Connection::open(&Env::system(), &identity, address, pool, counters).await;
    opened.unwrap()
}

#[test]
fn partial_payloads_of_many_clients_take_bounded_memory_and_free_it() {
    const CONNECTIONS: u64 = 200;
    // The bound on payloads of all connections, plus the cost of tasks and sockets.
    const BOUND: u64 = (128 << 20) + CONNECTIONS * (256 << 10);
    // The store keeps this much of the received data in memory.
    const CACHE: u64 = 32 << 20;
    // Freed memory stays resident where a small allocation in use shares a huge page with it.
    const PINNED: u64 = 64 << 20;
    raise_descriptors();
    let volume = Volume(OneServer::stopped());
    let mut up = weft();
    up.arg("up").arg(volume.path());
    let up = up.args(["--servers", "1", "--cache", "32M"]).output();
    let up = up.unwrap();
    assert!(up.status.success(), "{}", said(&up));
    let server = volume.nodes()[1];
    let status = volume.weft("status --json");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let address = status["servers"][0]["address"].as_str().unwrap().to_owned();
    let text = fs::read_to_string(volume.path().join("volume.key")).unwrap();
    let digits = text.trim();
    let key = std::array::from_fn(|n| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).unwrap());
    let before = resident(server);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut most, parts) = (0, vec![bytes::Bytes::from(vec![7; 256 << 10]); 64]);
    runtime.block_on(async {
        let mut all = Vec::new();
        for client in 1..=CONNECTIONS {
            let connection = connect(&address, VolumeKey(key), client).await;
            let request = WriteRequest {
                access: Access {
                    file: client + 1000,
                    grid: weft_proto::io::Grid {
                        cells: 1,
                        bsu: 32 << 20,
                        servers: 1,
                    },
                    view: weft_proto::io::View::from(&weft_layout::View::canonical()),
                    pattern: Pattern::from_request(
                        &Request::Contiguous {
                            offset: ViewOffset(0),
                            length: 32 << 20,
                        },
                        false,
                    )
                    .unwrap(),
                    fork: "data".to_owned(),
                    ..Access::default()
                },
                chunk: 256 << 10,
                ..WriteRequest::default()
            };
            let mut out = connection.send(&request, Vec::new(), false).await.unwrap();
            let parts = parts.clone();
            all.push(tokio::spawn(async move {
                // Send half of the payload, as far as the server takes it, and then stop.
                let stall = async {
                    out.more(parts, false).await.unwrap();
                    std::future::pending::<()>().await;
                };
                let _ = tokio::time::timeout(Duration::from_secs(10), stall).await;
                drop(connection);
            }));
        }
        for _ in 0..80 {
            most = most.max(resident(server));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for one in all {
            one.await.unwrap();
        }
    });
    drop(runtime);
    let grown = most.saturating_sub(before);
    println!("{before} before, {most} at most");
    assert!(
        grown < BOUND + CACHE,
        "{grown} bytes for {CONNECTIONS} connections"
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    while resident(server) > before + CACHE + PINNED {
        let left = resident(server) - before;
        assert!(Instant::now() < deadline, "{left} bytes were not freed");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{} after", resident(server));
    let listed = volume.weft("ls /");
    assert!(listed.status.success(), "{}", said(&listed));
}

#[test]
fn a_flood_of_connections_writes_little_to_the_log() {
    let volume = Volume::up("");
    let size = || fs::metadata(volume.log("meta")).unwrap().len();
    let before = size();
    let address = volume.address();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(5) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\nnonsense that proves nothing");
            count += 1;
        }
    }
    let grown = size() - before;
    assert!(
        count > 500 && grown < 16 << 10,
        "{count} connections, {grown} bytes"
    );
    println!("{count} connections, {grown} bytes");
}

#[test]
fn a_large_log_is_rotated() {
    let volume = Volume::up("");
    volume.down();
    let log = volume.log("server-0");
    let lines = "a line of long ago\n".repeat((16 << 20) / 19 + 1);
    fs::write(&log, &lines).unwrap();
    volume.start("");
    let turned = log.with_added_extension("1");
    assert_eq!(fs::read_to_string(turned).unwrap(), lines);
    let new = fs::read_to_string(&log).unwrap();
    assert!(new.contains("serving") && new.len() < 10_000, "{new}");
}
