//! Connections to volumes.

use std::ffi::{c_char, c_int};
use std::mem::size_of;

use weft_client::{ConnectOptions, Volume};
use weft_ffi::{Failure, NamedVolume, runtime};

use crate::arguments::{Owned, Versioned, give, handles, of, optional_text, options, take};
use crate::error::call;
use crate::request::unused;

/// A connection to a volume, for all threads of a process.
pub struct weft_volume(Owned<Volume>);

handles! {
    weft_volume(Volume), "volume";
}

/// How to connect to a volume. Set `size` to sizeof(weft_connect_options), and what you do not use
/// to 0.
///
/// If neither `folder` nor `address` is given, the environment says which volume it is, as for the
/// command `weft`: WEFT_VOLUME names its folder, or WEFT_ADDRESS and WEFT_KEY_FILE its address and
/// the file with its key.
#[repr(C)]
pub struct weft_connect_options {
    /// sizeof(weft_connect_options).
    pub size: usize,
    /// Folder of the volume, as made by `weft up` or `weft format`.
    pub folder: *const c_char,
    /// HOST:PORT of the metadata service; needs `key_file`.
    pub address: *const c_char,
    /// File with the volume's key, readable by its owner only.
    pub key_file: *const c_char,
    /// What `weft status` calls this client.
    pub name: *const c_char,
    /// The job or application of this process, if not what WEFT_APPLICATION, Slurm, PBS or LSF say.
    /// Operations of several applications on a file that one of them writes are cautious.
    pub application: *const c_char,
    /// Consistency policy of files that have none of their own, such as "posix".
    pub policy: *const c_char,
    /// Nonzero: changes of names are acknowledged before they survive power loss (they survive the
    /// death of any process). They do a second later, or after weft_sync_names().
    pub lazy: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: as the trait asks.
unsafe impl Versioned for weft_connect_options {
    const NAME: &'static str = "weft_connect_options";
}

const _: () = assert!(size_of::<usize>() == 8, "libweft is for 64-bit machines");

/// Connects to a volume and stores the connection in *volume.
///
/// A process needs one connection, however many threads it has. Any thread may use it. `given` may
/// be NULL. weft_disconnect() ends it.
///
/// Returns 0, or a negative errno: -EINVAL if no volume is named or its folder is not one,
/// -EHOSTDOWN if the metadata service does not answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_connect(
    given: *const weft_connect_options,
    volume: *mut *mut weft_volume,
) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let given = unsafe { options(given) }?;
        // SAFETY: the caller's.
        let wanted = unsafe { wanted(&given) }?;
        unused(given.reserved, "weft_connect_options")?;
        let connected = runtime()?.block_on(Volume::connect(wanted))?;
        // SAFETY: the caller's.
        unsafe { give(connected, volume) }?;
        Ok(0)
    })
}

/// # Safety
/// The texts are NULL or end with NUL.
unsafe fn wanted(given: &weft_connect_options) -> Result<ConnectOptions, Failure> {
    // SAFETY: the caller's.
    let text = |text, what| unsafe { optional_text(text, what) };
    let folder = text(given.folder, "folder")?;
    let address = text(given.address, "address")?;
    let key_file = text(given.key_file, "key file")?;
    let named = NamedVolume {
        folder: folder.map(str::to_owned),
        address: address.map(str::to_owned),
        key_file: key_file.map(str::to_owned),
    };
    let mut wanted = named.options()?;
    if let Some(name) = text(given.name, "name")? {
        name.clone_into(&mut wanted.name);
    }
    if let Some(application) = text(given.application, "application")? {
        application.clone_into(&mut wanted.application);
    }
    if let Some(policy) = text(given.policy, "policy")? {
        let policy = wanted.policies.find(policy);
        wanted.policy = Some(policy.map_err(|e| Failure::invalid(e.to_string()))?);
    }
    wanted.lazy = given.lazy != 0;
    Ok(wanted)
}

/// Ends a connection. NULL is allowed.
///
/// What was written is written: nothing is lost. Files, views and operations of the connection stay
/// valid until they are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_disconnect(volume: *mut weft_volume) {
    // SAFETY: the caller's.
    let _ = call(|| unsafe { take(volume) }.map(|_| 0_i32));
}

/// Waits until all changes of names that this connection has made survive power loss.
///
/// Needed only with `lazy` connections. Returns 0, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sync_names(volume: *const weft_volume) -> c_int {
    call(|| {
        // SAFETY: the caller's.
        let volume = unsafe { of(volume) }?;
        runtime()?.block_on(volume.sync_namespace())?;
        Ok(0)
    })
}

/// Returns how many requests this process has sent to all servers of a volume through this
/// connection, those of the background included, or a negative errno. For programs that count what
/// a call costs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_requests_sent(volume: *const weft_volume) -> i64 {
    call(|| {
        // SAFETY: the caller's.
        let counters = unsafe { of(volume) }?.counters();
        Ok(counters.calls_total() as i64)
    })
}
