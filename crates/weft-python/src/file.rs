//! Attached files.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weft_client::{Access, LockKind, LockOwner, LockRange, Locked, Place};
use weft_ffi::Failure;
use weft_layout::{CellIndex, FileOffset, OFFSET_MAX, Storage};

use crate::buffer::{offset_of, path_bytes};
use crate::errors::{client_error, closed, exception};
use crate::per_process::PerProcess;
use crate::stat::Stat;
use crate::volume::{Connected, Volume, layout_of};
use crate::waiting::wait;

/// A file, and the attachment that each process has of it.
pub(crate) struct Opened {
    volume: Arc<Connected>,
    id: u64,
    path: String,
    /// How a child attaches it; `None`: it was adopted, and a child cannot have it.
    access: Option<Access>,
    writes: bool,
    file: PerProcess<weft_client::File>,
    closed: std::sync::atomic::AtomicBool,
}

impl Opened {
    pub(crate) fn new(
        volume: Arc<Connected>,
        file: weft_client::File,
        access: Option<Access>,
    ) -> Opened {
        Opened {
            volume,
            id: file.id(),
            path: file.path().to_owned(),
            access,
            writes: file.writable(),
            file: PerProcess::new(file),
            closed: false.into(),
        }
    }

    /// A file that another process attached: each process attaches it at its first use, by its id.
    fn again(volume: Arc<Connected>, id: u64, path: String, write: bool) -> Opened {
        Opened {
            volume,
            id,
            path,
            access: Some(if write {
                Access::read_write()
            } else {
                Access::read()
            }),
            writes: write,
            file: PerProcess::empty(),
            closed: false.into(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// This process's attachment.
    pub(crate) fn file(&self, py: Python<'_>) -> PyResult<weft_client::File> {
        if self.closed.load(std::sync::atomic::Ordering::Acquire) {
            return Err(closed("file", &self.path));
        }
        self.file.get_or(|| {
            let Some(access) = &self.access else {
                let reason = "another process handed it over: adopt it in this one, too";
                let failure = Failure::new(libc::EBADF, reason);
                return Err(exception(&failure, Some(&self.path)));
            };
            let volume = self.volume.volume(py)?;
            let place = Place::of(self.id).shown_as(self.path.clone());
            wait(py, Some(&self.path), volume.attach(place, access.clone()))
        })
    }
}

/// See `_weft.pyi`.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct File(pub(crate) Arc<Opened>);

#[pymethods]
impl Volume {
    /// Attaches a file: one request, however deep the path.
    #[pyo3(signature = (path, *, write=false, create=false, exclusive=false, cautious=false,
        follow=true, permissions=0o644, layout=None, policy=None))]
    #[allow(
        clippy::too_many_arguments,
        clippy::fn_params_excessive_bools,
        reason = "keywords of Python"
    )]
    fn attach(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        write: bool,
        create: bool,
        exclusive: bool,
        cautious: bool,
        follow: bool,
        permissions: u32,
        layout: Option<&Bound<'_, PyDict>>,
        policy: Option<&str>,
    ) -> PyResult<File> {
        if (create || exclusive) && !write {
            return Err(PyValueError::new_err("to create a file needs write=True"));
        }
        let volume = self.0.volume(py)?;
        let mut access = if write {
            Access::read_write()
        } else {
            Access::read()
        };
        if cautious {
            access = access.cautious();
        }
        if !follow {
            access = access.no_follow();
        }
        if let Some(name) = policy {
            let found = volume.policies().find(name);
            access = access.policy(found.map_err(|e| PyValueError::new_err(e.to_string()))?);
        }
        // A child of this process attaches the file that is there then.
        let again = access.clone();
        if exclusive {
            access = access.create_new(permissions).layout(&layout_of(layout)?);
        } else if create {
            access = access.create(permissions).layout(&layout_of(layout)?);
        } else if layout.is_some() {
            return Err(PyValueError::new_err("a layout is for create=True"));
        }
        let bytes = path_bytes(path)?;
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let file = wait(py, Some(&shown), volume.attach(bytes, access))?;
        Ok(File(Arc::new(Opened::new(
            self.0.clone(),
            file,
            Some(again),
        ))))
    }

    /// A file that was pickled.
    fn _attached(&self, id: u64, path: String, write: bool) -> File {
        File(Arc::new(Opened::again(self.0.clone(), id, path, write)))
    }

    /// Adopts a file that another process has attached and handed over. No message.
    fn adopt(&self, py: Python<'_>, handed: &[u8]) -> PyResult<File> {
        let adopted = self.0.volume(py)?.adopt(handed);
        let file = adopted.map_err(|error| crate::errors::client_error(error, None))?;
        Ok(File(Arc::new(Opened::new(self.0.clone(), file, None))))
    }
}

