//! Keeps processors out of deep idle states while requests come.
//!
//! A processor that has nothing to do sleeps, and waking it takes time: 20 µs in a virtual machine,
//! where both sides of each message between two threads pay it, and up to 100 µs in the deepest
//! states of hardware. A small request takes 10 µs otherwise. The kernel lets root bound that time
//! (`/dev/cpu_dma_latency`, Linux's "PM QoS"): idle processors then wait in a state that they leave
//! at once, or look for work without sleeping. Threads that can run lose nothing by it; it costs
//! power. So the bound holds while requests come in bursts, and ends some milliseconds after.
//!
//! Rejected: threads that look for requests themselves for a while (they take the processor from
//! those who work on requests), `pm_qos_resume_latency_us` of each processor (it stays set when a
//! process is killed). Measurements are in `docs/design/0039-idle-states.md`.
//!
//! Invariants:
//! 1. The kernel drops the bound when the process ends, however it ends: its descriptor closes.
//! 2. Without requests there is no bound, and no thread wakes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::limits::{
    BURST_INTERVAL, BURST_REQUESTS, EXIT_LATENCY_MAX, QUIET_INTERVAL, QUIET_REQUESTS,
};

/// The processors of this machine, as far as a process that serves requests can help them.
pub trait Processors: Send + Sync {
    /// A request has come; the next may follow within microseconds. Costs some nanoseconds.
    fn note_request(&self);
}

/// Leaves idle processors to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmanagedProcessors;

impl Processors for UnmanagedProcessors {
    fn note_request(&self) {}
}

/// See the module.
#[derive(Debug)]
pub struct ShallowIdle {
    shared: Arc<Shared>,
    release: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    requests: AtomicU64,
    bound: Mutex<Bound>,
    /// Whether the bound holds, to be read without the lock.
    holds: AtomicBool,
    /// The thread that releases the bound is to end.
    ended: AtomicBool,
}

/// The kernel's side.
#[derive(Debug)]
struct Bound {
    device: File,
    /// Microseconds.
    latency: i32,
    /// When the last [`BURST_REQUESTS`] requests began.
    burst: Instant,
}

/// What the kernel takes for no bound (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`), in microseconds.
const UNBOUNDED: i32 = 2_000_000_000;

impl ShallowIdle {
    /// Prepares it.
    ///
    /// # Errors
    /// Only root may open the kernel's device; some kernels and machines have no idle states.
    pub fn start() -> io::Result<ShallowIdle> {
        let cpuidle = Path::new("/sys/devices/system/cpu");
        let read = |path: &str| std::fs::read_to_string(cpuidle.join(path));
        let driver = read("cpuidle/current_driver")?;
        let shallowest = read("cpu0/cpuidle/state1/latency").ok();
        let latency = latency_for(driver.trim(), shallowest.as_deref())
            .ok_or_else(|| io::Error::other("the processors have no idle states to choose from"))?;
        let device = File::options().write(true).open("/dev/cpu_dma_latency")?;
        ShallowIdle::with(device, latency)
    }

    fn with(device: File, latency: i32) -> io::Result<ShallowIdle> {
        let bound = Bound {
            device,
            latency,
            burst: Instant::now(),
        };
        // Whatever opening the device has set.
        bound.set(UNBOUNDED)?;
        let shared = Arc::new(Shared {
            requests: AtomicU64::new(0),
            bound: Mutex::new(bound),
            holds: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let watched = shared.clone();
        let release = std::thread::Builder::new()
            .name("weft-idle".into())
            .spawn(move || watched.release_when_quiet())?;
        Ok(ShallowIdle { shared, release })
    }
}

impl Processors for ShallowIdle {
    fn note_request(&self) {
        let shared = &self.shared;
        let number = shared.requests.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(BURST_REQUESTS)
            && !shared.holds.load(Ordering::Acquire)
            && shared.is_burst()
        {
            shared.hold();
            self.release.thread().unpark();
        }
    }
}

impl Drop for ShallowIdle {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.release.thread().unpark();
    }
}

impl Shared {
    fn release_when_quiet(&self) {
        while !self.ended.load(Ordering::Acquire) {
            if !self.holds.load(Ordering::Acquire) {
                std::thread::park();
                continue;
            }
            let before = self.requests.load(Ordering::Relaxed);
            std::thread::sleep(QUIET_INTERVAL);
            if self.requests.load(Ordering::Relaxed) - before < QUIET_REQUESTS {
                self.release();
            }
        }
    }

    /// Whether the last requests came in a short time.
    fn is_burst(&self) -> bool {
        let now = Instant::now();
        let began = std::mem::replace(&mut self.bound.lock().burst, now);
        now - began < BURST_INTERVAL
    }

    fn hold(&self) {
        let bound = self.bound.lock();
        if bound.set(bound.latency).is_ok() {
            self.holds.store(true, Ordering::Release);
        }
    }

    fn release(&self) {
        let bound = self.bound.lock();
        self.holds.store(false, Ordering::Release);
        if let Err(error) = bound.set(UNBOUNDED) {
            tracing::warn!(%error, "the kernel keeps processors out of deep idle states until this process ends");
        }
    }
}

impl Bound {
    fn set(&self, latency: i32) -> io::Result<()> {
        self.device.write_all_at(&latency.to_ne_bytes(), 0)
    }
}

/// The bound in microseconds that leaves a processor its shallowest state, from which it wakes
/// without delay; `None`: there is no such state.
fn latency_for(driver: &str, shallowest: Option<&str>) -> Option<i32> {
    match driver {
        "none" => None,
        // A virtual machine: each sleep is left through the hypervisor, whatever the state tells.
        "haltpoll" => Some(0),
        _ => {
            let latency = shallowest?.trim().parse().ok()?;
            (latency <= EXIT_LATENCY_MAX).then_some(latency)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn set_to(path: &Path) -> i32 {
        i32::from_ne_bytes(std::fs::read(path).unwrap().try_into().unwrap())
    }

    #[test]
    fn the_bound_holds_while_requests_come_in_bursts() {
        let path = std::env::temp_dir().join(format!("weft-idle-{}", std::process::id()));
        let idle = ShallowIdle::with(File::create(&path).unwrap(), 7).unwrap();
        assert_eq!(set_to(&path), UNBOUNDED, "no request has come");
        for _ in 0..2 * BURST_REQUESTS {
            idle.note_request();
        }
        assert_eq!(set_to(&path), 7);
        let deadline = Instant::now() + Duration::from_secs(20);
        while set_to(&path) != UNBOUNDED && Instant::now() < deadline {
            std::thread::sleep(QUIET_INTERVAL);
        }
        assert_eq!(set_to(&path), UNBOUNDED, "the burst is over");
        for _ in 0..BURST_REQUESTS {
            std::thread::sleep(BURST_INTERVAL / 2);
            idle.note_request();
        }
        assert_eq!(set_to(&path), UNBOUNDED, "these are no burst");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_states_that_are_left_at_once_count_as_shallow() {
        assert_eq!(latency_for("haltpoll", Some("1\n")), Some(0));
        assert_eq!(latency_for("intel_idle", Some("2\n")), Some(2));
        assert_eq!(latency_for("acpi_idle", Some("900\n")), None);
        assert_eq!(latency_for("acpi_idle", None), None);
        assert_eq!(latency_for("none", None), None);
    }
}
