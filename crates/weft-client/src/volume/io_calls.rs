//! Calls to I/O servers.

use weft_layout::ServerId;
use weft_net::{CallError, Connection};
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code};

use super::{Repeat, Retry, Volume};
use crate::Error;

impl Volume {
    /// One call without payload to an I/O server, which is looked up again if it has moved.
    pub(crate) async fn io<C: Call>(
        &self,
        what: &str,
        server: ServerId,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        Ok(self.io_stamped(what, server, request, repeat).await?.0)
    }

    /// As [`Volume::io`], with the server's stamp of the change.
    pub(crate) async fn io_stamped<C: Call>(
        &self,
        what: &str,
        server: ServerId,
        request: &C,
        repeat: Repeat,
    ) -> Result<(C::Reply, Stamp), Error> {
        let call = |connection: Connection| async move { connection.call_stamped(request).await };
        let result = self.on_server(server, repeat, call).await;
        result.map_err(|e| Error::of_call(format!("{what} on server {server}"), e))
    }

    /// Runs a call over a connection to an I/O server; once more if [`Retry`] allows it.
    pub(crate) async fn on_server<T, F>(
        &self,
        server: ServerId,
        repeat: Repeat,
        call: impl Fn(Connection) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut retry = Retry::once(repeat);
        loop {
            let result = match self.server_connection(server).await {
                Ok(connection) => call(connection).await,
                Err(e) => Err(e),
            };
            match result {
                Err(e) if retry.again(self, &e).await => {}
                result => return result,
            }
        }
    }

    pub(crate) async fn server_connection(
        &self,
        server: ServerId,
    ) -> Result<Connection, CallError> {
        Ok(self.shared.servers.link(server)?.connection().await?.0)
    }

    /// Whether a call that failed like this may be sent again; asks where servers are if that may
    /// help.
    pub(crate) async fn may_retry(&self, error: &CallError, repeat: Repeat) -> bool {
        match error {
            CallError::Lost { .. } => repeat == Repeat::Safe,
            CallError::Connect(failed) => {
                let servers = &self.shared.servers;
                let epoch = servers.epoch();
                // The server's new address may have arrived while the old one was being tried.
                self.refresh_servers().await.is_ok()
                    && (servers.epoch() > epoch || servers.at(failed.address()).is_empty())
            }
            CallError::Failed(_) if error.code() == Code::StaleMap => {
                self.refresh_servers().await.is_ok()
            }
            CallError::Failed(_) | CallError::Protocol { .. } => false,
        }
    }
}
