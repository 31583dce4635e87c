//! A mount and its threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use weft_net::Quiet;

use super::abi::{BatchForgetIn, ForgetIn, ForgetOne, InterruptIn, opcode};
use super::attach::{Appearance, MountError, attach};
use super::attribute_requests::AttributeRequests;
use super::buffers::Buffers;
use super::device::{Device, Incoming, Reader};
use super::flags::Current;
use super::init::{self, Negotiated};
use super::interrupted::{self, given_up};
use super::notices::Notices;
use super::operations::{Answer, carry_out};
use super::requests::Requests;
use crate::begun::Begun;
use crate::fs::{FileSystem, FsError};

/// What a mount needs.
pub struct Mount {
    /// Where.
    pub path: PathBuf,
    /// How.
    pub appearance: Appearance,
    /// Threads that take requests from the kernel.
    pub threads: usize,
    /// The kernel's read-ahead in KiB; root only.
    pub read_ahead_kib: u32,
}

/// A file system under a path. It ends when it is unmounted, by whomever.
pub struct Running {
    path: PathBuf,
    negotiated: Negotiated,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What all threads and requests share.
struct Door {
    fs: Arc<FileSystem>,
    runtime: Handle,
    requests: Requests,
    attribute_requests: Arc<AttributeRequests>,
    failures: Quiet,
    losses: Quiet,
}

impl Mount {
    /// Mounts; requests are carried out on `runtime`.
    pub fn start(self, fs: Arc<FileSystem>, runtime: &Handle) -> Result<Running, MountError> {
        let device = Arc::new(attach(&self.path, &self.appearance)?);
        let buffers = init::buffers();
        let negotiated = init::shake_hands(&device, &buffers)?;
        let current = Current::of(&self.path, self.appearance.flags);
        let attribute_requests = Arc::<AttributeRequests>::default();
        let notices = Notices::start(
            device.clone(),
            &negotiated,
            current,
            attribute_requests.clone(),
        )?;
        fs.set_holder(Arc::new(notices));
        let door = Arc::new(Door {
            fs,
            runtime: runtime.clone(),
            requests: Requests::default(),
            attribute_requests,
            failures: Quiet::default(),
            losses: Quiet::default(),
        });
        let mut threads = Vec::new();
        for number in 0..self.threads.max(1) {
            let device = if number == 0 {
                device.clone()
            } else {
                Arc::new(device.further()?)
            };
            let (door, buffers) = (door.clone(), buffers.clone());
            let thread = std::thread::Builder::new()
                .name(format!("weft-fuse-{number}"))
                .spawn(move || serve(&door, &device, &buffers))?;
            threads.push(thread);
        }
        read_ahead(&self.path, self.read_ahead_kib);
        tracing::info!(
            path = %self.path.display(),
            source = %self.appearance.source.display(),
            version = format!("7.{}", negotiated.minor),
            max_write = negotiated.max_write,
            flags = format!("{:#x}", negotiated.flags),
            threads = threads.len(),
            "mounted"
        );
        Ok(Running {
            path: self.path,
            negotiated,
            threads,
        })
    }
}

impl Running {
    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was agreed on with the kernel.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Waits until it is unmounted.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// The kernel's own idea of read-ahead is 128 KiB, too little for several servers. Only root may
/// change it.
fn read_ahead(path: &Path, kib: u32) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let device = super::table::mounted_on(path)
        .ok()
        .flatten()
        .map(|m| m.device);
    let Some(device) = device else { return };
    let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = std::fs::write(&file, kib.to_string()) {
        tracing::warn!(%file, %error, "the kernel's read-ahead stays small");
    }
}

/// One thread's loop.
fn serve(door: &Arc<Door>, device: &Arc<Device>, buffers: &Buffers) -> io::Result<()> {
    let mut reader = Reader::new(buffers);
    while let Some(request) = device.receive(&mut reader)? {
        let unique = request.header.unique;
        let number = request.header.opcode;
        let carried = || carry_on(door, device, request);
        if catch_unwind(AssertUnwindSafe(carried)).is_err() {
            // The program that asked is not left waiting, and the thread goes on with the next.
            tracing::error!(request = number, "a request panicked");
            if !matches!(number, opcode::FORGET | opcode::BATCH_FORGET) {
                device.refuse(unique, libc::EIO);
            }
        }
    }
    Ok(())
}

fn carry_on(door: &Arc<Door>, device: &Arc<Device>, request: Incoming) {
    match request.header.opcode {
        opcode::FORGET | opcode::BATCH_FORGET => forget(&door.fs, &request),
        opcode::INTERRUPT => interrupt(door, device, &request),
        opcode::DESTROY => device.reply(request.header.unique, &[]),
        _ => begin(door, device, request),
    }
}

/// A forget is not answered.
fn forget(fs: &FileSystem, request: &Incoming) {
    if request.header.opcode == opcode::FORGET {
        if let Some((forget, _)) = request.argument::<ForgetIn>() {
            fs.forget(request.header.nodeid, forget.nlookup);
        }
        return;
    }
    let Some((batch, _)) = request.argument::<BatchForgetIn>() else {
        return;
    };
    let rest = &request.body[size_of::<BatchForgetIn>()..];
    for one in rest
        .chunks_exact(size_of::<ForgetOne>())
        .take(batch.count as usize)
    {
        if let Ok(one) = <ForgetOne as zerocopy::FromBytes>::read_from_bytes(one) {
            fs.forget(one.nodeid, one.nlookup);
        }
    }
}

/// An interrupt that comes before its request is known is sent again by the kernel if it is told
/// so.
fn interrupt(door: &Door, device: &Device, request: &Incoming) {
    let known = request
        .argument::<InterruptIn>()
        .is_some_and(|(interrupt, _)| door.requests.interrupt(interrupt.unique));
    if !known {
        device.refuse(request.header.unique, libc::EAGAIN);
    }
}

type Outcome = Result<Answer, FsError>;
type Task = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Begins a request here. What waits for nobody, such as what is cached, is done at once; what
/// waits for a server goes on where the server's reply arrives.
fn begin(door: &Arc<Door>, device: &Arc<Device>, request: Incoming) {
    let unique = request.header.unique;
    let (number, thread) = (request.header.opcode, request.header.pid);
    let in_flight =
        (number == opcode::GETATTR).then(|| door.attribute_requests.begin(request.header.nodeid));
    let fs = door.fs.clone();
    let mut task: Task = Box::pin(async move { carry_out(&fs, &request).await });
    let _entered = door.runtime.enter();
    let begun = Begun::new(&door.runtime);
    let waker = begun.waker();
    if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
        return answer(door, device, unique, (number, outcome));
    }
    let interrupted = door.requests.add(unique);
    let (door, device) = (door.clone(), device.clone());
    let rest = async move {
        let _in_flight = in_flight;
        let mut task = task;
        let mut unanswered = Unanswered(Some((device.clone(), unique)));
        let outcome = finish(&mut task, interrupted, (number, thread)).await;
        door.requests.remove(unique);
        unanswered.0 = None;
        if let Some(outcome) = outcome {
            return answer(&door, &device, unique, (number, outcome));
        }
        device.refuse(unique, libc::EINTR);
        if interrupted::goes_on(number)
            && let Ok(answer) = task.await
        {
            interrupted::take_back(&door.fs, number, &answer).await;
        }
    };
    begun.go_on(Box::pin(rest), &waker);
}

