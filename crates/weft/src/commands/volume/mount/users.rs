//! The processes that keep a mount busy.

use std::fs;
use std::path::Path;

use crate::limits::MOUNT_USERS_NAMED_MAX;

/// Processes with a working directory, an open file, an executable or a memory map under the path,
/// as `name (process 123)`.
pub(crate) fn of(path: &Path) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| uses(*pid, path))
        .map(named)
        .take(MOUNT_USERS_NAMED_MAX)
        .collect()
}

fn uses(pid: u32, path: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let under = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(path));
    if ["cwd", "root", "exe"]
        .iter()
        .any(|name| under(&process.join(name)))
    {
        return true;
    }
    ["fd", "map_files"].iter().any(|folder| {
        let entries = fs::read_dir(process.join(folder)).into_iter().flatten();
        entries.flatten().any(|entry| under(&entry.path()))
    })
}

fn named(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (process {pid})", name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir_path = dir.path().canonicalize().unwrap();
        assert!(
            !of(&dir_path)
                .iter()
                .any(|u| u.contains(&std::process::id().to_string()))
        );
        let _open = fs::File::create(dir_path.join("x")).unwrap();
        assert!(
            of(&dir_path)
                .iter()
                .any(|u| u.contains(&std::process::id().to_string()))
        );
    }
}
