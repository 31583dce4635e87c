//! A client of a benchmark: a process that does what its leader says, step by step.

use std::net::Ipv4Addr;

use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use weft_client::{ConnectOptions, Volume};
use weft_crew::Leader;

use super::posix_file::PosixFile;
use super::weft_file::WeftFile;
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
}

impl Client {
    async fn prepare(&mut self, task: &Task) -> Result<OpenFile, SuiteError> {
        let bytes = task.part.bytes() as usize;
        self.memory.clear();
        // What a read does not bring must not look right.
        self.memory.resize(bytes, 0xa5);
        let calls = Calls::new(&task.part, task.shape)?;
        if task.op == Op::Write {
            calls.make(task.seed, &mut self.memory)?;
        }
        Ok(match &task.file {
            Handle::Posix(path) => OpenFile::Posix(PosixFile::open(path, task, &calls)?),
            Handle::Weft(handed) => {
                let volume = self.volume.as_ref();
                let volume = volume.ok_or_else(|| SuiteError::part("no volume to measure"))?;
                let file = WeftFile::open(volume, handed, task, &self.listener).await?;
                OpenFile::Weft(Box::new(file))
            }
        })
    }

    async fn run(&mut self, task: &Task, mut ready: OpenFile) -> Result<Report, SuiteError> {
        let before = CpuTime::now();
        let began = now();
        let (moved, messages) = match (&mut ready, task.op) {
            (OpenFile::Weft(file), Op::Write) => {
                let (moved, messages) = file.write(task, &mut self.memory).await?;
                (moved, Some(messages))
            }
            (OpenFile::Weft(file), Op::Read) => {
                let (moved, messages) = file.read(task, &mut self.memory).await?;
                (moved, Some(messages))
            }
            (OpenFile::Posix(file), Op::Write) => (file.write(task, &self.memory)?, None),
            (OpenFile::Posix(file), Op::Read) => (file.read(&mut self.memory)?, None),
        };
        let ended = now();
        let cpu = [before, CpuTime::now()];
        let expected = task.part.bytes();
        if moved != expected {
            return Err(SuiteError::WrongCount { moved, expected });
        }
        if task.op == Op::Read {
            Calls::new(&task.part, task.shape)?.check(task.seed, &self.memory)?;
        }
        Ok(Report {
            began,
            ended,
            moved,
            messages,
            cpu,
            port: 0,
        })
    }
}

/// Nanoseconds of a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
