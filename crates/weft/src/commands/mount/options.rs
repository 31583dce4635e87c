//! The list behind `-o`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_client::ConnectOptions;
use weft_mount::fs::Options;
use weft_mount::fuse::MountFlagsWanted;
use weft_net::Wire;

use crate::Global;

/// How a mount behaves.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct MountOptions {
    read_only: bool,
    no_devices: bool,
    no_set_id: bool,
    no_programs: bool,
    others: bool,
    pub(crate) strict: bool,
    durable: bool,
    attributes_valid: Option<Duration>,
    names_valid: Option<Duration>,
    name: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    wire: Option<Wire>,
    /// As it was written, for the process in the background.
    pub(crate) text: String,
}

/// The longest time that the kernel may believe what it was told.
const VALID_MAX: Duration = Duration::from_hours(1);

/// What mount(8) passes on or means for itself.
const WITHOUT_MEANING: [&str; 27] = [
    "",
    "defaults",
    "rw",
    "dev",
    "suid",
    "exec",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "async",
    "atime",
    "noatime",
    "relatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "norelatime",
    "strictatime",
    "silent",
    "loud",
];

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<MountOptions, String> {
    let mut options = MountOptions {
        text: text.to_owned(),
        ..MountOptions::default()
    };
    for word in text.split(',') {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(n, v)| (n, Some(v)));
        let needed = || value.ok_or_else(|| format!("the option {name} needs a value: {name}=…"));
        match name {
            "ro" => options.read_only = true,
            "nodev" => options.no_devices = true,
            "nosuid" => options.no_set_id = true,
            "noexec" => options.no_programs = true,
            "allow_other" => options.others = true,
            "strict" => options.strict = true,
            "durable" => options.durable = true,
            "attr_timeout" => options.attributes_valid = Some(seconds(needed()?)?),
            "entry_timeout" => options.names_valid = Some(seconds(needed()?)?),
            "fsname" => options.name = Some(needed()?.to_owned()),
            "key_file" => options.key_file = Some(needed()?.into()),
            "wire" => options.wire = Some(needed()?.parse()?),
            _ if WITHOUT_MEANING.contains(&word) || name.starts_with("x-") || name == "comment" => {
            }
            _ => {
                return Err(format!(
                    "there is no mount option `{word}`: see `weft mount --help` for those that are"
                ));
            }
        }
    }
    Ok(options)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{text}` is no number of seconds from 0 to {}",
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
pub(super) fn take_key(global: &mut Global, key: &Path) {
    global.key.get_or_insert_with(|| key.to_owned());
    if global.address.is_none()
        && let Some(volume) = &global.volume
        && !volume.exists()
    {
        global.address = Some(volume.to_string_lossy().into_owned());
        global.volume = None;
    }
}

impl MountOptions {
    /// For the file system.
    pub(super) fn file_system(&self) -> Options {
        let mut options = Options {
            read_only: self.read_only,
            strict: self.strict,
            durable: self.durable,
            ..Options::default()
        };
        let unless_told = self.strict.then_some(Duration::ZERO);
        options.attributes_valid = self.attributes_valid.or(unless_told);
        options.names_valid = self.names_valid.or(unless_told);
        options
    }

    /// For the kernel.
    pub(super) fn flags(&self, source: OsString) -> MountFlagsWanted {
        let root = rustix::process::geteuid().is_root();
        MountFlagsWanted {
            read_only: self.read_only,
            no_devices: self.no_devices,
            no_set_id: self.no_set_id,
            no_programs: self.no_programs,
            others: self.others || root,
            source: self.name.as_ref().map_or(source, OsString::from),
        }
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
        assert!(options.no_devices && options.strict && !options.read_only);
        assert_eq!(options.attributes_valid, Some(Duration::from_millis(500)));
        assert_eq!(options.flags("source".into()).source, "grid");
        assert_eq!(parse("").unwrap().flags("source".into()).source, "source");
    }

    #[test]
    fn strict_believes_nothing_unless_told() {
        let valid = |text| parse(text).unwrap().file_system().attributes_valid;
        assert_eq!(valid("strict"), Some(Duration::ZERO));
        assert_eq!(valid("strict,attr_timeout=2"), Some(Duration::from_secs(2)));
        assert_eq!(valid(""), None);
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
