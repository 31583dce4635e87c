//! The options of `weft mount`.

use std::path::PathBuf;

use clap::Args;

use super::options::{self, MountOptions};

/// Mount a volume on a directory, so that any program can use its files
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  weft --volume /srv/weft mount /mnt/weft             in the background; returns when the mount is ready
  weft --volume /srv/weft mount /mnt/weft -o strict   without caches; all clients see every write at once
  weft unmount /mnt/weft

Mount options (-o, separated by commas):
  ro, nodev, nosuid, noexec    as for any file system
  relatime, noatime, strictatime, nodiratime
                               when reads update access times, as for any file system (default: relatime)
  remount                      change the options above of an existing mount
  allow_other                  let other users use the mount (always set if root mounts)
  strict                       no caches: reads and writes go to the servers, attributes come from the metadata service; of
                               policies that need names, and of plug-ins, only those in order apply (as seq-1 and seq-2)
  durable                      create, rename and remove return only when the change survives power loss
  io_uring                     take requests through io_uring (Linux 6.14 and later; root turns the kernel's parameter on):
                               small calls cost less, reads and writes of megabytes more; see docs/operating.md
  deep_idle                    let idle processors sleep deeply between requests: saves power, and makes small calls slower
                               (default: root's mounts keep them awake while requests come; see docs/operating.md)
  policy=NAME                  consistency policy of files that have none: posix, seq-1, seq-2, for-1, for-2, rel-1, session, nfs
                               or immutable, or a plug-in (default: none; see docs/consistency.md, also for what a mount
                               makes of posix, session and nfs)
  policies=DIR                 folder of plug-ins (default: WEFT_POLICIES, else /usr/local/lib/weft/policies)
  chunk_cache=DIR              keep chunks of addressed files in DIR as well, for all processes of this machine (default:
                               WEFT_CHUNK_CACHE)
  chunk_cache_size=SIZE        at most so many bytes of them, 64MiB or more (default: 10GiB)
  history=DIR                  record what is read and written past the kernel's pages, for `weft referee`
  attr_timeout=S               seconds that the kernel may cache attributes (default: as long as they are valid)
  entry_timeout=S              seconds that the kernel may cache names (default: as long as they are valid)
  fsname=NAME                  name in the table of mounts (default: the volume's folder or address)
  key_file=FILE                same as --key-file
  wire=LEVEL                   same as --wire
  log=FILE                     same as --log

The mount's process writes a log that is named after the mount point: mount-mnt-weft.log for /mnt/weft. If the volume is named by \
its folder DIR, the log is in DIR/log; if it is named by its address, in /var/log/weft for root and in $XDG_STATE_HOME/weft \
(~/.local/state/weft) for other users.

For mount(8) and /etc/fstab, make /sbin/mount.fuse.weft a link to this program; volumes are named by folder or address:
  mount -t fuse.weft HOST:PORT /mnt/weft -o key_file=FILE
  mount -o remount,ro /mnt/weft
  /srv/weft  /mnt/weft  fuse.weft  defaults,_netdev  0 0    (a line of /etc/fstab)")]
pub(crate) struct Mount {
    /// The mount point, an existing directory
    pub(super) path: PathBuf,
    /// Mount options; see below
    #[arg(short, value_name = "OPTIONS", value_parser = options::parse, default_value = "")]
    pub(super) options: MountOptions,
    /// Stay in the foreground until Ctrl-C or `weft unmount`
    #[arg(long, short)]
    pub(super) foreground: bool,
    /// Log file of the mount's process [default: see below]
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Report the outcome on standard output, and leave the terminal's session
    #[arg(long, hide = true)]
    pub(super) report: bool,
    /// Print nothing on success, as mount(8) expects of its helpers
    #[arg(long, hide = true)]
    pub(super) quiet: bool,
}

impl Mount {
    /// A mount in the background on `path`, with default options.
    pub(super) fn on(path: PathBuf) -> Mount {
        Mount {
            path,
            options: MountOptions::default(),
            foreground: false,
            log: None,
            report: false,
            quiet: false,
        }
    }

    /// Whether the mount options name the file of the volume's key.
    pub(crate) fn names_key(&self) -> bool {
        self.options.key_file.is_some()
    }
}
