//! Calls that every client makes.

use std::time::Duration;

use weft_client::{Access, Error, File, NewLayout, Volume};
use weft_proto::Code;

use super::settle::settle;
use crate::oracle::IN_FLIGHT_MAX;
use crate::state::State;

/// A close that says what was lost has closed.
pub(super) fn ignore_reported_loss(closed: Result<(), Error>) -> Result<(), Error> {
    closed.or_else(|error| match error.code() {
        Code::Lost => Ok(()),
        _ => Err(error),
    })
}

/// Returns when what a failed call has sent to other servers is not on its way any more.
pub(super) async fn linger() {
    tokio::time::sleep(Duration::from_nanos(IN_FLIGHT_MAX) + Duration::from_millis(1)).await;
}

/// Ends an attachment. One that ends with a failure may be taken for open as long as the client is
/// there.
pub(super) async fn close(state: &State, file: &File) {
    let closed = file.close().await;
    if let Err(error) = &closed
        && error.code() != Code::Stale
    {
        state.lock().count("close", &closed);
    }
}

/// Makes a file that is not there.
pub(super) async fn make(
    volume: &Volume,
    state: &State,
    layout: &NewLayout,
    path: &str,
) -> Result<File, Error> {
    let made = settle(state, "create", async |maybe| {
        let access = if maybe {
            Access::read_write().create(0o644)
        } else {
            Access::read_write().create_new(0o644)
        };
        volume.attach(path, access.layout(layout)).await
    });
    Ok(made.await?.value)
}
