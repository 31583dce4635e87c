//! Connections to the volume's other I/O servers.

use std::sync::Arc;

use weft_layout::ServerId;
use weft_net::{BufferPool, CallError, Connection, Counters, Env, Identity, Link, Links};
use weft_proto::meta::{ServerMapReply, ServerMapRequest};
use weft_proto::{Call, Code, Failure};

/// Links to them by the server map, so that no client chooses their addresses.
pub(crate) struct Peers {
    meta: Link,
    links: Links,
}

impl Peers {
    /// Connects to none before the first use.
    pub(crate) fn new(env: Env, identity: Identity, meta: Link, counters: Arc<Counters>) -> Peers {
        let links = Links::new(env, identity, BufferPool::default(), counters);
        Peers { meta, links }
    }

    /// The server map, as the metadata service has it now.
    pub(crate) async fn server_map(&self) -> Result<ServerMapReply, CallError> {
        let map = self.ask_meta(&ServerMapRequest {}).await?;
        self.links.learn(&map);
        Ok(map)
    }

    /// One call to a server; once more if another process has taken its place.
    pub(in crate::io) async fn call<C: Call>(
        &self,
        server: ServerId,
        request: &C,
    ) -> Result<C::Reply, String> {
        let connection = self.connection(server).await;
        let connection = connection.map_err(|failure| failure.message)?;
        match connection.call(request).await {
            Err(error) if error.code() == Code::StaleMap => {
                self.server_map().await.map_err(|e| e.to_string())?;
                let connection = self.connection(server).await;
                let connection = connection.map_err(|failure| failure.message)?;
                let reply = connection.call(request).await;
                reply.map_err(|e| e.to_string())
            }
            done => done.map_err(|e| e.to_string()),
        }
    }

    /// One call to the metadata service.
    pub(in crate::io) async fn ask_meta<C: Call>(
        &self,
        request: &C,
    ) -> Result<C::Reply, CallError> {
        let (connection, _) = self.meta.connection().await?;
        connection.call(request).await
    }

    /// A connection to a server.
    pub(in crate::io) async fn connection(&self, server: ServerId) -> Result<Connection, Failure> {
        if let Some(link) = self.links.get(server)
            && let Ok((connection, _)) = link.connection().await
        {
            return Ok(connection);
        }
        // It may have another address by now.
        self.server_map().await.map_err(|e| failure(server, &e))?;
        let Some(link) = self.links.get(server) else {
            let what = format!("server {server} is not in the server map");
            return Err(Failure::new(Code::Unavailable, what));
        };
        let connected = link.connection().await;
        let connected = connected.map_err(|e| failure(server, &CallError::Connect(e)));
        connected.map(|(connection, _)| connection)
    }
}

/// What a failed call to another server is to the caller.
pub(in crate::io) fn failure(server: ServerId, error: &CallError) -> Failure {
    match error {
        CallError::Failed(failure) => failure.clone(),
        error => {
            let what = format!("this server cannot go on with server {server}: {error}");
            Failure::new(Code::Unavailable, what)
        }
    }
}
