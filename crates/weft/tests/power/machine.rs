//! A machine whose power can be cut: the disk, a file system on it, and the processes of a volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::disk::{Cut, Disk};
use super::fuse;

const BYTES: u64 = 3 << 30;
const SERVERS: &str = "2";
/// The timeout of each step, on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

pub struct Machine {
    folder: TempDir,
    disk: Arc<Disk>,
    fuse: Option<JoinHandle<()>>,
    device: Option<String>,
    volume: PathBuf,
    nodes: Vec<i32>,
    boots: u32,
}

/// Whether this machine supports it; prints why not.
fn possible() -> bool {
    let missing = |what: &&&str| !Path::new(what).exists();
    let needed = [
        "/dev/fuse",
        "/dev/loop-control",
        "/usr/sbin/mkfs.ext4",
        "/usr/bin/unshare",
    ];
    if let Some(what) = needed.iter().find(missing) {
        println!("SKIPPED: there is no {what} here");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can mount the disk that loses its power");
        return false;
    }
    true
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().unwrap();
    told(&format!("{program} {arguments:?}"), &output)
}

fn told(what: &str, output: &Output) -> Result<String, String> {
    let out = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(out.trim().to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what}: {}: {out}{errors}", output.status))
}

/// Retries until it succeeds.
fn at_last(what: &str, mut step: impl FnMut() -> Result<(), String>) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = step() {
        assert!(Instant::now() < deadline, "{what}: {error}");
        sleep(Duration::from_millis(5));
    }
}

impl Machine {
    pub fn new() -> Option<Machine> {
        if !possible() {
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix("weft-power-")
            .tempdir()
            .unwrap();
        for name in ["fuse", "mnt"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let disk = Arc::new(Disk::new(folder.path(), BYTES).unwrap());
        let fuse = fuse::mount(&folder.path().join("fuse"), disk.clone()).unwrap();
        let mut machine = Machine {
            volume: folder.path().join("mnt/volume"),
            folder,
            disk,
            fuse: Some(fuse),
            device: None,
            nodes: Vec::new(),
            boots: 0,
        };
        machine.attach().unwrap();
        let device = machine.device.clone().unwrap();
        run("/usr/sbin/mkfs.ext4", &["-q", "-E", "nodiscard", &device]).unwrap();
        machine.mount().unwrap();
        Some(machine)
    }

    pub fn volume(&self) -> &Path {
        &self.volume
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Flushes everything.
    pub fn settle(&self) {
        run("sync", &["-f", self.volume.to_str().unwrap()]).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn attach(&mut self) -> Result<(), String> {
        self.device = Some(run(
            "losetup",
            &["--find", "--show", &self.path("fuse/disk")],
        )?);
        Ok(())
    }

    fn mount(&self) -> Result<(), String> {
        let device = self.device.as_ref().ok_or("no device")?;
        run("mount", &["-t", "ext4", device, &self.path("mnt")]).map(drop)
    }

    /// Starts the volume, with a new boot id.
    pub fn up(&mut self) -> Result<(), String> {
        if self.device.is_none() {
            self.attach()?;
            self.mount()?;
        }
        self.boots += 1;
        let name = self.path("boot");
        fs::write(
            &name,
            format!("00000000-0000-4000-8000-{:012}\n", self.boots),
        )
        .unwrap();
        let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && exec \"$2\" up \"$3\" --servers \"$4\"";
        let weft = env!("CARGO_BIN_EXE_weft");
        let volume = self.volume.to_str().unwrap();
        run(
            "unshare",
            &[
                "--mount", "sh", "-c", script, "sh", &name, weft, volume, SERVERS,
            ],
        )?;
        let status = run(weft, &["status", volume, "--json"])?;
        let status: serde_json::Value = serde_json::from_str(&status).map_err(|e| e.to_string())?;
        let servers = status["servers"].as_array().into_iter().flatten();
        let pids = servers
            .chain([&status["meta"]])
            .filter_map(|node| node["pid"].as_i64());
        self.nodes = pids.map(|pid| i32::try_from(pid).unwrap()).collect();
        Ok(())
    }

    /// Checks the whole volume as an administrator would.
    pub fn check(&self) -> Result<(), String> {
        run(
            env!("CARGO_BIN_EXE_weft"),
            &["fsck", self.volume.to_str().unwrap(), "--data"],
        )
        .map(drop)
    }

    /// Cuts the power: removes the device and kills all processes.
    pub fn cut(&mut self, random: &mut SmallRng) -> Cut {
        let cut = self.disk.cut(random).unwrap();
        self.stop();
        self.disk.power_on();
        cut
    }

    fn stop(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        for pid in nodes.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(device) = self.device.take() {
            let place = self.path("mnt");
            at_last("unmount", || match unmount(&place, UnmountFlags::empty()) {
                // Nothing was mounted.
                Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
                Err(e) => Err(e.to_string()),
            });
            at_last("detach", || {
                run("losetup", &["--detach", &device]).map(drop)
            });
            at_last("detach", || match run("losetup", &[&device]) {
                Ok(still) => Err(still),
                Err(_) => Ok(()),
            });
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The logs show the reason.
            for node in ["meta", "server-0", "server-1"] {
                let log = self.volume.join(format!("log/{node}.log"));
                let text = fs::read_to_string(log).unwrap_or_default();
                let from = text.len().saturating_sub(2000);
                eprintln!("{node}: {}", text.get(from..).unwrap_or_default());
            }
        }
        self.stop();
        let _ = unmount(self.path("fuse").as_str(), UnmountFlags::DETACH);
        if let Some(thread) = self.fuse.take() {
            let _ = thread.join();
        }
    }
}
