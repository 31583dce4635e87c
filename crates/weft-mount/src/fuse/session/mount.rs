//! A mount's threads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use weft_net::Processors;

use super::attribute_requests::AttributeRequests;
use super::handshake::{self, Negotiated};
use super::notifications::KernelCache;
use super::serve::Session;
use crate::fs::{FileSystem, VOLUME_XATTR};
use crate::fuse::device::{
    Answer, Buffers, Device, Incoming, PARAMETER, Reader, Rings, SlotAnswer, is_offered,
};
use crate::fuse::mount::{Appearance, LiveFlags, MountError, attach, mounted_on};

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
    /// Requests come through io_uring. Root has the kernel offer it; without it nothing is mounted.
    pub io_uring: bool,
    /// Told of each request.
    pub processors: Arc<dyn Processors>,
}

/// A mounted file system. It ends when it is unmounted, by this process or another.
pub struct Running {
    path: PathBuf,
    negotiated: Negotiated,
    threads: Vec<JoinHandle<io::Result<()>>>,
    rings: Option<Rings>,
}

impl Mount {
    /// Mounts; requests are carried out on `runtime`.
    pub fn start(self, fs: Arc<FileSystem>, runtime: &Handle) -> Result<Running, MountError> {
        let rings = self.io_uring.then(rings).transpose()?;
        let device = Arc::new(attach(&self.path, &self.appearance)?);
        let buffers = handshake::buffers();
        let negotiated = handshake::handshake(&device, &buffers, rings.is_some())?;
        let flags = LiveFlags::new(&self.path, self.appearance.flags);
        let attribute_requests = Arc::<AttributeRequests>::default();
        let requests = attribute_requests.clone();
        let kernel = KernelCache::start(device.clone(), &negotiated, flags, requests)?;
        fs.set_upper_cache(Arc::new(kernel));
        let first = negotiated.first_request;
        let session = Session::new(fs, runtime, attribute_requests, first, self.processors);
        let session = Arc::new(session);
        let in_rings = begin(
            rings.as_ref(),
            &device,
            (&self.path, &negotiated, &buffers),
            &session,
        );
        // Beside rings, only forgets and interrupts are read from `/dev/fuse`.
        let count = if in_rings { 1 } else { self.threads.max(1) };
        let mut threads = Vec::new();
        for number in 0..count {
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
            io_uring = in_rings,
            "mounted"
        );
        Ok(Running {
            path: self.path,
            negotiated,
            threads,
            rings,
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
        let rings = self.rings.map_or(Ok(()), Rings::end);
        result.and(rings)
    }
}

/// The rings that requests come through, if the kernel agrees.
///
/// # Errors
/// The kernel or this process may not use io_uring for requests.
fn rings() -> Result<Rings, MountError> {
    if is_offered() == Some(false) {
        std::fs::write(PARAMETER, "Y").map_err(|e| {
            let advice = "write Y into it as root, or mount as root";
            MountError::NoRings(format!(
                "the kernel's parameter {PARAMETER} is off: {e}; {advice}"
            ))
        })?;
    }
    match is_offered() {
        None => {
            let reason = "this kernel has no FUSE over io_uring, which came with Linux 6.14";
            Err(MountError::NoRings(reason.into()))
        }
        Some(_) => Rings::new()
            .map_err(|e| MountError::NoRings(format!("this process cannot make rings: {e}"))),
    }
}

/// Begins to serve the rings, if both sides agreed on them; whether requests come through them.
fn begin(
    rings: Option<&Rings>,
    device: &Arc<Device>,
    (path, negotiated, buffers): (&Path, &Negotiated, &Buffers),
    session: &Arc<Session>,
) -> bool {
    let Some(rings) = rings else { return false };
    if !negotiated.over_io_uring() {
        tracing::warn!("the kernel did not offer io_uring: requests come by /dev/fuse");
        return false;
    }
    let (session, path) = (session.clone(), path.to_owned());
    let ask = move || {
        let mut value = [0; 64];
        rustix::fs::getxattr(&path, VOLUME_XATTR, &mut value[..])?;
        Ok(())
    };
    let take = move |requests: Vec<(Incoming, SlotAnswer)>| {
        let arrived = requests.into_iter().map(|(request, slot)| {
            let answer = Answer::by_ring(slot, request.header.unique);
            session.arrived(request, answer)
        });
        for request in arrived.collect::<Vec<_>>() {
            session.take(request);
        }
    };
    let begun = rings.begin(device, (negotiated.payload_max(), buffers), ask, take);
    if let Err(error) = &begun {
        tracing::warn!(%error, "the kernel takes no rings: requests come by /dev/fuse");
    }
    begun.is_ok()
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

/// The loop of a thread that reads from `/dev/fuse`.
fn serve(session: &Arc<Session>, device: &Arc<Device>, buffers: &Buffers) -> io::Result<()> {
    let mut reader = Reader::new(buffers);
    while let Some(request) = device.receive(&mut reader)? {
        let answer = Answer::by_device(device.clone(), request.header.unique);
        session.take(session.arrived(request, answer));
    }
    Ok(())
}
