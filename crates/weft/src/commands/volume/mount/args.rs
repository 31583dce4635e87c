//! The options of `weft mount`.

use std::path::PathBuf;

use clap::Args;

use super::options::{self, MountOptions};

/// Put a volume under a path, for programs that never heard of Weft
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  weft --volume /srv/weft mount /mnt/weft             in the background; returns when it can be used
  weft --volume /srv/weft mount /mnt/weft -o strict   nothing is cached; what is written is there for all
  weft unmount /mnt/weft

Options (-o, with commas between them):
  ro, nodev, nosuid, noexec    as for any file system
  relatime, noatime, strictatime, nodiratime
                               which reads change access times, as for any file system (default: relatime)
  remount                      the volume is mounted there: changes those of its options that are named above
  allow_other                  other users may use it (always so when root mounts)
  strict                       no caches: reads and writes go to the servers, attributes to the service
  durable                      making, renaming and removing names returns when it survives power loss
  attr_timeout=S               seconds that the kernel may believe attributes (default: while they are true)
  entry_timeout=S              seconds that the kernel may believe names (default: while they are true)
  fsname=NAME                  what the table of mounts shows (default: the volume's folder or address)
  key_file=FILE                as --key-file
  wire=LEVEL                   as --wire
  log=FILE                     as --log

The mount's process writes what it has to say to a log, named after the path: of a mount on /mnt/weft, mount-mnt-weft.log. It is in \
DIR/log of a volume that is named by its folder DIR; of one that is named by its address, in /var/log/weft for root, and in \
$XDG_STATE_HOME/weft (~/.local/state/weft) for other users.

mount(8) and /etc/fstab know volumes, by folder or by address, if `mount.fuse.weft` in /sbin is a link to this program:
  mount -t fuse.weft HOST:PORT /mnt/weft -o key_file=FILE
  mount -o remount,ro /mnt/weft
  /srv/weft  /mnt/weft  fuse.weft  defaults,_netdev  0 0    (a line of /etc/fstab)")]
pub(crate) struct Mount {
    /// An existing directory
    pub(super) path: PathBuf,
    /// How it behaves; see below
    #[arg(short, value_name = "OPTIONS", value_parser = options::parse, default_value = "")]
    pub(super) options: MountOptions,
    /// Stay in the foreground; end with Ctrl-C or by `weft unmount`
    #[arg(long, short)]
    pub(super) foreground: bool,
    /// Where the mount's process writes what it has to say (default: see below)
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Say on standard output whether it worked, and leave the terminal's session
    #[arg(long, hide = true)]
    pub(super) report: bool,
    /// Say nothing where it works, as mount(8) expects of its helpers
    #[arg(long, hide = true)]
    pub(super) quiet: bool,
}

impl Mount {
    /// A mount in the background on `path`, with the options that hold where none is named.
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
