//! A client of a benchmark: a process that does what its leader says, step by step.

use std::net::Ipv4Addr;

use tokio::net::TcpListener;
use weft_client::{ConnectOptions, Volume};
use weft_crew::Leader;

use super::laps::{Laps, now};
use super::posix_file::PosixFile;
use super::posix_files::PosixFiles;
use super::weft_file::WeftFile;
use super::weft_files::WeftFiles;
use crate::content::Calls;
use crate::cpu::CpuTime;
use crate::error::SuiteError;
use crate::row::Op;
use crate::task::{Handle, Job, Order, Report, Task};

/// Runs a client until its leader ends it.
pub async fn run_worker() -> Result<(), SuiteError> {
    let (leader, job) = Leader::job::<Job>().await?;
    let volume = match &job.volume {
        Some(place) => Some(Volume::connect(ConnectOptions::try_from(place)?).await?),
        None => None,
    };
    let listening = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let listening = listening.await;
    let (listener, port) = listening.map_err(SuiteError::local("cannot listen on", "localhost"))?;
    let mut client = Client {
        volume,
        memory: Vec::new(),
        listener,
    };
    let mut report = Report {
        port,
        ..Report::default()
    };
    loop {
        match leader.order(&report).await? {
            Order::End => return Ok(()),
            Order::Idle => {
                leader.barrier(&Report::default()).await?;
                report = Report::default();
            }
            Order::Move(task) => {
                let ready = client.prepare(&task).await?;
                leader.barrier(&Report::default()).await?;
                report = client.run(&task, ready).await?;
                leader.progress(report.moved);
            }
        }
    }
}

/// A worker's connections and memory; the memory is kept, so that its first touch is paid for once.
struct Client {
    volume: Option<Volume>,
    memory: Vec<u8>,
    listener: TcpListener,
}

/// Everything that happens before the clock runs.
enum OpenFile {
    Weft(Box<WeftFile>),
    Posix(PosixFile),
    WeftFiles(WeftFiles),
    PosixFiles(PosixFiles),
}

impl Client {
    async fn prepare(&mut self, task: &Task) -> Result<OpenFile, SuiteError> {
        let bytes = task.part.bytes() as usize;
        self.memory.clear();
        // What a read does not bring must not look right.
        self.memory.resize(bytes, 0xa5);
        let calls = Calls::new(&task.part, task.shape)?;
        if task.op.makes_bytes() {
            calls.make(task.seed, &mut self.memory)?;
        }
        let volume = self.volume.as_ref();
        let volume = || volume.ok_or_else(|| SuiteError::part("no volume to measure"));
        Ok(match &task.file {
            Handle::Posix(path) => OpenFile::Posix(PosixFile::open(path, task, &calls)?),
            Handle::Weft(handed) => {
                let file = WeftFile::open(volume()?, handed, task, &self.listener).await?;
                OpenFile::Weft(Box::new(file))
            }
            Handle::PosixDirectory(path) => OpenFile::PosixFiles(PosixFiles::of(path, task)),
            Handle::Directory { path, servers } => {
                OpenFile::WeftFiles(WeftFiles::of(volume()?, path, servers, task).await?)
            }
        })
    }

    async fn run(&mut self, task: &Task, mut ready: OpenFile) -> Result<Report, SuiteError> {
        let before = CpuTime::now();
        let (memory, began) = (&mut self.memory, now());
        let mut laps = Laps::begin(task.timed);
        let (moved, messages) = match (&mut ready, task.op) {
            (OpenFile::WeftFiles(files), _) => {
                let (moved, messages) = files.step(task, memory, &mut laps).await?;
                (moved, Some(messages))
            }
            (OpenFile::PosixFiles(files), _) => (files.step(task, memory, &mut laps)?, None),
            (OpenFile::Weft(file), Op::Write) => {
                let (moved, messages) = file.write(task, memory, &mut laps).await?;
                (moved, Some(messages))
            }
            (OpenFile::Weft(file), _) => {
                let (moved, messages) = file.read(task, memory, &mut laps).await?;
                (moved, Some(messages))
            }
            (OpenFile::Posix(file), Op::Write) => (file.write(task, memory, &mut laps)?, None),
            (OpenFile::Posix(file), _) => (file.read(memory, &mut laps)?, None),
        };
        let ended = now();
        let cpu = [before, CpuTime::now()];
        let expected = match task.op {
            Op::Read | Op::Write | Op::Create => task.part.bytes(),
            Op::Stat | Op::Remove => 0,
        };
        if moved != expected {
            return Err(SuiteError::WrongCount { moved, expected });
        }
        if task.op == Op::Read {
            let checked = Calls::new(&task.part, task.shape)?.check(task.seed, &self.memory);
            checked.map_err(|error| match ready {
                OpenFile::WeftFiles(_) | OpenFile::PosixFiles(_) => in_its_file(task, error),
                OpenFile::Weft(_) | OpenFile::Posix(_) => error,
            })?;
        }
        Ok(Report {
            began,
            ended,
            moved,
            latencies: laps.latencies(),
            messages,
            cpu,
            port: 0,
        })
    }
}

/// Says in which file a byte is wrong, where the records of a part are files.
fn in_its_file(task: &Task, error: SuiteError) -> SuiteError {
    match error {
        SuiteError::WrongByte {
            offset,
            found,
            expected,
            ..
        } => {
            let (at, size) = (offset - task.part.at, task.file_bytes() as u64);
            SuiteError::WrongFile {
                file: at / size,
                offset: at % size,
                found,
                expected,
            }
        }
        other => other,
    }
}
