//! What a history consists of, in memory and in files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_policy::Values;

/// An open, numbered over all clients of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpenId(pub u64);

/// Bytes of a cell: where they begin, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The cell's number.
    pub cell: u32,
    /// The first byte in it.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// Which names of chunks an open keeps: [`weft_policy::Kept`] in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// None.
    None,
    /// Those that servers keep coherent.
    Coherent,
    /// Its own.
    Own {
        /// For how many milliseconds; 0: as long as it lasts.
        believed_ms: u64,
        /// Only until a sync.
        until_sync: bool,
    },
}

/// What an open asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The policy's name; empty: none.
    pub policy: String,
    /// Each operation is atomic, and all happen in one order.
    pub in_order: bool,
    /// What its reads may be of.
    pub names: Kept,
    /// Others see its writes once they have waited this long in the client, or after a sync or
    /// close; 0: when they are acknowledged.
    pub delay_ms: u64,
    /// It sees what others have closed before it began, not all that was acknowledged.
    pub from_closes: bool,
}

impl Promise {
    /// What the values of a policy of this name promise.
    pub fn of(policy: &str, values: Values) -> Promise {
        let names = match values.names {
            weft_policy::Kept::None => Kept::None,
            weft_policy::Kept::Coherent => Kept::Coherent,
            weft_policy::Kept::Own {
                believed,
                until_sync,
            } => Kept::Own {
                believed_ms: believed.map_or(0, |time| time.as_millis() as u64),
                until_sync,
            },
        };
        Promise {
            policy: policy.to_owned(),
            in_order: values.in_order,
            from_closes: matches!(names, Kept::Own { until_sync, .. } if !until_sync),
            names,
            delay_ms: values.delay.map_or(0, |time| time.as_millis() as u64),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// A file was opened.
    Open {
        /// Its number in its volume.
        file: u64,
        /// Its path.
        path: String,
        /// It was made by this open.
        created: bool,
        /// What was asked for.
        promise: Promise,
    },
    /// The open asks for something else from now on.
    Policy {
        /// What was asked for.
        promise: Promise,
    },
    /// What was written survives power loss, and has left the client.
    Sync,
    /// The open has ended.
    Close,
    /// Bytes were read; those beyond a cell's end are not among the pieces.
    Read {
        /// Where they lie.
        pieces: Vec<Piece>,
        /// The bytes, piece after piece. Files keep them beside the events.
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// Bytes were written.
    Write {
        /// Where they lie.
        pieces: Vec<Piece>,
        /// The bytes, piece after piece.
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// Bytes became zeros: they were cleared, or the file was truncated before them.
    Clear {
        /// Where they lie. A length of `u64::MAX` reaches to the end of a cell, wherever that is.
        pieces: Vec<Piece>,
    },
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds since the epoch when it was asked for.
    pub begin: i64,
    /// When it was answered; `None`: it may have happened or not, or may happen yet.
    pub end: Option<i64>,
    /// The open that it belongs to.
    pub open: OpenId,
    /// What it is.
    #[serde(flatten)]
    pub what: What,
}

/// A line of a file of events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(flatten)]
    pub(crate) event: Event,
    /// How many bytes of the file of bytes belong to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The first line of a file of events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) weft_history: u32,
    pub(crate) host: String,
    pub(crate) process: u32,
}

/// The version of the files.
pub(crate) const VERSION: u32 = 1;
/// How files of events end.
pub(crate) const EVENTS: &str = "events";
/// How files of bytes end.
pub(crate) const BYTES: &str = "bytes";

/// The most bytes of all histories of a run.
const BYTES_MAX: u64 = 8 << 30;

/// What all clients of a run did.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In no order.
    pub events: Vec<Event>,
    /// What each client is called, by the high half of its opens' numbers.
    pub clients: HashMap<u32, String>,
    /// By how much the clocks of two clients may differ.
    pub skew: Duration,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum HistoryError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("line {line} of {} is no event of a history: {reason}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    #[error(
        "there are no histories in {}: set WEFT_HISTORY to it, or mount with -o history=DIR, before a run",
        .0.display()
    )]
    Empty(PathBuf),
    #[error("the histories in {} have more than {} GiB of bytes", .0.display(), BYTES_MAX >> 30)]
    TooLarge(PathBuf),
}

fn reading(path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_owned();
    move |error| HistoryError::Read { path, error }
}

impl History {
    /// Reads the histories that clients have left in a folder. What follows the last newline of a
    /// file is left out: its client was killed.
    ///
    /// # Errors
    /// [`HistoryError`] names the file and the line.
    pub fn read(folder: &Path) -> Result<History, HistoryError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(reading(folder))? {
            let path = entry.map_err(reading(folder))?.path();
            if path.extension().is_some_and(|name| name == EVENTS) {
                files.push(path);
            }
        }
        files.sort();
        if files.is_empty() {
            return Err(HistoryError::Empty(folder.to_owned()));
        }
        let mut history = History::default();
        let (mut hosts, mut left) = (Vec::new(), BYTES_MAX);
        for (number, path) in (0..).zip(&files) {
            if let Some(host) = history.add(number, path, &mut left)? {
                hosts.push(host);
            }
        }
        hosts.dedup();
        if hosts.len() > 1 {
            history.skew = SKEW;
        }
        Ok(history)
    }

