//! What is known of files.

use pyo3::prelude::*;
use weft_client::{Attributes, FileKind};

/// See `_weft.pyi`.
#[pyclass(frozen, get_all, module = "weft._weft")]
#[derive(Clone)]
pub(crate) struct Stat {
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) accessed_ns: i64,
    pub(crate) modified_ns: i64,
    pub(crate) changed_ns: i64,
    pub(crate) created_ns: i64,
    pub(crate) cells: u32,
    pub(crate) bsu: u64,
    pub(crate) chunk: u32,
    pub(crate) servers: Vec<u32>,
    pub(crate) addressed: bool,
    pub(crate) policy: Option<String>,
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        _ => "other",
    }
}

impl From<&Attributes> for Stat {
    fn from(found: &Attributes) -> Stat {
        let layout = found.layout.clone().unwrap_or_default();
        Stat {
            id: found.id,
            kind: kind_name(found.kind()),
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
            links: found.links,
            size: found.size,
            accessed_ns: found.accessed,
            modified_ns: found.modified,
            changed_ns: found.changed,
            created_ns: found.created,
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers,
            addressed: layout.storage != 0,
            policy: (!found.policy.is_empty()).then(|| found.policy.clone()),
        }
    }
}

#[pymethods]
impl Stat {
    fn __repr__(&self) -> String {
        format!(
            "<weft.Stat {} {} of {} bytes>",
            self.kind, self.id, self.size
        )
    }
}

/// See `_weft.pyi`.
#[pyclass(frozen, get_all, module = "weft._weft")]
pub(crate) struct Entry {
    pub(crate) name: std::ffi::OsString,
    /// As the service knows it: the size of a file that is being written may be older.
    pub(crate) stat: Stat,
}

#[pymethods]
impl Entry {
    #[getter]
    fn id(&self) -> u64 {
        self.stat.id
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.stat.kind
    }

    fn __repr__(&self) -> String {
        format!("<weft.Entry {} {}>", self.name.display(), self.kind())
    }
}
