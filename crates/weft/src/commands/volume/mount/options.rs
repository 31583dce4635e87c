//! The mount options of `-o`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use weft_client::{
    ConnectOptions, DiskCacheOptions, Policies, Policy, PolicyFolder, record_history,
};
use weft_mount::fs::Options;
use weft_mount::fuse::{Appearance, MountFlags};
use weft_net::Wire;

use crate::args::Global;
use crate::limits::KERNEL_CACHE_MAX;

/// The options of a mount.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct MountOptions {
    /// Flags that the kernel enforces.
    flags: MountFlags,
    others: bool,
    /// Change the options of an existing mount.
    pub(super) remount: bool,
    pub(crate) strict: bool,
    durable: bool,
    pub(super) io_uring: bool,
    pub(super) deep_idle: bool,
    policy: Option<Policy>,
    policies: Policies,
    disk_cache: Option<DiskCacheOptions>,
    history: Option<PathBuf>,
    attributes_valid: Option<Duration>,
    names_valid: Option<Duration>,
    name: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    /// The log of the background process.
    pub(super) log: Option<PathBuf>,
    wire: Option<Wire>,
    /// The list as it was written, for the background process.
    pub(crate) text: String,
}

/// Options of mount(8) that have no meaning here.
const IGNORED: [&str; 14] = [
    "",
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    // Always set.
    "default_permissions",
];

/// Options that name a folder.
const FOLDERS: [&str; 3] = ["policies", "history", "chunk_cache"];

/// Options that are given or not, and have no value.
const SWITCHES: [&str; 6] = [
    "remount",
    "allow_other",
    "strict",
    "durable",
    "io_uring",
    "deep_idle",
];

/// Options that the table of mounts shows for every FUSE mount: mount(8) repeats them on a remount.
const SHOWN: [&str; 6] = [
    "user_id", "group_id", "rootmode", "max_read", "blksize", "fd",
];

/// Reads the list.
pub(super) fn parse(text: &str) -> std::result::Result<MountOptions, String> {
    let mut options = MountOptions {
        ..MountOptions::default()
    };
    let (mut policy, mut chunk_cache, mut chunk_cache_size) = (None, None, None);
    // Folders are those of whoever mounts, also for the process in the background.
    let absolute = |word: &str| match word.split_once('=') {
        Some((name, folder)) if FOLDERS.contains(&name) && !folder.is_empty() => {
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
            format!("{name}={}", folder.display())
        }
        _ => word.to_owned(),
    };
    let words: Vec<String> = text.split(',').map(absolute).collect();
    options.text = words.join(",");
    for word in words.iter().map(String::as_str) {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(n, v)| (n, Some(v)));
        let needed = || value.ok_or_else(|| format!("the option {name} needs a value: {name}=…"));
        if options.flags.take(word) {
            continue;
        }
        if value.is_some() && SWITCHES.contains(&name) {
            return Err(format!(
                "the option {name} has no value: give it, or leave it out"
            ));
        }
        match name {
            "remount" => options.remount = true,
            "allow_other" => options.others = true,
            "strict" => options.strict = true,
            "durable" => options.durable = true,
            "io_uring" => options.io_uring = true,
            "deep_idle" => options.deep_idle = true,
            "policy" => policy = Some(needed()?),
            "chunk_cache" => chunk_cache = Some(needed()?),
            "chunk_cache_size" => {
                let size = weft_layout::size::parse(needed()?);
                chunk_cache_size = Some(size.map_err(|wrong| format!("{name}: {wrong}"))?);
            }
            "history" => options.history = Some(needed()?.into()),
            "policies" => options.policies = Policies::of(PolicyFolder::at(needed()?)),
            "attr_timeout" => options.attributes_valid = Some(seconds(name, needed()?)?),
            "entry_timeout" => options.names_valid = Some(seconds(name, needed()?)?),
            "fsname" => options.name = Some(needed()?.to_owned()),
            "key_file" => options.key_file = Some(needed()?.into()),
            "log" => options.log = Some(needed()?.into()),
            "wire" => {
                let level = needed()?.parse();
                options.wire = Some(level.map_err(|wrong: String| format!("wire: {wrong}"))?);
            }
            _ if is_ignored(word, name) => {}
            _ => {
                return Err(format!(
                    "there is no mount option `{word}`: see `weft mount --help` for a list"
                ));
            }
        }
    }
    options.disk_cache = chunk_cache.map(DiskCacheOptions::at);
    match (&mut options.disk_cache, chunk_cache_size) {
        (Some(cache), Some(bytes)) => cache.bytes = bytes,
        (None, Some(_)) => {
            return Err("chunk_cache_size needs a folder: chunk_cache=DIR".to_owned());
        }
        _ => {}
    }
    // Its folder may be named behind it.
    let policy = policy.map(|name| options.policies.find(name)).transpose();
    options.policy = policy.map_err(|unknown| unknown.to_string())?;
    Ok(options)
}

fn is_ignored(word: &str, name: &str) -> bool {
    let of_users = name == "user" || name == "comment" || name.starts_with("x-");
    IGNORED.contains(&word) || SHOWN.contains(&name) || of_users
}