#[pymethods]
impl File {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id
    }

    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    #[getter]
    fn volume(&self) -> Volume {
        Volume(self.0.volume.clone())
    }

    #[getter]
    fn writable(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.file(py)?.writable())
    }

    #[getter]
    fn created(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.file(py)?.created())
    }

    /// Cells, bytes of a BSU and of a chunk, servers, and whether chunks are addressed.
    #[getter]
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let file = self.0.file(py)?;
        let layout = file.layout();
        let found = Stat::from(file.attributes());
        let shown = PyDict::new(py);
        shown.set_item("cells", found.cells)?;
        shown.set_item("bsu", found.bsu)?;
        shown.set_item("chunk", found.chunk)?;
        shown.set_item("servers", found.servers)?;
        shown.set_item("addressed", layout.storage() == Storage::Addressed)?;
        Ok(shown)
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        let file = self.0.file(py)?;
        Ok(Stat::from(&wait(py, Some(self.path()), file.stat())?))
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.0.file(py)?;
        wait(py, Some(self.path()), file.size())
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        let file = self.0.file(py)?;
        wait(py, Some(self.path()), file.truncate(size))
    }

    /// Makes the file at least so long.
    fn extend(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        let file = self.0.file(py)?;
        wait(py, Some(self.path()), file.extend(size)).map(drop)
    }

    /// Returns when all that was written survives power loss.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0.file(py)?;
        wait(py, Some(self.path()), file.sync())
    }

    /// Closes the file; its views cannot be used any more. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self
            .0
            .closed
            .swap(true, std::sync::atomic::Ordering::AcqRel)
        {
            return Ok(());
        }
        match self.0.file.take() {
            Some(file) => wait(py, Some(self.path()), file.close()),
            None => Ok(()),
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.closed.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Copies bytes of another file of the volume, by the servers where they can; returns how many.
    #[pyo3(signature = (source, source_offset=0, offset=0, length=None))]
    fn copy_from(
        &self,
        py: Python<'_>,
        source: &File,
        source_offset: u64,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<u64> {
        let (from, to) = (source.0.file(py)?, self.0.file(py)?);
        let (at, into) = (
            FileOffset(offset_of(source_offset)?.0),
            FileOffset(offset_of(offset)?.0),
        );
        let length = length.unwrap_or(OFFSET_MAX - source_offset.max(offset));
        wait(
            py,
            Some(self.path()),
            to.copy_range(&from, at, into, length),
        )
    }

    /// Cell, name and bytes of every fork.
    fn forks(&self, py: Python<'_>) -> PyResult<Vec<(u32, String, u64)>> {
        let file = self.0.file(py)?;
        let forks = wait(py, Some(self.path()), file.forks())?;
        let forks = forks.into_iter().map(|f| (f.cell, f.fork, f.length));
        Ok(forks.collect())
    }

    fn create_fork(&self, py: Python<'_>, cell: u32, fork: &str) -> PyResult<()> {
        let file = self.0.file(py)?;
        let made = file.create_fork(CellIndex(cell), fork);
        wait(py, Some(self.path()), made)
    }

    fn remove_fork(&self, py: Python<'_>, cell: u32, fork: &str) -> PyResult<()> {
        let file = self.0.file(py)?;
        let removed = file.remove_fork(CellIndex(cell), fork);
        wait(py, Some(self.path()), removed)
    }

    #[getter]
    fn policy(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.0.file(py)?.policy().map(|policy| policy.to_string()))
    }

    /// Sets the consistency policy of this attachment; None: that of mounts and plain clients.
    fn set_policy(&self, py: Python<'_>, policy: Option<&str>) -> PyResult<()> {
        let file = self.0.file(py)?;
        let found = policy
            .map(|name| file.volume().policies().find(name))
            .transpose()
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        let runtime = weft_ffi::runtime();
        let runtime = runtime.map_err(|failure| exception(&failure, Some(self.path())))?;
        let _context = runtime.enter();
        file.set_policy(found)
            .map_err(|error| client_error(error, Some(self.path())))
    }

    /// Sends what the policy of this attachment has delayed.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0.file(py)?;
        wait(py, Some(self.path()), file.commit())
    }

    /// Bytes by which other processes adopt the file: `Volume.adopt`.
    fn hand_over<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.0.file(py)?;
        let handed = file.hand_over();
        if file.writable() {
            // Others will write, too: closing asks the servers what came of it.
            file.note_written();
        }
        Ok(PyBytes::new(py, &handed))
    }

    /// Locks bytes between all clients of the volume; false if a lock is in the way.
    #[pyo3(signature = (offset=0, length=None, *, shared=false, wait_for_it=true, owner=0))]
    fn lock(
        &self,
        py: Python<'_>,
        offset: u64,
        length: Option<u64>,
        shared: bool,
        wait_for_it: bool,
        owner: u64,
    ) -> PyResult<bool> {
        let file = self.0.file(py)?;
        let kind = if shared {
            LockKind::Shared
        } else {
            LockKind::Exclusive
        };
        let asked = file.lock(
            kind,
            range_of(offset, length)?,
            owner_of(owner),
            wait_for_it,
        );
        let refused = |errno, reason| exception(&Failure::new(errno, reason), Some(self.path()));
        match wait(py, Some(self.path()), asked)? {
            Locked::Granted => Ok(true),
            Locked::Held(_) => Ok(false),
            Locked::Deadlock => Err(refused(
                libc::EDEADLK,
                "the lock's holder waits for this owner",
            )),
            Locked::TooMany => Err(refused(libc::ENOLCK, "too many locks are held")),
        }
    }

    #[pyo3(signature = (offset=0, length=None, *, owner=0))]
    fn unlock(&self, py: Python<'_>, offset: u64, length: Option<u64>, owner: u64) -> PyResult<()> {
        let file = self.0.file(py)?;
        let released = file.unlock(range_of(offset, length)?, owner_of(owner));
        wait(py, Some(self.path()), released)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    /// The file is attached again at its first use where it is unpickled, by its id.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let py = slf.py();
        let file = slf.get();
        let attach = py.import("weft._pickle")?.getattr("attach")?;
        if file.0.access.is_none() {
            let reason = "another process handed it over, which alone can pickle it";
            let failure = Failure::new(libc::EBADF, reason);
            return Err(exception(&failure, Some(file.path())));
        }
        let path = file.0.path.clone();
        Ok((attach, (file.volume(), file.0.id, path, file.0.writes)))
    }

    fn __repr__(&self) -> String {
        format!("<weft.File {:?}>", self.0.path())
    }
}

/// The function that makes it again, and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, (Volume, u64, String, bool));

fn range_of(start: u64, length: Option<u64>) -> PyResult<LockRange> {
    let most = i64::MAX.unsigned_abs();
    let last = match length {
        None => Some(most),
        Some(0) => None,
        Some(length) => start.checked_add(length - 1).filter(|last| *last <= most),
    };
    let last = last.ok_or_else(|| PyValueError::new_err("the range to lock is not legal"))?;
    Ok(LockRange::Bytes { start, last })
}

fn owner_of(number: u64) -> LockOwner {
    LockOwner {
        number,
        pid: std::process::id(),
    }
}
