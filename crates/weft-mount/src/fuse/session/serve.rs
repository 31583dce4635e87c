//! A mount's threads, and a request from its start to its reply.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use weft_client::InlineTask;
use weft_net::LogLimit;

use super::abandon::{self, abandoned};
use super::attribute_requests::AttributeRequests;
use super::handshake::{self, Negotiated};
use super::interrupts::InterruptibleRequests;
use super::notifications::KernelCache;
use super::write_order::{OrderedWrite, WriteOrder};
use crate::fs::{FileSystem, FsError};
use crate::fuse::device::abi::{
    self, BatchForgetIn, ForgetIn, ForgetOne, InterruptIn, ReadIn, opcode,
};
use crate::fuse::device::{Buffers, Device, Incoming, Reader};
use crate::fuse::mount::{Appearance, LiveFlags, MountError, attach, mounted_on};
use crate::fuse::requests::{Reply, carry_out};

/// The parameters of a mount.
pub struct Mount {
    /// The mount point.
    pub path: PathBuf,
    /// How it appears to the kernel.
    pub appearance: Appearance,
    /// Threads that take requests from the kernel.
    pub threads: usize,
    /// The kernel's read-ahead in KiB; root only.
    pub read_ahead_kib: u32,
}

/// A mounted file system. It ends when it is unmounted, by this process or another.
pub struct Running {
    path: PathBuf,
    negotiated: Negotiated,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// Shared by all threads and requests.
struct Session {
    fs: Arc<FileSystem>,
    runtime: Handle,
    requests: InterruptibleRequests,
    attribute_requests: Arc<AttributeRequests>,
    order: Arc<WriteOrder>,
    failures: LogLimit,
    losses: LogLimit,
}

impl Mount {
    /// Mounts; requests are carried out on `runtime`.
    pub fn start(self, fs: Arc<FileSystem>, runtime: &Handle) -> Result<Running, MountError> {
        let device = Arc::new(attach(&self.path, &self.appearance)?);
        let buffers = handshake::buffers();
        let negotiated = handshake::handshake(&device, &buffers)?;
        let flags = LiveFlags::new(&self.path, self.appearance.flags);
        let attribute_requests = Arc::<AttributeRequests>::default();
        let requests = attribute_requests.clone();
        let kernel = KernelCache::start(device.clone(), &negotiated, flags, requests)?;
        fs.set_upper_cache(Arc::new(kernel));
        let session = Arc::new(Session {
            fs,
            runtime: runtime.clone(),
            requests: InterruptibleRequests::default(),
            attribute_requests,
            order: Arc::new(WriteOrder::begin(negotiated.first_request)),
            failures: LogLimit::default(),
            losses: LogLimit::default(),
        });
        let mut threads = Vec::new();
        for number in 0..self.threads.max(1) {
            let device = if number == 0 {
                device.clone()
            } else {
                Arc::new(device.duplicate()?)
            };
            let (session, buffers) = (session.clone(), buffers.clone());
            let thread = std::thread::Builder::new()
                .name(format!("weft-fuse-{number}"))
                .spawn(move || serve(&session, &device, &buffers))?;
            threads.push(thread);
        }
        set_kernel_read_ahead(&self.path, self.read_ahead_kib);
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
    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The outcome of the handshake with the kernel.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Waits until it is unmounted.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// Raises the kernel's read-ahead, whose default of 128 KiB is too little for several servers. Only
/// root may do so.
fn set_kernel_read_ahead(path: &Path, kib: u32) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let device = mounted_on(path).ok().flatten().map(|m| m.device);
    let Some(device) = device else { return };
    let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = std::fs::write(&file, kib.to_string()) {
        tracing::warn!(%file, %error, "cannot raise the kernel's read-ahead");
    }
}

/// The loop of one thread.
fn serve(session: &Arc<Session>, device: &Arc<Device>, buffers: &Buffers) -> io::Result<()> {
    let mut reader = Reader::new(buffers);
    while let Some(request) = device.receive(&mut reader)? {
        let unique = request.header.unique;
        let number = request.header.opcode;
        let write = session.order.arrived(unique, writes_through(&request));
        let handled = || handle(session, device, request, write);
        if catch_unwind(AssertUnwindSafe(handled)).is_err() {
            // The program gets a reply, and the thread continues with the next request.
            tracing::error!(request = number, "a request panicked");
            if !matches!(number, opcode::FORGET | opcode::BATCH_FORGET) {
                device.refuse(unique, libc::EIO);
            }
        }
    }
    Ok(())
}

/// The file that a request writes through the kernel's pages.
fn writes_through(request: &Incoming) -> Option<u64> {
    let write = (request.header.opcode == opcode::WRITE).then(|| request.write())??;
    let through = write.write_flags & (abi::WRITE_CACHE | abi::WRITE_LOCKOWNER) == 0;
    through.then_some(request.header.nodeid)
}

/// The file whose pages a request reads, if programs write them.
fn reads_written_pages(fs: &FileSystem, request: &Incoming) -> Option<u64> {
    if request.header.opcode != opcode::READ {
        return None;
    }
    let (read, _) = request.argument::<ReadIn>()?;
    let file = request.header.nodeid;
    let pages = read.read_flags & abi::READ_LOCKOWNER == 0;
    (pages && fs.is_written_through_pages(file)).then_some(file)
}

fn handle(
    session: &Arc<Session>,
    device: &Arc<Device>,
    request: Incoming,
    write: Option<OrderedWrite>,
) {
    match request.header.opcode {
        opcode::FORGET | opcode::BATCH_FORGET => forget(&session.fs, &request),
        opcode::INTERRUPT => interrupt(session, device, &request),
        opcode::DESTROY => device.reply(request.header.unique, &[]),
        _ => begin(session, device, request, write),
    }
}

/// A forget has no reply.
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

/// Refused with `EAGAIN` if the request is not known yet: then the kernel sends the interrupt
/// again.
fn interrupt(session: &Session, device: &Device, request: &Incoming) {
    let known = request
        .argument::<InterruptIn>()
        .is_some_and(|(interrupt, _)| session.requests.interrupt(interrupt.unique));
    if !known {
        device.refuse(request.header.unique, libc::EAGAIN);
    }
}

type Outcome = Result<Reply, FsError>;
type Task = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Begins a request on this thread. A request that needs no server, for cached data for example,
/// finishes here; one that waits for a server continues where the server's reply arrives.
fn begin(
    session: &Arc<Session>,
    device: &Arc<Device>,
    request: Incoming,
    write: Option<OrderedWrite>,
) {
    let unique = request.header.unique;
    let (number, thread) = (request.header.opcode, request.header.pid);
    let in_flight = (number == opcode::GETATTR)
        .then(|| session.attribute_requests.begin(request.header.nodeid));
    let fs = session.fs.clone();
    let read = reads_written_pages(&fs, &request);
    let order = read.map(|file| (session.order.clone(), file));
    let mut task: Task = Box::pin(async move {
        if let Some((order, file)) = order {
            order.before_read(unique, file).await;
        }
        let outcome = carry_out(&fs, &request).await;
        drop(write);
        outcome
    });
    let _entered = session.runtime.enter();
    let inline = InlineTask::new(&session.runtime);
    let waker = inline.waker();
    if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
        return reply(session, device, unique, (number, outcome));
    }
    let interrupted = session.requests.add(unique);
    let (session, device) = (session.clone(), device.clone());
    let rest = async move {
        let _in_flight = in_flight;
        let mut task = task;
        let mut unanswered = UnansweredRequest(Some((device.clone(), unique)));
        let outcome = finish(&mut task, interrupted, (number, thread)).await;
        session.requests.remove(unique);
        unanswered.0 = None;
        if let Some(outcome) = outcome {
            return reply(&session, &device, unique, (number, outcome));
        }
        device.refuse(unique, libc::EINTR);
        if abandon::runs_to_its_end(number)
            && let Ok(reply) = task.await
        {
            abandon::undo(&session.fs, number, &reply).await;
        }
    };
    inline.run(Box::pin(rest), &waker);
}

/// Refuses a request whose task panics or ends with the runtime: without a reply its program would
/// wait for ever.
struct UnansweredRequest(Option<(Arc<Device>, u64)>);

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if let Some((device, unique)) = self.0.take() {
            device.refuse(unique, libc::EIO);
        }
    }
}

/// The outcome, or `None` if the request is abandoned.
async fn finish(
    task: &mut Task,
    interrupted: oneshot::Receiver<()>,
    (number, thread): (u32, u32),
) -> Option<Outcome> {
    // A close always runs to its end.
    if matches!(number, opcode::RELEASE | opcode::RELEASEDIR) {
        return Some(task.await);
    }
    tokio::select! {
        outcome = task => Some(outcome),
        () = abandoned(interrupted, number, thread) => None,
    }
}

fn reply(session: &Session, device: &Device, unique: u64, (number, outcome): (u32, Outcome)) {
    match outcome {
        Ok(reply) => device.reply(unique, &reply.slices()),
        Err(error) => {
            if error.is_failure() {
                // A program that keeps trying must neither rotate reports of losses out of the log
                // nor suppress new ones.
                let quiet = if error.is_loss() {
                    &session.losses
                } else {
                    &session.failures
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
