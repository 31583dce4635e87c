//! A client whose process dies at any message. Its record of the file outlives it. The next process
//! must get the lock that the dead one held, and finds the acknowledged writes and perhaps a part
//! of the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{
    Access, ConnectOptions, Error, File, LockKind, LockOwner, LockRange, Locked, Volume,
};
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::calls::ignore_reported_loss;
use super::settle::settle;
use super::volume::{RECOVERY_TIME, connect, layout};
use crate::oracle::{Oracle, Time, WriteId};
use crate::plan::Plan;
use crate::state::{State, now};

/// Bytes of its file.
const LENGTH: usize = 10 << 10;
const PATH: &str = "/own-mortal";
const OWNER: LockOwner = LockOwner { number: 1, pid: 1 };
/// By then the session of a dead process has ended, also if nothing told the service of its death:
/// a minute without a frame (`Timing::idle`), then the grace period of 20 seconds.
const SESSION_TIMEOUT: Time = 100_000_000_000;

/// All lives of the client; clones are the same client.
#[derive(Clone)]
pub(crate) struct CrashingClient {
    plan: Plan,
    state: State,
    memory: Arc<Mutex<Memory>>,
}

/// What outlives a life.
struct Memory {
    rng: SmallRng,
    /// None before it has its file.
    oracle: Option<Oracle>,
    /// What is being written.
    writing: Option<WriteId>,
    /// Counts its processes: a loss is reported only to the process that wrote.
    life: u64,
}

impl CrashingClient {
    pub(crate) fn new(plan: Plan, state: &State) -> CrashingClient {
        CrashingClient {
            plan,
            state: state.clone(),
            memory: Arc::new(Mutex::new(Memory {
                rng: SmallRng::seed_from_u64(plan.seed ^ 0xdead),
                oracle: None,
                writing: None,
                life: 0,
            })),
        }
    }

