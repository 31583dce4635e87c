//! A client of a benchmark: a process that does what its leader says, step by step.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use weft_client::{ConnectOptions, Volume};
use weft_crew::Leader;

use crate::content::Calls;
use crate::cpu::CpuTime;
use crate::exchange::Partners;
use crate::part::{FileShape, Part};
use crate::posix::PosixFile;
use crate::target::VolumePlace;
use crate::weft::WeftFile;
use crate::{Op, SuiteError};

/// What a worker is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The volume; none where everything is done on a path.
    pub(crate) volume: Option<VolumePlace>,
}

/// What a worker does next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Nothing, but stand at the barriers.
    Idle,
    /// Move a part.
    Move(Box<Task>),
    /// End.
    End,
}

/// One part of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) file: Handle,
    pub(crate) shape: FileShape,
    pub(crate) part: Part,
    pub(crate) op: Op,
    /// The number of the write: what is written, or what must be found.
    pub(crate) seed: u64,
    /// Calls in flight.
    pub(crate) depth: usize,
    /// A write ends when it is synced.
    pub(crate) sync: bool,
    /// The calls are collective ones of this group.
    pub(crate) group: Option<Membership>,
    /// The clients exchange their bytes among themselves.
    pub(crate) partners: Option<Partners>,
}

/// A client's place in a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) id: String,
    pub(crate) members: u32,
    pub(crate) member: u32,
}

/// How a worker reaches the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Handle {
    /// An attachment that the leader hands over.
    Weft(Vec<u8>),
    /// A path.
    Posix(PathBuf),
}

/// What a worker tells at a barrier.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// When it began and ended, in nanoseconds of the machine's monotonic clock; 0: it did nothing.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Bytes moved.
    pub(crate) moved: u64,
    /// Requests for data; none for POSIX calls.
    pub(crate) messages: Option<u64>,
    /// What the machine's processors had done then.
    pub(crate) cpu: [CpuTime; 2],
    /// Where it listens for other clients.
    pub(crate) port: u16,
}

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
enum Ready {
    Weft(Box<WeftFile>),
    Posix(PosixFile),
}

impl Client {
    async fn prepare(&mut self, task: &Task) -> Result<Ready, SuiteError> {
        let bytes = task.part.bytes() as usize;
        self.memory.clear();
        // What a read does not bring must not look right.
        self.memory.resize(bytes, 0xa5);
        let calls = Calls::new(&task.part, task.shape)?;
        if task.op == Op::Write {
            calls.make(task.seed, &mut self.memory)?;
        }
        Ok(match &task.file {
            Handle::Posix(path) => Ready::Posix(PosixFile::open(path, task, &calls)?),
            Handle::Weft(handed) => {
                let volume = self.volume.as_ref();
                let volume = volume.ok_or_else(|| SuiteError::part("no volume to measure"))?;
                let file = WeftFile::open(volume, handed, task, &self.listener).await?;
                Ready::Weft(Box::new(file))
            }
        })
    }

    async fn run(&mut self, task: &Task, mut ready: Ready) -> Result<Report, SuiteError> {
        let before = CpuTime::now();
        let began = now();
        let (moved, messages) = match (&mut ready, task.op) {
            (Ready::Weft(file), Op::Write) => {
                let (moved, messages) = file.write(task, &mut self.memory).await?;
                (moved, Some(messages))
            }
            (Ready::Weft(file), Op::Read) => {
                let (moved, messages) = file.read(task, &mut self.memory).await?;
                (moved, Some(messages))
            }
            (Ready::Posix(file), Op::Write) => (file.write(task, &self.memory)?, None),
            (Ready::Posix(file), Op::Read) => (file.read(&mut self.memory)?, None),
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
