//! How much memory a process may use, and the defaults of a node that follow from it.
//!
//! A container's limit is below the machine's memory, and the kernel kills a process that exceeds
//! it. So the limit is the minimum of the machine's memory and the limits of all control groups of
//! this process. All nodes of the volume on this machine share it equally, whether they run in one
//! container or in none.

use std::path::{Component, Path, PathBuf};

use crate::limits::{
    CACHE_DIVISOR, CACHE_RANGE, ENGINE_DIVISOR, ENGINE_RANGE, WINDOWS_DIVISOR, WINDOWS_RANGE,
};

/// The memory that a node may take unless the configuration says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    /// The share of one of `nodes` nodes on this machine.
    pub(crate) fn of(nodes: usize) -> Share {
        Share(limit() / nodes.max(1) as u64)
    }

    /// For the cache of a server's data.
    pub(crate) fn cache(self) -> u64 {
        self.fraction(CACHE_DIVISOR, CACHE_RANGE)
    }

    /// For the block cache and the memtables of a key-value engine.
    pub(crate) fn engine(self) -> u64 {
        self.fraction(ENGINE_DIVISOR, ENGINE_RANGE)
    }

    /// For payloads on their way to the node.
    pub(crate) fn windows(self) -> u64 {
        self.fraction(WINDOWS_DIVISOR, WINDOWS_RANGE)
    }

    /// In whole MiB.
    fn fraction(self, divisor: u64, (least, most): (u64, u64)) -> u64 {
        (self.0 / divisor).clamp(least, most) & !((1 << 20) - 1)
    }
}

/// The memory that this process may use: the machine's, within the limits of its control groups.
pub(crate) fn limit() -> u64 {
    let total = rustix::system::sysinfo();
    let total = total.totalram.saturating_mul(u64::from(total.mem_unit));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    allowed(&groups, Path::new("/sys/fs/cgroup"), total)
}

/// The lowest limit of the named control groups and of those above them. In a container that sees
/// its own group as the root, the names do not match the hierarchy; then only existing groups
/// count.
fn allowed(groups: &str, root: &Path, total: u64) -> u64 {
    let mut least = total;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (hierarchies, file) = match controllers {
            "" => ([root.to_owned(), root.join("unified")], "memory.max"),
            names if names.split(',').any(|name| name == "memory") => (
                [root.join("memory"), root.join(names)],
                "memory.limit_in_bytes",
            ),
            _ => continue,
        };
        for hierarchy in hierarchies {
            for group in from_the_top(&hierarchy, path) {
                let limit = std::fs::read_to_string(group.join(file)).unwrap_or_default();
                // "max" is no limit.
                least = limit.trim().parse().map_or(least, |limit| least.min(limit));
            }
        }
    }
    least
}

/// The group and those above it, the root first.
fn from_the_top(hierarchy: &Path, group: &str) -> Vec<PathBuf> {
    let mut groups = vec![hierarchy.to_owned()];
    for name in Path::new(group).components() {
        if let Component::Normal(name) = name {
            groups.push(groups[groups.len() - 1].join(name));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: u64 = 16 << 30;

    fn hierarchy(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_lowest_limit_of_all_parent_groups_counts() {
        for (files, groups, expected) in [
            // There are no limits, or none that can be found.
            (&[][..], "0::/\n", TOTAL),
            (&[("a/memory.max", "max\n")], "0::/a\n", TOTAL),
            (&[("a/memory.max", "nonsense")], "0::/a\n", TOTAL),
            // Version 2, of the group and of one above it.
            (
                &[("a/b/memory.max", "157286400\n")],
                "0::/a/b\n",
                157_286_400,
            ),
            (
                &[
                    ("a/memory.max", "1000000000\n"),
                    ("a/b/memory.max", "max\n"),
                ],
                "0::/a/b\n",
                1_000_000_000,
            ),
            (
                &[("a/memory.max", "3000\n"), ("a/b/memory.max", "5000\n")],
                "0::/a/b\n",
                3000,
            ),
            // A container that sees its own group as the root, by its own name or the host's.
            (&[("memory.max", "4096\n")], "0::/\n", 4096),
            (&[("memory.max", "4096\n")], "0::/docker/1f\n", 4096),
            // Version 1, beside an empty version 2; "no limit" there is a number.
            (
                &[("memory/a/memory.limit_in_bytes", "157286400\n")],
                "9:pids:/x\n4:memory:/a\n0::/\n",
                157_286_400,
            ),
            (
                &[("memory/memory.limit_in_bytes", "9223372036854771712\n")],
                "4:memory:/\n0::/\n",
                TOTAL,
            ),
            (
                &[("cpu,memory/a/memory.limit_in_bytes", "8192\n")],
                "4:cpu,memory:/a\n",
                8192,
            ),
            (&[("unified/a/memory.max", "8192\n")], "0::/a\n", 8192),
            // A path cannot lead out of the hierarchy.
            (&[("a/memory.max", "1\n")], "0::/../a/..\nx\n::\n", 1),
        ] {
            let root = hierarchy(files);
            let found = allowed(groups, root.path(), TOTAL);
            assert_eq!(found, expected, "{files:?} {groups:?}");
        }
    }

    #[test]
    fn all_nodes_of_a_machine_take_at_most_half_of_its_memory_by_default() {
        for (limit, nodes) in [
            (1_u64 << 30, 2_u64),
            (4 << 30, 5),
            (150 << 20, 2),
            (1 << 40, 9),
        ] {
            let share = Share(limit / nodes);
            let node = share.cache() + 2 * share.engine() + share.windows();
            assert!(nodes * node <= limit / 2 + (8 << 20), "{limit} {nodes}");
        }
        // The bounds hold on the largest machine, and on the smallest.
        let large = Share(1 << 40);
        assert_eq!(
            (large.cache(), large.engine(), large.windows()),
            (1 << 30, 64 << 20, 128 << 20)
        );
        let none = Share(0);
        assert_eq!(
            (none.cache(), none.engine(), none.windows()),
            (8 << 20, 4 << 20, 8 << 20)
        );
        assert!(limit() > 0);
    }
}