    /// A life, until it is ended or all is done.
    pub(crate) async fn live(self, options: ConnectOptions) -> Result<(), String> {
        let volume = connect(options).await;
        self.end_last_write();
        self.memory().life += 1;
        while !self.state.lock().is_quiet() {
            let worked = self.work(&volume).await;
            worked.map_err(|e| format!("client that dies: {e}"))?;
        }
        tokio::time::sleep(RECOVERY_TIME).await;
        let healed = self.after_healing(&volume).await;
        healed.map_err(|e| format!("client that dies, after healing: {e}"))?;
        self.state.lock().looking -= 1;
        std::future::pending().await
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dice(&self, sides: usize) -> usize {
        self.memory().rng.random_range(0..sides)
    }

    /// What the last life was writing may have happened in part.
    fn end_last_write(&self) {
        let mut memory = self.memory();
        if let Some(write) = memory.writing.take() {
            memory.oracle().end(write, false, now());
        }
    }

    /// A sync or a close that began then may have said that something is lost.
    fn note_reported_loss(&self, begun: Time, result: &Result<(), Error>) {
        if let Err(error) = result
            && error.code() == Code::Lost
        {
            let (mut memory, mut state) = (self.memory(), self.state.lock());
            let life = memory.life;
            let explained = memory
                .oracle()
                .reported_lost(life, (begun, now()), &state.losses);
            state.note_loss(explained, error);
        }
    }

    /// Attaches the file, has it for itself for some operations, and lets it go.
    async fn work(&self, volume: &Volume) -> Result<(), Error> {
        let file = self.attach(volume).await?;
        let locked = settle(&self.state, "lock", async |_| {
            file.lock(LockKind::Exclusive, LockRange::Whole, OWNER, true)
                .await
        });
        let locked = locked.await?.value;
        if locked != Locked::Granted {
            let wrong = format!("waiting for a lock of {PATH} ended with {locked:?}");
            self.state.lock().note_wrong(wrong);
        }
        for _ in 0..self.dice(8) {
            match self.dice(6) {
                0..=2 => self.write(&file).await,
                3..=4 => {
                    let result = self.read(&file).await;
                    self.state
                        .lock()
                        .count("read of the crashing client", &result);
                }
                _ => {
                    let begun = now();
                    let result = file.sync().await;
                    if result.is_ok() {
                        let mut memory = self.memory();
                        let life = memory.life;
                        memory.oracle().synced_by(life, begun, now());
                    } else {
                        self.note_reported_loss(begun, &result);
                    }
                    self.state
                        .lock()
                        .count("sync of the crashing client", &result);
                }
            }
            tokio::time::sleep(Duration::from_millis(1 + self.dice(30) as u64)).await;
        }
        let unlocked = file
            .lock(LockKind::Unlock, LockRange::Whole, OWNER, true)
            .await;
        self.state.lock().count("unlock", &unlocked);
        let (begun, closed) = (now(), file.close().await);
        self.note_reported_loss(begun, &closed);
        self.state
            .lock()
            .count("close of the crashing client", &closed);
        tokio::time::sleep(Duration::from_millis(self.dice(300) as u64)).await;
        Ok(())
    }

    async fn attach(&self, volume: &Volume) -> Result<File, Error> {
        let layout = layout(self.plan);
        let attached = settle(&self.state, "attach of the crashing client", async |_| {
            let access = Access::read_write().create(0o644);
            volume.attach(PATH, access.layout(&layout)).await
        });
        let file = attached.await?.value;
        let oracle = || Oracle::new(LENGTH, file.layout());
        self.memory().oracle.get_or_insert_with(oracle);
        Ok(file)
    }

    async fn write(&self, file: &File) {
        let (at, data) = {
            let memory = &mut *self.memory();
            let at = memory.rng.random_range(0..LENGTH);
            let mut data = vec![0; memory.rng.random_range(1..=LENGTH - at)];
            memory.rng.fill_bytes(&mut data);
            let life = memory.life;
            let write = memory.oracle().begin_by(life, at, &data, now());
            memory.writing = Some(write);
            (at, Bytes::from(data))
        };
        let written = match file.canonical() {
            Ok(view) => view.write_at(ViewOffset(at as u64), data).await,
            Err(error) => Err(error),
        };
        let mut memory = self.memory();
        if let Some(write) = memory.writing.take() {
            memory.oracle().end(write, written.is_ok(), now());
        }
        self.state
            .lock()
            .count("write of the crashing client", &written);
    }

    async fn read(&self, file: &File) -> Result<(), Error> {
        let (mut buffer, begun) = (vec![0; LENGTH], now());
        let view = file.canonical()?;
        view.read_at(ViewOffset(0), &mut buffer).await?;
        let (mut memory, mut state) = (self.memory(), self.state.lock());
        let found = memory
            .oracle()
            .check(0, &buffer, (begun, now()), &state.losses);
        if let Some(found) = found {
            state.note_unexplained(PATH, &found);
        }
        state.digest(&buffer);
        Ok(())
    }

    /// No dead process counts as having the file open, and its content is explained.
    async fn after_healing(&self, volume: &Volume) -> Result<(), Error> {
        let begun = now();
        loop {
            let file = self.attach(volume).await?;
            let (sole, late) = (file.sole(), now() > begun + SESSION_TIMEOUT);
            if sole || late {
                let read = self.read(&file).await;
                self.state.lock().tolerate(read)?;
            }
            let (closing, closed) = (now(), file.close().await);
            self.note_reported_loss(closing, &closed);
            ignore_reported_loss(closed)?;
            if sole {
                return Ok(());
            }
            if late {
                let wrong = format!("{PATH} is still taken to be open for writing by others");
                self.state.lock().note_wrong(wrong);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

impl Memory {
    fn oracle(&mut self) -> &mut Oracle {
        self.oracle.as_mut().expect("the file was attached before")
    }
}
