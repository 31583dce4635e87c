//! The list behind `-o`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use weft_client::ConnectOptions;
use weft_mount::fs::Options;
use weft_mount::fuse::{Appearance, MountFlags};
use weft_net::Wire;

use crate::args::Global;

/// How a mount behaves.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct MountOptions {
    /// Flags that the kernel enforces.
    flags: MountFlags,
    others: bool,
    /// The mount exists, and its options are to change.
    pub(super) remount: bool,
    pub(crate) strict: bool,
    durable: bool,
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

/// The longest time that the kernel may cache attributes and names.
const VALID_MAX: Duration = Duration::from_hours(1);

/// Options that mount(8) passes on, or means for itself.
const WITHOUT_MEANING: [&str; 14] = [
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
    // It is always so.
    "default_permissions",
];

/// What the table of mounts shows of every mount by FUSE: mount(8) says it again when one is to be
/// mounted otherwise.
const SHOWN: [&str; 6] = [
    "user_id", "group_id", "rootmode", "max_read", "blksize", "fd",
];

/// Reads the list.
pub(super) fn parse(text: &str) -> std::result::Result<MountOptions, String> {
    let mut options = MountOptions {
        text: text.to_owned(),
        ..MountOptions::default()
    };
    for word in text.split(',') {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(n, v)| (n, Some(v)));
        let needed = || value.ok_or_else(|| format!("the option {name} needs a value: {name}=…"));
        if options.flags.take(word) {
            continue;
        }
        match name {
            "remount" => options.remount = true,
            "allow_other" => options.others = true,
            "strict" => options.strict = true,
            "durable" => options.durable = true,
            "attr_timeout" => options.attributes_valid = Some(seconds(name, needed()?)?),
            "entry_timeout" => options.names_valid = Some(seconds(name, needed()?)?),
            "fsname" => options.name = Some(needed()?.to_owned()),
            "key_file" => options.key_file = Some(needed()?.into()),
            "log" => options.log = Some(needed()?.into()),
            "wire" => {
                let level = needed()?.parse();
                options.wire = Some(level.map_err(|wrong: String| format!("wire: {wrong}"))?);
            }
            _ if is_without_meaning(word, name) => {}
            _ => {
                return Err(format!(
                    "there is no mount option `{word}`: see `weft mount --help` for those that are"
                ));
            }
        }
    }
    Ok(options)
}

fn is_without_meaning(word: &str, name: &str) -> bool {
    let of_users = name == "user" || name == "comment" || name.starts_with("x-");
    WITHOUT_MEANING.contains(&word) || SHOWN.contains(&name) || of_users
}

fn seconds(name: &str, text: &str) -> std::result::Result<Duration, String> {
    let wrong = || {
        format!(
            "{name}: `{text}` is no number of seconds from 0 to {}",
            VALID_MAX.as_secs()
        )
    };
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration > VALID_MAX {
        Err(wrong())
    } else {
        Ok(duration)
    }
}

/// A volume that fstab names by its address, with the key among the options.
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
            bail!("which key is that of {address}? Name its file: -o key_file=FILE");
        }
        global.name_address(address);
    }
    Ok(())
}

/// `HOST:PORT`, and no path.
fn is_address(volume: &Path) -> bool {
    let text = volume.to_string_lossy();
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.contains('/') && port.parse::<u16>().is_ok())
}

impl MountOptions {
    /// For the file system.
    pub(super) fn file_system(&self) -> Options {
        let mut options = Options {
            strict: self.strict,
            durable: self.durable,
            fixed: self.fixed().collect::<Vec<_>>().join(","),
            ..Options::default()
        };
        let unless_told = self.strict.then_some(Duration::ZERO);
        options.attributes_valid = self.attributes_valid.or(unless_told);
        options.names_valid = self.names_valid.or(unless_told);
        options
    }

    /// For the kernel.
    pub(super) fn appearance(&self, source: OsString) -> Appearance {
        let root = rustix::process::geteuid().is_root();
        Appearance {
            flags: self.flags,
            others: self.others || root,
            source: self.name.as_ref().map_or(source, OsString::from),
        }
    }

    /// The options that cannot change while the volume is mounted, each in one spelling.
    pub(super) fn fixed(&self) -> impl Iterator<Item = String> {
        let seconds =
            |name, time: Option<Duration>| time.map(|t| format!("{name}={}", t.as_secs_f64()));
        let words = [
            self.strict.then(|| "strict".to_owned()),
            self.durable.then(|| "durable".to_owned()),
            seconds("attr_timeout", self.attributes_valid),
            seconds("entry_timeout", self.names_valid),
        ];
        words.into_iter().flatten()
    }

    /// For the connection.
    pub(super) fn connect(&self, mut options: ConnectOptions) -> ConnectOptions {
        options.lazy = !self.durable;
        options.wire = self.wire.unwrap_or(options.wire);
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_understood_with_what_fstab_adds() {
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
    fn strict_believes_nothing_unless_told() {
        let valid = |text| parse(text).unwrap().file_system().attributes_valid;
        assert_eq!(valid("strict"), Some(Duration::ZERO));
        assert_eq!(valid("strict,attr_timeout=2"), Some(Duration::from_secs(2)));
        assert_eq!(valid(""), None);
    }

    #[test]
    fn what_the_table_of_mounts_shows_can_be_said_again() {
        let shown = "remount,rw,relatime,user_id=0,group_id=0,default_permissions,allow_other";
        let options = parse(shown).unwrap();
        assert!(options.remount && options.fixed().next().is_none());
        let fixed: Vec<_> = parse("attr_timeout=0.50,strict").unwrap().fixed().collect();
        assert_eq!(fixed, ["strict", "attr_timeout=0.5"]);
    }

    #[test]
    fn an_address_is_told_from_a_folder_and_needs_a_key() {
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
    fn what_is_no_option_says_so() {
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
