//! Small files that are named by a person: keys, addresses, configurations.
//!
//! A name may stand for anything. Opening a FIFO waits for its other end, and a device may never
//! end, so a file is opened without waiting, must be a regular one, and is read up to a bound.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The longest that is read: a configuration of 65,536 servers has half of that.
const LENGTH_MAX: u64 = 32 << 20;

/// Opens a regular file for reading; never waits for anything else.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with what it is, where it is no regular file; what the system
/// says.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    options.read(true);
    options.custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let what = match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    let what = format!("it is {what}, no regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Reads the text of a small regular file.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::InvalidData`] where it is no text;
/// [`io::ErrorKind::FileTooLarge`].
pub fn read_small(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(read_with_metadata(path.as_ref())?.0)
}

pub(crate) fn read_with_metadata(path: &Path) -> io::Result<(String, Metadata)> {
    let file = open_regular(path)?;
    let metadata = file.metadata()?;
    let mut text = String::new();
    if file.take(LENGTH_MAX + 1).read_to_string(&mut text)? as u64 > LENGTH_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((text, metadata))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_path_that_is_not_a_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let begun = Instant::now();
        for (path, word) in [
            (fifo.as_path(), "a FIFO"),
            (folder.path(), "a directory"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = read_small(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_small(&file).unwrap(), "text");
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(LENGTH_MAX + 1)
            .unwrap();
        let error = read_small(&file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
