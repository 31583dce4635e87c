//! A request from its start to its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use weft_client::InlineTask;
use weft_net::{LogLimit, Processors};

use super::abandon::{self, abandoned};
use super::attribute_requests::AttributeRequests;
use super::interrupts::InterruptibleRequests;
use super::write_order::{OrderedWrite, WriteOrder};
use crate::fs::{FileSystem, FsError};
use crate::fuse::device::abi::{
    self, BatchForgetIn, ForgetIn, ForgetOne, InterruptIn, ReadIn, opcode,
};
use crate::fuse::device::{Answer, Incoming};
use crate::fuse::requests::{Reply, carry_out};

/// Shared by all threads and requests.
pub(super) struct Session {
    fs: Arc<FileSystem>,
    runtime: Handle,
    requests: InterruptibleRequests,
    attribute_requests: Arc<AttributeRequests>,
    order: Arc<WriteOrder>,
    processors: Arc<dyn Processors>,
    failures: LogLimit,
    losses: LogLimit,
}

impl Session {
    /// `first_request`: the number of the kernel's first request.
    pub(super) fn new(
        fs: Arc<FileSystem>,
        runtime: &Handle,
        attribute_requests: Arc<AttributeRequests>,
        first_request: u64,
        processors: Arc<dyn Processors>,
    ) -> Session {
        Session {
            fs,
            runtime: runtime.clone(),
            requests: InterruptibleRequests::default(),
            attribute_requests,
            order: Arc::new(WriteOrder::begin(first_request)),
            processors,
            failures: LogLimit::default(),
            losses: LogLimit::default(),
        }
    }

    /// Registers a request on the thread that it came to: before the next one comes there, and
    /// before one that came with it is carried out, which may wait for it.
    pub(super) fn arrived(&self, request: Incoming, answer: Answer) -> Arrived {
        self.processors.note_request();
        let unique = request.header.unique;
        let write = self.order.arrived(unique, writes_through(&request));
        Arrived {
            request,
            answer,
            write,
        }
    }

    /// Carries a request out, as far as that needs no waiting on this thread.
    pub(super) fn take(self: &Arc<Self>, arrived: Arrived) {
        let number = arrived.request.header.opcode;
        let handled = || handle(self, arrived);
        if catch_unwind(AssertUnwindSafe(handled)).is_err() {
            // The answer was dropped, which refused the request.
            tracing::error!(request = number, "a request panicked");
        }
    }
}

/// A request that is registered.
pub(super) struct Arrived {
    request: Incoming,
    answer: Answer,
    /// If it writes through the kernel's pages.
    write: Option<OrderedWrite>,
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

fn handle(session: &Arc<Session>, arrived: Arrived) {
    let Arrived {
        request,
        answer,
        write,
    } = arrived;
    match request.header.opcode {
        opcode::FORGET | opcode::BATCH_FORGET => {
            answer.forgo();
            forget(&session.fs, &request);
        }
        opcode::INTERRUPT => interrupt(session, &request, answer),
        opcode::DESTROY => answer.reply(&[]),
        _ => begin(session, request, answer, write),
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
/// again, unless the request came through a ring; so it is kept for the request, too.
fn interrupt(session: &Session, request: &Incoming, answer: Answer) {
    let known = request
        .argument::<InterruptIn>()
        .is_some_and(|(interrupt, _)| session.requests.interrupt(interrupt.unique));
    if known {
        answer.forgo();
    } else {
        answer.refuse(libc::EAGAIN);
    }
}

type Outcome = Result<Reply, FsError>;
type Task = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Begins a request on this thread. A request that needs no server, for cached data for example,
/// finishes here; one that waits for a server continues where the server's reply arrives.
fn begin(
    session: &Arc<Session>,
    request: Incoming,
    mut answer: Answer,
    write: Option<OrderedWrite>,
) {
    let unique = request.header.unique;
    let (number, thread) = (request.header.opcode, request.header.pid);
    let (file, attributes) = (request.header.nodeid, &session.attribute_requests);
    answer.hold(match number {
        opcode::GETATTR => Some(attributes.begin(file)),
        opcode::OPEN => Some(attributes.begin_open(file)),
        _ => None,
    });
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
        return reply(session, answer, (number, outcome));
    }
    let interrupted = session.requests.add(unique);
    let session = session.clone();
    let rest = async move {
        let mut task = task;
        let outcome = finish(&mut task, interrupted, (number, thread)).await;
        session.requests.remove(unique);
        if let Some(outcome) = outcome {
            return reply(&session, answer, (number, outcome));
        }
        answer.refuse(libc::EINTR);
        if abandon::runs_to_its_end(number)
            && let Ok(reply) = task.await
        {
            abandon::undo(&session.fs, number, &reply).await;
        }
    };
    inline.run(Box::pin(rest), &waker);
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

fn reply(session: &Session, answer: Answer, (number, outcome): (u32, Outcome)) {
    match outcome {
        Ok(reply) => answer.reply(&reply.slices()),
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
            answer.refuse(error.errno());
        }
    }
}
