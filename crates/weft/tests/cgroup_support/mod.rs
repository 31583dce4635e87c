//! Control groups of tests.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A control group for one test; `None` if this process may not make one.
pub struct Group(pub PathBuf);

impl Group {
    pub fn new(controller: &str) -> Option<Group> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("weft-test-{controller}-{}", std::process::id());
        let first = root.join(controller);
        if first.is_dir() {
            let group = first.join(name);
            fs::create_dir(&group).ok()?;
            return Some(Group(group));
        }
        let all = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
        if !all.split_whitespace().any(|name| name == controller) {
            return None;
        }
        let group = root.join(name);
        fs::create_dir(&group).ok()?;
        Some(Group(group))
    }

    pub fn set(&self, names: [&str; 2], value: &str) {
        let file = names.map(|name| self.0.join(name));
        let file = file.iter().find(|file| file.exists()).unwrap();
        fs::write(file, value).unwrap();
    }

    pub fn take(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
