//! Calls that every client makes.

use std::time::Duration;

use weft_client::{Access, Error, File, NewLayout, Volume};
use weft_proto::Code;

use super::settle::settle;
use crate::oracle::IN_FLIGHT_MAX;
use crate::state::State;

/// A close that reports a loss has closed the file.
pub(super) fn ignore_reported_loss(closed: Result<(), Error>) -> Result<(), Error> {
    closed.or_else(|error| match error.code() {
        Code::Lost => Ok(()),
        _ => Err(error),
    })
}

/// Returns when the requests of a failed call to other servers are no longer in flight.
pub(super) async fn linger() {
    tokio::time::sleep(Duration::from_nanos(IN_FLIGHT_MAX) + Duration::from_millis(1)).await;
}

/// Ends an attachment; returns what the close reported. After a failure the service may count the
/// file as open until the client ends.
pub(super) async fn close(state: &State, file: &File) -> Result<(), Error> {
    let closed = file.close().await;
    if let Err(error) = &closed
        && error.code() != Code::Stale
    {
        state.lock().count("close", &closed);
    }
    closed
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
