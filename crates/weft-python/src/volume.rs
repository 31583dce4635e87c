//! Connections to volumes.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft_client::NewLayout;
use weft_ffi::NamedVolume;
use weft_layout::Storage;

use crate::errors::exception;
use crate::per_process::PerProcess;
use crate::waiting::wait;

/// How a process connects, so that another can do the same.
#[derive(Clone, Default)]
struct Wanted {
    named: NamedVolume,
    name: Option<String>,
    application: Option<String>,
    policy: Option<String>,
    lazy: bool,
}

/// A volume, and the connection that each process has to it.
pub(crate) struct Connected {
    wanted: Wanted,
    volume: PerProcess<weft_client::Volume>,
}

impl Connected {
    /// This process's connection.
    pub(crate) fn volume(&self, py: Python<'_>) -> PyResult<weft_client::Volume> {
        self.volume.get_or(|| connected(py, &self.wanted))
    }
}

fn connected(py: Python<'_>, wanted: &Wanted) -> PyResult<weft_client::Volume> {
    let options = wanted.named.clone().options();
    let mut options = options.map_err(|failure| exception(&failure, None))?;
    if let Some(name) = &wanted.name {
        options.name.clone_from(name);
    }
    if let Some(application) = &wanted.application {
        options.application.clone_from(application);
    }
    if let Some(policy) = &wanted.policy {
        let found = options.policies.find(policy);
        options.policy = Some(found.map_err(|e| PyValueError::new_err(e.to_string()))?);
    }
    options.lazy = wanted.lazy;
    wait(py, None, weft_client::Volume::connect(options))
}

/// See `_weft.pyi`.
#[pyclass(frozen, subclass, module = "weft._weft")]
pub(crate) struct Volume(pub(crate) Arc<Connected>);

/// The layout of new files, from keyword arguments.
pub(crate) fn layout_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<NewLayout> {
    let mut layout = NewLayout::default();
    let Some(given) = given else {
        return Ok(layout);
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "cells" => layout.cells = Some(value.extract()?),
            "bsu" => layout.bsu = Some(value.extract()?),
            "chunk" => layout.chunk = Some(value.extract()?),
            "servers" => layout.servers = value.extract()?,
            "replicas" => layout.replicas = Some(value.extract()?),
            "addressed" => {
                let addressed: bool = value.extract()?;
                layout.storage = Some(if addressed {
                    Storage::Addressed
                } else {
                    Storage::Plain
                });
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "a layout has no {other:?}: it has cells, bsu, chunk, servers, replicas and addressed"
                )));
            }
        }
    }
    Ok(layout)
}

#[pymethods]
impl Volume {
    #[new]
    #[pyo3(signature = (folder=None, *, address=None, key_file=None, name=None, application=None,
        policy=None, lazy=false, connect=true))]
    #[allow(
        clippy::too_many_arguments,
        clippy::fn_params_excessive_bools,
        reason = "keywords of Python"
    )]
    fn new(
        py: Python<'_>,
        folder: Option<std::path::PathBuf>,
        address: Option<String>,
        key_file: Option<std::path::PathBuf>,
        name: Option<String>,
        application: Option<String>,
        policy: Option<String>,
        lazy: bool,
        connect: bool,
    ) -> PyResult<Volume> {
        let text =
            |path: Option<std::path::PathBuf>| path.map(|p| p.to_string_lossy().into_owned());
        let wanted = Wanted {
            named: NamedVolume {
                folder: text(folder),
                address,
                key_file: text(key_file),
            },
            name,
            application,
            policy,
            lazy,
        };
        let volume = if connect {
            PerProcess::new(connected(py, &wanted)?)
        } else {
            PerProcess::empty()
        };
        Ok(Volume(Arc::new(Connected { wanted, volume })))
    }

    /// Ends the connection, when its files are closed; the next use connects again.
    fn close(&self, py: Python<'_>) {
        let volume = self.0.volume.take();
        py.detach(|| drop(volume));
    }

    /// Waits until all changes of names survive power loss.
    fn sync_names(&self, py: Python<'_>) -> PyResult<()> {
        let volume = self.0.volume(py)?;
        wait(py, None, volume.sync_namespace())
    }

    /// Requests that this process has sent to all servers by this connection.
    #[getter]
    fn requests_sent(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.0.volume(py)?.counters().calls_total())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Py<PyDict>,))> {
        let py = slf.py();
        let wanted = &slf.get().0.wanted;
        let arguments = PyDict::new(py);
        let absolute = |path: &Option<String>| {
            let path = path.as_ref().map(std::path::PathBuf::from);
            path.map(|path| std::path::absolute(&path).unwrap_or(path))
        };
        arguments.set_item("folder", absolute(&wanted.named.folder))?;
        arguments.set_item("address", &wanted.named.address)?;
        arguments.set_item("key_file", absolute(&wanted.named.key_file))?;
        arguments.set_item("name", &wanted.name)?;
        arguments.set_item("application", &wanted.application)?;
        arguments.set_item("policy", &wanted.policy)?;
        arguments.set_item("lazy", wanted.lazy)?;
        let connect = py.import("weft._pickle")?.getattr("connect")?;
        Ok((connect, (arguments.unbind(),)))
    }

    fn __repr__(&self) -> String {
        let named = &self.0.wanted.named;
        let which = named.folder.as_ref().or(named.address.as_ref());
        format!(
            "<weft.Volume {}>",
            which.map_or("of the environment", |w| w)
        )
    }
}
