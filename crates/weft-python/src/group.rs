//! Groups of processes that make collective calls.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_client::{Missing, Overlaps};
use weft_proto::limits::{GROUP_NAME_MAX, MEMBERS_MAX, WAIT_MAX};

/// See `_weft.pyi`.
#[pyclass(frozen, subclass, module = "weft._weft")]
pub(crate) struct Group(pub(crate) Arc<weft_client::Group>);

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (id, members, member, *, wait=None, go_on=false, member_order=false))]
    fn new(
        id: String,
        members: u32,
        member: u32,
        wait: Option<f64>,
        go_on: bool,
        member_order: bool,
    ) -> PyResult<Group> {
        if !(1..=GROUP_NAME_MAX).contains(&id.len()) {
            let message = format!("a group's id has 1 to {GROUP_NAME_MAX} bytes");
            return Err(PyValueError::new_err(message));
        }
        if member >= members || members > MEMBERS_MAX {
            return Err(PyValueError::new_err(format!(
                "there is no member {member} of {members}: a group has 1 to {MEMBERS_MAX}, numbered from 0"
            )));
        }
        let mut group = weft_client::Group::new(id, members, member);
        if let Some(seconds) = wait {
            let wait = Duration::try_from_secs_f64(seconds).ok();
            let wait = wait.filter(|wait| wait.as_millis() <= WAIT_MAX.into());
            group = group.wait(wait.ok_or_else(|| {
                PyValueError::new_err(format!("a wait of {seconds} s: an hour at most"))
            })?);
        }
        if go_on {
            group = group.missing(Missing::GoOn);
        }
        if member_order {
            group = group.overlaps(Overlaps::MemberOrder);
        }
        Ok(Group(Arc::new(group)))
    }

    #[getter]
    fn members(&self) -> u32 {
        self.0.members()
    }

    #[getter]
    fn member(&self) -> u32 {
        self.0.member()
    }

    /// Counts a collective that this member does not make.
    fn skip(&self) {
        self.0.skip();
    }

    fn __repr__(&self) -> String {
        format!(
            "<weft.Group member {} of {}>",
            self.member(),
            self.members()
        )
    }
}