    /// Adds the history of a client; its host.
    fn add(
        &mut self,
        number: u32,
        path: &Path,
        left: &mut u64,
    ) -> Result<Option<String>, HistoryError> {
        let text = fs::read(path).map_err(reading(path))?;
        let bytes_path = path.with_extension(BYTES);
        let mut bytes: Box<dyn Read> = match File::open(&bytes_path) {
            Ok(file) => Box::new(BufReader::new(file)),
            // The client was killed before it made it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Box::new(io::empty()),
            Err(e) => return Err(reading(&bytes_path)(e)),
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let mut host = None;
        for (n, line) in lines.filter(|line| !line.is_empty()).enumerate() {
            let wrong = |reason: String| HistoryError::Line {
                path: path.to_owned(),
                line: n + 1,
                reason,
            };
            if n == 0 {
                let head: Head = serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))?;
                if head.weft_history != VERSION {
                    return Err(wrong(format!("version {}", head.weft_history)));
                }
                let name = format!("process {} on {}", head.process, head.host);
                self.clients.insert(number, name);
                host = Some(head.host);
                continue;
            }
            let line: Line = serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))?;
            let (mut event, length) = (line.event, line.bytes);
            event.open = OpenId(u64::from(number) << 32 | event.open.0 & 0xffff_ffff);
            *left = left.checked_sub(length).ok_or_else(|| {
                let folder = path.parent().unwrap_or(path);
                HistoryError::TooLarge(folder.to_owned())
            })?;
            if let What::Read { pieces, bytes: own } | What::Write { pieces, bytes: own } =
                &mut event.what
            {
                let claimed = pieces
                    .iter()
                    .try_fold(0_u64, |sum, piece| sum.checked_add(piece.length));
                if claimed != Some(length) {
                    return Err(wrong(
                        "its pieces and its bytes differ in length".to_owned(),
                    ));
                }
                let read = (&mut bytes).take(length).read_to_end(own);
                if read.map_err(reading(&bytes_path))? as u64 != length {
                    return Err(wrong(format!("{} ends before it", bytes_path.display())));
                }
            }
            self.events.push(event);
        }
        Ok(host)
    }

    /// What the client of an open is called.
    pub fn client_of(&self, open: OpenId) -> String {
        let client = (open.0 >> 32) as u32;
        let name = self.clients.get(&client).cloned();
        name.unwrap_or_else(|| format!("client {client}"))
    }
}

/// By how much the clocks of two machines may differ, unless somebody says otherwise.
const SKEW: Duration = Duration::from_millis(10);
