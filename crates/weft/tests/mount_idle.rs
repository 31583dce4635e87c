//! Processes that serve requests keep processors out of deep idle states.

mod mount_support;

use std::fs::{self, File};
use std::path::Path;

use mount_support::{Mounted, weft_ok};

const BOUND: &str = "/dev/cpu_dma_latency";

/// Whether this machine certainly has idle states that this user may bound.
fn may_bound() -> bool {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver");
    let has_states = driver.is_ok_and(|driver| driver.trim() == "haltpoll");
    has_states && File::options().write(true).open(BOUND).is_ok()
}

fn can_bound(process: i32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let mut paths = descriptors.flatten().map(|e| fs::read_link(e.path()));
    paths.any(|path| path.is_ok_and(|path| path == Path::new(BOUND)))
}

#[test]
fn processes_that_serve_requests_bound_idle_states_unless_they_are_told_not_to() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    if may_bound() {
        assert!(can_bound(mounted.process()));
        assert!(mounted.nodes().iter().all(|node| can_bound(*node)));
    }

    mounted.unmount();
    mounted.mount("deep_idle");
    assert!(!can_bound(mounted.process()));

    mounted.unmount();
    let volume = mounted.volume.to_str().unwrap();
    weft_ok(&["down", volume]);
    let config = mounted.volume.join("weft.toml");
    let text = fs::read_to_string(&config).unwrap();
    let deep = text.replacen("[volume]\n", "[volume]\nshallow_idle = false\n", 1);
    assert_ne!(deep, text);
    fs::write(&config, deep).unwrap();
    weft_ok(&["up", volume]);
    assert!(mounted.nodes().iter().all(|node| !can_bound(*node)));
}