/// A request that goes on somewhere and has had no answer. One whose task panics, or ends with the
/// runtime, is refused: the program that asked would wait for ever.
struct Unanswered(Option<(Arc<Device>, u64)>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some((device, unique)) = self.0.take() {
            device.refuse(unique, libc::EIO);
        }
    }
}

/// The outcome, or `None` if the request is given up.
async fn finish(
    task: &mut Task,
    interrupted: oneshot::Receiver<()>,
    (number, thread): (u32, u32),
) -> Option<Outcome> {
    // What is closed must be closed.
    if matches!(number, opcode::RELEASE | opcode::RELEASEDIR) {
        return Some(task.await);
    }
    tokio::select! {
        outcome = task => Some(outcome),
        () = given_up(interrupted, number, thread) => None,
    }
}

fn answer(door: &Door, device: &Device, unique: u64, (number, outcome): (u32, Outcome)) {
    match outcome {
        Ok(answer) => device.reply(unique, &answer.parts()),
        Err(error) => {
            if error.is_failure() {
                // A program that tries on and on must not turn over a log that says what was lost,
                // nor keep that out of it.
                let quiet = if error.is_loss() {
                    &door.losses
                } else {
                    &door.failures
                };
                if let Some(others) = quiet.pass() {
                    let left_out = others.field();
                    tracing::warn!(request = number, %error, left_out, "a request failed");
                }
            } else {
                tracing::debug!(request = number, %error, errno = error.errno(), "a request was refused");
            }
            device.refuse(unique, error.errno());
        }
    }
}
