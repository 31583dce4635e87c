//! The protection of connections between the processes of a real volume.

mod files_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use files_support::weft;
use tempfile::TempDir;

/// A volume whose nodes end with the test.
struct Nodes(TempDir);

impl Nodes {
    fn up(wire: &[&str]) -> Nodes {
        let nodes = Nodes(TempDir::new().unwrap());
        nodes.start(wire).unwrap();
        nodes
    }

    fn folder(&self) -> std::path::PathBuf {
        self.0.path().join("volume")
    }

    fn start(&self, wire: &[&str]) -> Result<(), String> {
        let mut up = weft();
        up.arg("up").arg(self.folder()).args(wire);
        if !self.folder().exists() {
            up.args(["--servers", "1"]);
        }
        let up = up.output().unwrap();
        let said = String::from_utf8_lossy(&up.stderr).into_owned();
        if up.status.success() {
            Ok(())
        } else {
            Err(said)
        }
    }

    fn down(&self) {
        let down = weft().arg("down").arg(self.folder()).output().unwrap();
        assert!(down.status.success());
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap()
    }

    /// Changes the configuration.
    fn edit(&self, from: &str, to: &str) {
        let text = self.read("weft.toml");
        assert!(text.contains(from), "{text}");
        let text = text.replacen(from, to, 1);
        std::fs::write(self.folder().join("weft.toml"), text).unwrap();
    }

    /// Runs a command with the volume at this address. Returns its error message.
    fn ask(&self, address: &str, args: &[&str]) -> String {
        let key = self.folder().join("volume.key");
        let mut command = weft();
        command.args(["--address", address, "--key-file"]).arg(key);
        let output = command.args(args).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = weft().arg("down").arg(self.folder()).output();
    }
}

/// Forwards one connection and records what the client sends.
fn tap(server: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = seen.clone();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = client.read(&mut buffer) {
            heard.lock().unwrap().extend_from_slice(&buffer[..n]);
            if server.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
    });
    (address, seen)
}

#[test]
fn a_tap_between_client_and_service_reads_names_unless_they_are_encrypted() {
    let nodes = Nodes::up(&[]);
    nodes.down();
    // Without local sockets the client stays with the tap.
    nodes.edit("[volume]\n", "[volume]\nlocal_sockets = false\n");
    nodes.start(&[]).unwrap();
    let service = nodes.read("volume.address").trim().to_owned();
    let name = "a-very-telling-name";
    for (wire, readable) in [("mac", true), ("encrypted", false)] {
        let (address, seen) = tap(service.clone());
        let path = format!("/{name}");
        let error = nodes.ask(&address, &["--wire", wire, "stat", &path]);
        assert!(error.contains(name), "the message names the file: {error}");
        let seen = seen.lock().unwrap().clone();
        assert!(!seen.is_empty());
        let found = seen.windows(name.len()).any(|w| w == name.as_bytes());
        assert_eq!(found, readable, "{wire}");
    }
}

fn log(nodes: &Nodes) -> String {
    nodes.read(&Path::new("log").join("meta.log").to_string_lossy())
}

#[test]
fn connections_are_plain_only_if_configured() {
    let nodes = Nodes::up(&[]);
    assert!(
        !nodes.read("weft.toml").contains("wire"),
        "mac is the default"
    );
    assert!(log(&nodes).contains("wire=mac"), "{}", log(&nodes));
    nodes.down();
    let refused = nodes.start(&["--wire", "plain"]).unwrap_err();
    assert!(refused.contains("weft.toml"), "{refused}");
    nodes.edit("[volume]\n", "[volume]\nwire = \"tls\"\n");
    let refused = nodes.start(&[]).unwrap_err();
    assert!(
        refused.contains("none of mac, encrypted, plain"),
        "{refused}"
    );
    for wire in ["plain", "encrypted"] {
        nodes.edit(
            "[volume]\nwire = \"",
            &format!("[volume]\nwire = \"{wire}\" # \""),
        );
        nodes.start(&[]).unwrap();
        assert_eq!(nodes.read("volume.wire").trim(), wire);
        assert!(log(&nodes).contains(&format!("wire={wire}")));
        let warned = log(&nodes).contains("machines on the network path can alter messages");
        assert!(warned, "the log warns about the plain connection");
        let ls = weft()
            .arg("--volume")
            .arg(nodes.folder())
            .arg("ls")
            .output();
        assert!(ls.unwrap().status.success());
        nodes.down();
    }
}

#[test]
fn a_new_volume_has_the_requested_protection() {
    let nodes = Nodes::up(&["--wire", "encrypted"]);
    assert!(nodes.read("weft.toml").contains("wire = \"encrypted\""));
    assert_eq!(nodes.read("volume.wire").trim(), "encrypted");
    let ls = weft()
        .arg("--volume")
        .arg(nodes.folder())
        .arg("ls")
        .output();
    assert!(ls.unwrap().status.success());
}
