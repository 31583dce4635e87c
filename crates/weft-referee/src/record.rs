//! Writes histories.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::history::{BYTES, EVENTS, Event, Head, History, Line, OpenId, VERSION, What};

/// Records what one client, or several of one process, do. Cheap to clone.
///
/// Each event is with the kernel when [`Recorder::note`] returns, so that it survives the death of
/// the process.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opens: AtomicU64,
    kept: Mutex<KeptIn>,
}

#[derive(Debug)]
enum KeptIn {
    Files {
        events: File,
        bytes: File,
        /// Writing has failed: the history ends.
        failed: bool,
    },
    Memory(Vec<Event>),
}

impl Recorder {
    /// Records into two new files of a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If they cannot be made.
    pub fn in_folder(folder: &Path, host: &str) -> io::Result<Recorder> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(folder)?;
        let process = std::process::id();
        let make = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (mut events, bytes) = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{host}-{process}-{number}");
            match make(&folder.join(format!("{name}.{EVENTS}"))) {
                Ok(events) => break (events, make(&folder.join(format!("{name}.{BYTES}")))?),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        };
        let head = Head {
            weft_history: VERSION,
            host: host.to_owned(),
            process,
        };
        writeln!(events, "{}", serde_json::to_string(&head)?)?;
        Ok(Recorder::keeping(KeptIn::Files {
            events,
            bytes,
            failed: false,
        }))
    }

    /// Records in memory; [`Recorder::take`] has the history.
    pub fn in_memory() -> Recorder {
        Recorder::keeping(KeptIn::Memory(Vec::new()))
    }

    fn keeping(kept: KeptIn) -> Recorder {
        Recorder(Arc::new(Inner {
            opens: AtomicU64::new(1),
            kept: Mutex::new(kept),
        }))
    }

    /// A number for an open.
    pub fn open(&self) -> OpenId {
        OpenId(self.0.opens.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes an event. Returns what is wrong if it could not be noted, the first time: the history
    /// ends there.
    pub fn note(&self, event: Event) -> Result<(), io::Error> {
        let mut kept = self.0.kept.lock();
        match &mut *kept {
            KeptIn::Memory(events) => events.push(event),
            KeptIn::Files { failed: true, .. } => {}
            KeptIn::Files {
                events,
                bytes,
                failed,
            } => {
                let written = write(events, bytes, event);
                *failed = written.is_err();
                return written;
            }
        }
        Ok(())
    }

    /// What was recorded in memory so far.
    pub fn take(&self) -> History {
        let events = match &mut *self.0.kept.lock() {
            KeptIn::Memory(events) => std::mem::take(events),
            KeptIn::Files { .. } => Vec::new(),
        };
        History {
            events,
            ..History::default()
        }
    }
}

/// The bytes first: an event's are there whenever the event is.
fn write(events: &mut File, file: &mut File, event: Event) -> io::Result<()> {
    let mut length = 0;
    if let What::Read { bytes, .. } | What::Write { bytes, .. } = &event.what {
        length = bytes.len() as u64;
        file.write_all(bytes)?;
    }
    let line = Line {
        event,
        bytes: length,
    };
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    events.write_all(&text)
}
