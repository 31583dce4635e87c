//! Servers and replicas that come and go while the volume is used.

mod replicas_support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use replicas_support::{DETECTION, Replicated, Which, content, expect, text, weft, write};
use rustix::process::Signal;
use serde_json::Value;
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::ViewOffset;

const LENGTH: usize = 1_234_567;

async fn create(volume: &Volume, path: &str, servers: &[u32]) -> File {
    let layout = NewLayout {
        cells: Some(servers.len() as u32),
        bsu: Some(10_000),
        servers: servers.to_vec(),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

impl Replicated {
    fn server(&self, args: &[&str]) -> String {
        let out = weft(&[&["--volume", self.path(), "server"], args].concat());
        assert!(out.status.success(), "{args:?}: {}", text(&out));
        text(&out)
    }

    fn refused(&self, args: &[&str]) -> String {
        let out = weft(&[&["--volume", self.path(), "server"], args].concat());
        assert!(!out.status.success(), "{args:?}: {}", text(&out));
        text(&out)
    }

    /// The nodes and their states.
    fn nodes(&self) -> Vec<(String, String)> {
        let listed: Value = serde_json::from_str(&self.server(&["list", "--json"])).unwrap();
        let node = |row: &Value| {
            let field = |name: &str| row[name].as_str().unwrap().to_owned();
            (field("node"), field("state"))
        };
        listed.as_array().unwrap().iter().map(node).collect()
    }

    fn names(&self) -> Vec<String> {
        self.nodes().into_iter().map(|(name, _)| name).collect()
    }

    fn address(&self) -> String {
        let text = std::fs::read_to_string(self.folder().join("volume.address")).unwrap();
        text.trim().to_owned()
    }

    fn key(&self) -> String {
        self.folder()
            .join("volume.key")
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn config(&self) -> toml::Table {
        let text = std::fs::read_to_string(self.folder().join("weft.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }

    /// Whether the configuration names a node.
    fn has_section(&self, id: u32, replica: u32) -> bool {
        let config = self.config();
        let sections = config.get("server").and_then(|s| s.as_array());
        let sections = sections.into_iter().flatten();
        let number = |section: &toml::Value, key: &str| {
            section.get(key).map_or(0, |n| n.as_integer().unwrap())
        };
        sections
            .map(|s| (number(s, "id"), number(s, "replica")))
            .any(|found| found == (id.into(), replica.into()))
    }
}

/// Writes pieces over and over until it is told to stop; the last version of each.
async fn keep_writing(file: Arc<File>, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut versions = vec![0; 40];
    let view = file.canonical().unwrap();
    let mut version = 0;
    while !stop.load(Ordering::Relaxed) {
        version += 1;
        let piece = (version * 7 % versions.len() as u64) as usize;
        let offset = piece as u64 * 5000;
        let began = Instant::now();
        let data = content(version, offset, 5000);
        view.write_at(ViewOffset(offset), data).await.unwrap();
        assert!(began.elapsed() < DETECTION, "{:?}", began.elapsed());
        versions[piece] = version;
        tokio::task::yield_now().await;
    }
    versions
}

async fn expect_all(file: &File, versions: &[u64]) {
    for (piece, version) in versions.iter().enumerate().filter(|(_, v)| **v > 0) {
        expect(file, *version, piece as u64 * 5000, 5000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_server_becomes_redundant_and_moves_while_it_is_written() {
    let up = Replicated::of(1, 1);
    let volume = up.client().await;
    let file = Arc::new(create(&volume, "/f", &[0]).await);
    let old = create(&volume, "/old", &[0]).await;
    write(&old, 1, 0, LENGTH).await;
    volume.make_checkpoint("/old", "first").await.unwrap();
    write(&old, 2, 300_000, 200_000).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(keep_writing(file.clone(), stop.clone()));
    assert!(
        up.server(&["add", "--replica-of", "0"])
            .contains("server-0.1")
    );
    up.in_sync().await;
    // The first one leaves, and with it its process and its section.
    let said = up.server(&["replace", "server-0"]);
    assert!(said.contains("server-0 has left"), "{said}");
    assert_eq!(up.names(), ["server-0.1", "server-0.2"]);
    assert!(!up.has_section(0, 0) && up.has_section(0, 2));
    std::fs::remove_dir_all(up.folder().join("server-0")).unwrap();
    up.in_sync().await;
    stop.store(true, Ordering::Relaxed);
    let versions = writing.await.unwrap();
    assert!(versions.iter().filter(|v| **v > 0).count() == 40);
    file.sync().await.expect("nothing is lost");
    for _ in 0..2 {
        up.signal(0, Which::Primary, Signal::KILL);
        expect_all(&file, &versions).await;
        expect(&old, 2, 300_000, 200_000).await;
        expect(&old, 1, 0, 300_000).await;
        up.start();
        up.in_sync().await;
    }
    // After a stop of everything, too.
    drop((file, old, volume));
    assert!(weft(&["down", up.path()]).status.success());
    up.start();
    let volume = up.client().await;
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect_all(&file, &versions).await;
    volume.roll_back("/old", "first").await.unwrap();
    let old = volume.attach("/old", Access::read()).await.unwrap();
    expect(&old, 1, 0, LENGTH).await;
    let found = weft(&["fsck", up.path(), "--data"]);
    assert!(found.status.success(), "{}", text(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_is_replaced_by_the_replica_that_is_left() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let (lost, _) = up.signal(0, Which::Primary, Signal::KILL);
    write(&file, 2, 100_000, 50_000).await;
    std::fs::remove_dir_all(up.folder().join(&lost)).unwrap();
    let said = up.server(&["replace", &lost]);
    assert!(said.contains(&format!("{lost} has left")), "{said}");
    up.in_sync().await;
    assert!(!up.names().contains(&lost));
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, 100_000).await;
    expect(&file, 2, 100_000, 50_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_leaves_and_the_last_one_stays() {
    let up = Replicated::of(1, 3);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let primary = up.replica(0, Which::Primary).0;
    let began = Instant::now();
    let said = up.server(&["remove", &primary]);
    assert!(said.contains("has left the volume"), "{said}");
    assert!(began.elapsed() < DETECTION, "{:?}", began.elapsed());
    // The two others are in sync all the time.
    assert!(
        up.nodes().iter().all(|(_, state)| state == "in sync"),
        "{:?}",
        up.nodes()
    );
    expect(&file, 1, 0, LENGTH).await;
    write(&file, 2, 0, 70_000).await;
    file.sync().await.expect("nothing is lost");
    let backup = up.replica(0, Which::Backup).0;
    up.server(&["remove", &backup]);
    let left = up.names();
    assert_eq!(left.len(), 1);
    let said = up.refused(&["remove", &left[0]]);
    assert!(said.contains("no other replica would stay"), "{said}");
    expect(&file, 2, 0, 70_000).await;
    // What has left is not expected to run here.
    assert!(weft(&["down", up.path()]).status.success());
    up.start();
    expect(&file, 2, 0, 70_000).await;
    // Numbers are not given again.
    let said = up.server(&["add", "--replica-of", "any"]);
    assert!(said.contains("server-0.3"), "{said}");
    up.in_sync().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_waits_for_the_others_and_can_be_taken_back() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let primary = up.replica(0, Which::Primary).0;
    let (backup, _) = up.signal(0, Which::Backup, Signal::KILL);
    while up
        .nodes()
        .iter()
        .any(|(name, state)| *name == backup && state != "away")
    {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    up.server(&["remove", "--no-wait", &primary]);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(up.names().contains(&primary), "it holds the only copy");
    let listed = up.server(&["list"]);
    assert!(listed.contains("leaving"), "{listed}");
    up.server(&["remove", "--cancel", &primary]);
    up.start();
    up.in_sync().await;
    assert_eq!(up.names().len(), 2);
    // Now it can.
    up.server(&["remove", &primary]);
    assert_eq!(up.names(), [backup]);
    expect(&file, 1, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_joins_with_the_address_and_the_key_alone() {
    let up = Replicated::of(1, 1);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let elsewhere = tempfile::Builder::new()
        .prefix("weft-join-")
        .tempdir()
        .unwrap();
    let join = |name: &str, options: &[&str]| {
        let folder = elsewhere.path().join(name);
        let (address, key) = (up.address(), up.key());
        let common = [
            "join",
            &address,
            "--key-file",
            &key,
            "--folder",
            folder.to_str().unwrap(),
        ];
        weft(&[&common, options].concat())
    };
    let down = Down(vec!["a", "b", "c"], elsewhere.path());
    // A new server gets new files.
    let out = join("a", &[]);
    assert!(
        out.status.success() && text(&out).contains("server-1"),
        "{}",
        text(&out)
    );
    let new = create(&volume, "/new", &[1]).await;
    write(&new, 1, 0, LENGTH).await;
    let spread = volume
        .attach("/spread", Access::read_write().create_new(0o644))
        .await
        .unwrap();
    write(&spread, 1, 0, LENGTH).await;
    assert_eq!(spread.layout().servers().len(), 2);
    // Its folder is a volume's for commands, and it can be stopped and started.
    let folder = elsewhere.path().join("a");
    let folder = folder.to_str().unwrap();
    for command in ["down", "up"] {
        let out = weft(&[command, folder]);
        assert!(out.status.success(), "{command}: {}", text(&out));
    }
    assert!(text(&weft(&["--volume", folder, "ls"])).contains("spread"));
    expect(&new, 1, 0, LENGTH).await;
    // Another machine becomes a replica of the first server, and one in its place.
    let out = join("b", &["--replica-of", "any", "--domain", "rack-1"]);
    assert!(
        out.status.success() && text(&out).contains("server-0.1"),
        "{}",
        text(&out)
    );
    let out = join("c", &["--replica-of", "0", "--domain", "rack-1"]);
    assert!(!out.status.success(), "both would be lost together");
    assert!(text(&out).contains("failure domain"), "{}", text(&out));
    let out = join("c", &["--replace", "server-0", "--domain", "rack-2"]);
    assert!(
        out.status.success() && text(&out).contains("server-0 has left"),
        "{}",
        text(&out)
    );
    assert_eq!(up.names(), ["server-0.1", "server-0.2", "server-1"]);
    expect(&file, 1, 0, LENGTH).await;
    write(&file, 2, 0, 10_000).await;
    // A process that has left serves nothing, and is named.
    let out = weft(&["up", up.path()]);
    assert!(out.status.success(), "{}", text(&out));
    assert!(
        text(&out).contains("server-0 is no replica of server 0 any more"),
        "{}",
        text(&out)
    );
    let said = up.server(&["remove", "server-0"]);
    assert!(said.contains("section was removed"), "{said}");
    assert!(!up.has_section(0, 0));
    // So is a joined one, whose folder is all there is of it.
    up.server(&["remove", "server-0.1"]);
    let folder = elsewhere.path().join("b");
    let out = weft(&[
        "--volume",
        folder.to_str().unwrap(),
        "server",
        "remove",
        "server-0.1",
    ]);
    assert!(
        out.status.success() && text(&out).contains("can be removed"),
        "{}",
        text(&out)
    );
    // An address that is not this machine's is refused before the volume counts with it.
    let out = join("d", &["--listen", "192.0.2.1:4711"]);
    assert!(
        !out.status.success() && text(&out).contains("cannot listen"),
        "{}",
        text(&out)
    );
    assert_eq!(up.names(), ["server-0.2", "server-1"]);
    expect(&file, 2, 0, 10_000).await;
    drop(down);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_added_server_is_one_of_the_volume() {
    let up = Replicated::of(1, 1);
    assert!(up.server(&["add"]).contains("server-1"));
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0, 1]).await;
    write(&file, 1, 0, LENGTH).await;
    drop((file, volume));
    assert!(weft(&["down", up.path()]).status.success());
    up.start();
    let volume = up.client().await;
    let file = volume.attach("/f", Access::read()).await.unwrap();
    expect(&file, 1, 0, LENGTH).await;
    assert!(weft(&["fsck", up.path()]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_join_is_repeated_or_refused_but_never_another() {
    let up = Replicated::of(1, 1);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    // It joins, and does not come to serve in time.
    let early = up.refused(&["add", "--replica-of", "0", "--wait", "0"]);
    assert!(
        early.contains("wait longer") || early.contains("do not serve"),
        "{early}"
    );
    // Another command must not take it for its own: this one would drop the only store.
    let said = up.refused(&["replace", "server-0"]);
    assert!(said.contains("did not end"), "{said}");
    expect(&file, 1, 0, LENGTH).await;
    let said = up.server(&["add", "--replica-of", "0"]);
    assert!(said.contains("server-0.1"), "{said}");
    up.in_sync().await;
    assert_eq!(up.names(), ["server-0", "server-0.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_server_gets_no_replica_that_shows_other_bytes() {
    let up = Replicated::with(1, 1, &["--cache", "8 MiB"]);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let large = create(&volume, "/large", &[0]).await;
    for piece in 0..40 {
        write(&large, 3, piece << 20, 1 << 20).await;
    }
    file.sync().await.unwrap();
    up.damage("server-0", &content(1, 0, 64));
    up.server(&["add", "--replica-of", "0"]);
    let began = Instant::now();
    while !up.server(&["list"]).contains("hindered") {
        assert!(began.elapsed() < 3 * DETECTION, "{}", up.server(&["list"]));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(
        up.server(&["list"]).contains("checksum"),
        "{}",
        up.server(&["list"])
    );
    // Whole again, it is in sync with the next attempt.
    write(&file, 2, 0, LENGTH).await;
    up.in_sync().await;
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 2, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spare_takes_the_place_of_a_replica_that_stays_away() {
    let up = Replicated::of(1, 2);
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0]).await;
    write(&file, 1, 0, LENGTH).await;
    let elsewhere = tempfile::Builder::new()
        .prefix("weft-spare-")
        .tempdir()
        .unwrap();
    let folder = elsewhere.path().join("spare");
    let folder = folder.to_str().unwrap();
    let (address, key) = (up.address(), up.key());
    let args = [
        "join",
        &address,
        "--key-file",
        &key,
        "--folder",
        folder,
        "--spare",
        "--after",
        "3s",
    ];
    let mut spare = std::process::Command::new(env!("CARGO_BIN_EXE_weft"));
    let mut spare = spare
        .args(args)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let down = Down(vec!["spare"], elsewhere.path());
    // Shorter than it waits.
    let (lost, _) = up.signal(0, Which::Backup, Signal::KILL);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    up.start();
    up.in_sync().await;
    assert!(spare.try_wait().unwrap().is_none(), "it is not needed");
    up.signal(0, Which::Backup, Signal::KILL);
    let began = Instant::now();
    while spare.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < 4 * DETECTION, "{:?}", up.nodes());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(spare.wait().unwrap().success());
    up.in_sync().await;
    assert!(!up.names().contains(&lost), "{:?}", up.names());
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, LENGTH).await;
    // Run again, it starts the node.
    assert!(weft(&["down", folder]).status.success());
    let out = weft(&args);
    assert!(out.status.success(), "{}", text(&out));
    expect(&file, 1, 0, LENGTH).await;
    drop(down);
}

/// Lets each of three machines have an address of its own: replica r of server s is on machine
/// s + r.
fn spread_over_machines(up: &Replicated, rebuild_after: &str) {
    assert!(weft(&["down", up.path()]).status.success());
    let mut config = up.config();
    let volume = config["volume"].as_table_mut().unwrap();
    volume.insert("rebuild_after".into(), rebuild_after.into());
    for section in config["server"].as_array_mut().unwrap() {
        let number = |key: &str| section.get(key).map_or(0, |n| n.as_integer().unwrap());
        let machine = (number("id") + number("replica")) % 3 + 2;
        let address = section["address"].as_str().unwrap();
        let address = address.replace("127.0.0.1", &format!("127.0.0.{machine}"));
        section["address"] = address.into();
    }
    let text = toml::to_string(&config).unwrap();
    std::fs::write(up.folder().join("weft.toml"), text).unwrap();
    up.start();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_machine_held_is_rebuilt_on_the_others_without_a_command() {
    let up = Replicated::of(3, 2);
    spread_over_machines(&up, "2s");
    up.in_sync().await;
    let volume = up.client().await;
    let file = create(&volume, "/f", &[0, 1, 2]).await;
    write(&file, 1, 0, LENGTH).await;
    // Machine 2 has replica 0 of server 0 and replica 1 of server 2.
    let lost = ["server-0", "server-2.1"];
    let status = up.status();
    for server in status["servers"].as_array().unwrap() {
        for replica in server["replicas"].as_array().unwrap() {
            if lost.contains(&replica["node"].as_str().unwrap()) {
                let pid = replica["pid"].as_i64().unwrap() as i32;
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                rustix::process::kill_process(pid, Signal::KILL).unwrap();
            }
        }
    }
    let began = Instant::now();
    while lost
        .iter()
        .any(|lost| up.names().iter().any(|name| name == lost))
    {
        assert!(began.elapsed() < 6 * DETECTION, "{:?}", up.nodes());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    up.in_sync().await;
    let listed: Value = serde_json::from_str(&up.server(&["list", "--json"])).unwrap();
    let mut nodes: Vec<String> = Vec::new();
    for node in listed.as_array().unwrap() {
        let (host, _) = node["address"].as_str().unwrap().rsplit_once(':').unwrap();
        nodes.push(format!("{} {host}", node["node"].as_str().unwrap()));
    }
    let expected = [
        "server-0.1 127.0.0.3",
        "server-0.2 127.0.0.4",
        "server-1 127.0.0.3",
        "server-1.1 127.0.0.4",
        "server-2 127.0.0.4",
        "server-2.2 127.0.0.3",
    ];
    assert_eq!(nodes, expected);
    // They have the data: the others can be lost.
    up.signal(0, Which::Primary, Signal::KILL);
    expect(&file, 1, 0, LENGTH).await;
    // They are nodes like all others.
    assert!(up.has_section(0, 2) && up.has_section(2, 2));
    assert!(weft(&["down", up.path()]).status.success());
    up.start();
    expect(&file, 1, 0, LENGTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_leaves_when_another_machine_has_what_it_held() {
    // One store each; a plain server on machine 2, 3 and 4.
    let up = Replicated::of(3, 1);
    spread_over_machines(&up, "1h");
    let volume = up.client().await;
    let file = Arc::new(create(&volume, "/f", &[0]).await);
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(keep_writing(file.clone(), stop.clone()));
    // Without a successor it stays.
    let out = weft(&[
        "--volume",
        up.path(),
        "server",
        "drain",
        "--no-wait",
        "server-0",
    ]);
    assert!(out.status.success(), "{}", text(&out));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(up.names(), ["server-0", "server-1", "server-2"]);
    let status = up.status();
    assert_eq!(
        (&status["redundant"], &status["servers"][0]["missing"]),
        (&false.into(), &1.into())
    );
    assert!(
        up.server(&["drain", "--cancel", "server-0"])
            .contains("stays")
    );
    up.in_sync().await;
    let began = Instant::now();
    let said = up.server(&["drain", "server-0"]);
    assert!(said.contains("server-0 has left the volume"), "{said}");
    assert!(began.elapsed() < 6 * DETECTION, "{:?}", began.elapsed());
    assert_eq!(up.names(), ["server-0.1", "server-1", "server-2"]);
    assert!(!up.has_section(0, 0) && up.has_section(0, 1));
    std::fs::remove_dir_all(up.folder().join("server-0")).unwrap();
    stop.store(true, Ordering::Relaxed);
    let versions = writing.await.unwrap();
    expect_all(&file, &versions).await;
    file.sync().await.expect("nothing is lost");
    up.in_sync().await;
}

/// Stops what has joined.
struct Down<'a>(Vec<&'static str>, &'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        for name in &self.0 {
            weft(&["down", self.1.join(name).to_str().unwrap()]);
        }
    }
}
