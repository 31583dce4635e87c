//! Nodes that still run although their folder was removed, moved or replaced, so that their lock is
//! not found there. Their command lines still name the volume that they serve.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::volume_config::config::file::FILE;

/// A node whose process runs.
pub(crate) struct OrphanProcess {
    /// `meta` or `server-N`.
    pub(crate) name: String,
    pub(crate) pid: Pid,
}

/// The processes of this user that `weft up` started as nodes of the volume in this folder. Those
/// that were found by their locks are among them while they run.
pub(crate) fn orphans(base: &Path) -> Vec<OrphanProcess> {
    let Ok(config) = fs::metadata(base.join(FILE)) else {
        return Vec::new();
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let (name, served) = node_of(&fs::read(entry.path().join("cmdline")).ok()?)?;
        // As the process sees it: in another container the same path is another volume.
        let served = fs::metadata(seen_by(&entry.path(), &served)).ok()?;
        let same = (served.dev(), served.ino()) == (config.dev(), config.ino());
        let pid = Pid::from_raw(pid).filter(|_| same)?;
        Some(OrphanProcess { name, pid })
    });
    processes.collect()
}

/// A path as the process of this entry of /proc sees it.
fn seen_by(process: &Path, path: &Path) -> PathBuf {
    let root = process.join("root");
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The node that a command line of `weft up` starts, and its configuration.
fn node_of(line: &[u8]) -> Option<(String, PathBuf)> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).skip(1).collect();
    let after = |option: &[u8]| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    if words.first() != Some(&&b"serve"[..]) || !words.contains(&&b"--detach"[..]) {
        return None;
    }
    let name = match (after(b"--role")?, after(b"--server")) {
        (b"meta", _) => "meta".to_owned(),
        (b"io", Some(id)) => format!("server-{}", String::from_utf8_lossy(id)),
        _ => return None,
    };
    let config = OsString::from_vec(after(b"--config")?.to_vec());
    Some((name, PathBuf::from(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_command_lines_that_start_a_node_count_as_nodes() {
        let node = |line: &str| node_of(line.replace(' ', "\0").as_bytes());
        let config = PathBuf::from("/v/weft.toml");
        assert_eq!(
            node("/bin/weft serve --config /v/weft.toml --role meta --detach "),
            Some(("meta".to_owned(), config.clone()))
        );
        assert_eq!(
            node("weft serve --config /v/weft.toml --role io --server 3 --detach "),
            Some(("server-3".to_owned(), config))
        );
        // Nodes in the foreground belong to the user who started them.
        assert_eq!(node("weft serve --config /v/weft.toml --role meta"), None);
        assert_eq!(node("weft serve --config /v/weft.toml --detach"), None);
        assert_eq!(node("weft up /v --detach"), None);
        assert_eq!(node(""), None);
    }
}