fn seconds(name: &str, text: &str) -> std::result::Result<Duration, String> {
    let wrong = || {
        format!(
            "{name}: `{text}` is not a number of seconds from 0 to {}",
            KERNEL_CACHE_MAX.as_secs()
        )
    };
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration > KERNEL_CACHE_MAX {
        Err(wrong())
    } else {
        Ok(duration)
    }
}

/// Takes the key from the options, and the address if fstab names the volume by it.
pub(super) fn take_key(global: &mut Global, key: Option<&Path>) -> Result<()> {
    if let (None, Some(key)) = (global.key(), key) {
        global.name_key(key.to_owned());
    }
    if let (None, Some(volume)) = (global.address(), global.folder())
        && !volume.exists()
        && is_address(volume)
    {
        let address = volume.display().to_string();
        if global.key().is_none() {
            bail!("no key given for the volume at {address}: name its file with -o key_file=FILE");
        }
        global.name_address(address);
    }
    Ok(())
}

/// `HOST:PORT`, and no path.
fn is_address(volume: &Path) -> bool {
    let text = volume.to_string_lossy();
    let split = text.rsplit_once(':');
    split.is_some_and(|(host, port)| !host.contains('/') && port.parse::<u16>().is_ok())
}

impl MountOptions {
    /// The options of the file system.
    pub(super) fn file_system(&self) -> Options {
        let mut options = Options {
            strict: self.strict,
            durable: self.durable,
            fixed: self.fixed().collect::<Vec<_>>().join(","),
            ..Options::default()
        };
        let default = self.strict.then_some(Duration::ZERO);
        options.attributes_valid = self.attributes_valid.or(default);
        options.names_valid = self.names_valid.or(default);
        options
    }

    /// The options of the kernel's mount.
    pub(super) fn appearance(&self, source: OsString) -> Appearance {
        let root = rustix::process::geteuid().is_root();
        Appearance {
            flags: self.flags,
            others: self.others || root,
            source: self.name.as_ref().map_or(source, OsString::from),
        }
    }

    /// The options that cannot change while the volume is mounted, in canonical spelling.
    pub(super) fn fixed(&self) -> impl Iterator<Item = String> {
        let seconds =
            |name, time: Option<Duration>| time.map(|t| format!("{name}={}", t.as_secs_f64()));
        let words = [
            self.strict.then(|| "strict".to_owned()),
            self.durable.then(|| "durable".to_owned()),
            self.io_uring.then(|| "io_uring".to_owned()),
            self.deep_idle.then(|| "deep_idle".to_owned()),
            self.policy.map(|policy| format!("policy={policy}")),
            seconds("attr_timeout", self.attributes_valid),
            seconds("entry_timeout", self.names_valid),
        ];
        words.into_iter().flatten()
    }

    /// The options of the connection.
    ///
    /// # Errors
    /// If no history can be recorded where one is asked for.
    pub(super) fn connect(&self, mut options: ConnectOptions) -> Result<ConnectOptions> {
        if let Some(folder) = &self.history {
            options.history = Some(record_history(folder)?);
        }
        options.lazy = !self.durable;
        options.policy = self.policy;
        options.policies = self.policies.clone();
        options.disk_cache.clone_from(&self.disk_cache);
        options.wire = self.wire.unwrap_or(options.wire);
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_options_parse_with_those_that_fstab_adds() {
        let options =
            parse("rw,nodev,strict,attr_timeout=0.5,x-systemd.automount,_netdev,fsname=grid")
                .unwrap();
        assert!(options.strict && !options.remount);
        assert_eq!(options.flags, parse("nodev").unwrap().flags);
        assert_eq!(options.attributes_valid, Some(Duration::from_millis(500)));
        let source = |options: MountOptions| options.appearance("source".into()).source;
        assert_eq!(source(options), "grid");
        assert_eq!(source(parse("").unwrap()), "source");
    }

    #[test]
    fn strict_caches_nothing_unless_a_timeout_is_given() {
        let valid = |text| parse(text).unwrap().file_system().attributes_valid;
        assert_eq!(valid("strict"), Some(Duration::ZERO));
        assert_eq!(valid("strict,attr_timeout=2"), Some(Duration::from_secs(2)));
        assert_eq!(valid(""), None);
    }

    #[test]
    fn options_from_the_table_of_mounts_parse() {
        let shown = "remount,rw,relatime,user_id=0,group_id=0,default_permissions,allow_other";
        let options = parse(shown).unwrap();
        assert!(options.remount && options.fixed().next().is_none());
        let fixed: Vec<_> = parse("attr_timeout=0.50,strict").unwrap().fixed().collect();
        assert_eq!(fixed, ["strict", "attr_timeout=0.5"]);
    }

    #[test]
    fn an_address_is_distinguished_from_a_folder_and_needs_a_key() {
        for (text, address) in [
            ("meta.host:4700", true),
            ("[::1]:4700", true),
            ("/srv/volume", false),
            ("/srv/a:1", false),
            ("host:path", false),
        ] {
            assert_eq!(is_address(Path::new(text)), address, "{text}");
        }
    }

    #[test]
    fn unknown_and_malformed_options_are_named() {
        for (text, word) in [
            ("cached", "cached"),
            ("attr_timeout", "needs a value"),
            ("entry_timeout=-1", "number of seconds"),
            ("entry_timeout=1e9", "number of seconds"),
            ("attr_timeout=soon", "soon"),
        ] {
            assert!(parse(text).unwrap_err().contains(word), "{text}");
        }
    }
}
