//! An open volume: the link to the metadata service and those to the servers.
//!
//! Owns the links, the parts of [`crate::session`], and what a new connection to the service was
//! told.
//!
//! Invariants:
//! 1. No call passes over a connection to the service before that connection was told what is
//!    attached and locked.
//! 2. A call that was lost is repeated only where a repetition changes nothing more ([`Repeat`]).

mod options;
mod repeat;
mod servers;
mod small_file;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_net::{
    BufferPool, CallError, Connection, Counters, CountersSnapshot, Env, Identity, Link,
};
use weft_proto::coord::SyncNamespaceRequest;
use weft_proto::meta::{
    ConnectedClient, Credentials, ListClientsRequest, ReassertRequest, ServerMapReply,
    ServerMapRequest,
};
use weft_proto::session::Role;
use weft_proto::{Call, Code};

use crate::Error;
use crate::session::{Ahead, AttachedFiles, Detaches, LocksHeld, Unsynced};
use crate::volume::servers::Servers;

pub use options::ConnectOptions;
pub(crate) use repeat::Repeat;
pub use small_file::{open_regular, read_small};

/// An open volume. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) who: Arc<Credentials>,
}

pub(crate) struct Shared {
    pub(crate) env: Env,
    meta: Link,
    pub(crate) servers: Servers,
    counters: Arc<Counters>,
    /// What is attached: asserted again when the metadata service was lost.
    attached: AttachedFiles,
    /// A file is attached no more.
    pub(crate) ended: tokio::sync::Notify,
    /// What is locked: asserted again as well.
    pub(crate) locks: LocksHeld,
    /// Names that were changed ahead of the service.
    pub(crate) ahead: Ahead,
    /// Attachments whose end the service is not told yet.
    pub(crate) detaches: Detaches,
    /// The service may believe in attachments that have ended: it must be told what there is.
    outdated: AtomicBool,
    lazy: bool,
    name: String,
    /// When servers were last found not to reach each other.
    pub(crate) apart: parking_lot::Mutex<Option<tokio::time::Instant>>,
    /// Changes that may not survive power loss yet.
    pub(crate) unsynced: Unsynced,
    /// Where operations in the background go on.
    pub(crate) runtime: tokio::runtime::Handle,
    /// The service was told over this connection what there is to tell. Held while it is told, so
    /// that no call comes before: what such a call attached or locked would be forgotten again; and
    /// while what has ended is taken out.
    told: tokio::sync::Mutex<Told>,
}

impl Volume {
    /// Connects to the metadata service and fetches the server map.
    pub async fn connect(options: ConnectOptions) -> Result<Volume, Error> {
        let env = options.env;
        let identity = Identity {
            key: options.key,
            volume: options.volume,
            role: Role::Client,
            client: env.random_u64(),
            wire: options.wire,
        };
        let counters = Arc::new(Counters::default());
        let pool = BufferPool::default();
        let meta = Link::new(
            env.clone(),
            identity.clone(),
            options.address,
            None,
            pool.clone(),
            counters.clone(),
        );
        let servers = Servers::new(env.clone(), identity, pool, counters.clone());
        let shared = Shared {
            apart: parking_lot::Mutex::default(),
            env,
            meta,
            servers,
            counters,
            attached: AttachedFiles::default(),
            ended: tokio::sync::Notify::new(),
            locks: LocksHeld::default(),
            ahead: Ahead::default(),
            detaches: Detaches::default(),
            outdated: AtomicBool::new(false),
            lazy: options.lazy,
            name: options.name,
            unsynced: Unsynced::default(),
            runtime: tokio::runtime::Handle::current(),
            told: tokio::sync::Mutex::default(),
        };
        let volume = Volume {
            shared: Arc::new(shared),
            who: Arc::new(options.who),
        };
        volume.refresh_servers().await?;
        Ok(volume)
    }

    /// The same volume on behalf of somebody else; shares the connections.
    #[must_use]
    pub fn on_behalf_of(&self, who: impl Into<Arc<Credentials>>) -> Volume {
        Volume {
            shared: self.shared.clone(),
            who: who.into(),
        }
    }

    /// What this client has sent and received so far.
    pub fn counters(&self) -> CountersSnapshot {
        self.shared.counters.snapshot()
    }

    /// The server map, fresh from the metadata service.
    pub async fn server_map(&self) -> Result<ServerMapReply, Error> {
        self.meta("read the server map", &ServerMapRequest {}, Repeat::Safe)
            .await
    }

    /// How many connections to this peer, by its address, were opened so far: more than before when
    /// it was away and is back.
    pub fn connections_to(&self, peer: &str) -> u64 {
        let meta = &self.shared.meta;
        let of_service = if meta.address() == peer {
            meta.opened()
        } else {
            0
        };
        let servers = self.shared.servers.at(peer);
        of_service + servers.iter().map(|(_, link)| link.opened()).sum::<u64>()
    }

    /// What a message calls the peer at this address.
    pub fn peer_name(&self, peer: &str) -> String {
        match self.shared.servers.at(peer).first() {
            Some((id, _)) => format!("server {id} at {peer}"),
            None => format!("the metadata service at {peer}"),
        }
    }

    /// The other clients that are connected to the metadata service.
    pub async fn clients(&self) -> Result<Vec<ConnectedClient>, Error> {
        let request = ListClientsRequest {};
        let reply = self
            .meta("list the clients", &request, Repeat::Safe)
            .await?;
        Ok(reply.clients)
    }

    pub(crate) async fn refresh_servers(&self) -> Result<(), Error> {
        let map = self.server_map().await?;
        self.shared.servers.learn(&map);
        Ok(())
    }

    /// One call to the metadata service, after what was done ahead of it. `what` says what it is
    /// for, should it fail.
    pub(crate) async fn meta<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        self.catch_up().await;
        self.meta_now(what, request, repeat).await
    }

    /// One call to the metadata service that need not wait for what was done ahead of it.
    pub(crate) async fn meta_now<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        let (reply, _) = self.meta_over(what, request, repeat).await?;
        Ok(reply)
    }

    /// As [`Volume::meta_now`], and the number of the connection that the answer came over.
    pub(crate) async fn meta_over<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<(C::Reply, u64), Error> {
        let mut tries = 0;
        loop {
            let result = match self.meta_connection().await {
                Ok((connection, run)) => {
                    let called = connection.call_stamped(request).await;
                    called.map(|(reply, stamp)| {
                        self.shared.unsynced.note_names(&stamp);
                        (reply, run)
                    })
                }
                Err(e) => Err(e),
            };
            match result {
                Ok(reply) => return Ok(reply),
                Err(CallError::Lost { .. }) if repeat == Repeat::Safe && tries == 0 => tries += 1,
                Err(e) => return Err(Error::of_call(what, e)),
            }
        }
    }

    /// As [`Volume::meta`], a call that ends attachments if its answer is `done`. Until then every
    /// new connection is told of them, so that a repetition ends these and not others of the same
    /// files.
    pub(crate) async fn meta_ending<C: Call>(
        &self,
        what: &str,
        request: &C,
        ending: &mut Ending,
        done: impl Fn(&C::Reply) -> bool,
    ) -> Result<C::Reply, Error> {
        self.catch_up().await;
        let mut tries = 0;
        loop {
            ending.there = false;
            let (result, run) = match self.meta_connection().await {
                Ok((connection, run)) => (connection.call(request).await, run),
                Err(e) => (Err(e), 0),
            };
            let result = match result {
                Ok(reply) if !done(&reply) => {
                    ending.there = true;
                    return Ok(reply);
                }
                result => result,
            };
            let told = self.shared.told.lock().await;
            match result {
                Ok(reply) if told.run == run => {
                    ending.forget();
                    return Ok(reply);
                }
                // Otherwise another connection was told of them meanwhile.
                Ok(_) | Err(CallError::Lost { .. }) if tries < ENDING_TRIES => tries += 1,
                Ok(reply) => return Ok(reply),
                Err(e) => return Err(Error::of_call(what, e)),
            }
        }
    }

    /// A connection that was told of everything that is attached, and its number.
    async fn meta_connection(&self) -> Result<(Connection, u64), CallError> {
        let mut told = self.shared.told.lock().await;
        let (connection, fresh) = self.shared.meta.connection().await?;
        if fresh {
            told.all = false;
            told.run += 1;
        }
        if !told.all {
            // Before it is put together: what ends from here on may be in it.
            let outdated = self.shared.outdated.swap(false, Ordering::AcqRel);
            let telling = Telling(&self.shared, outdated);
            if let Some(request) = self.shared.reassertion(told.run, outdated) {
                // Files deleted meanwhile answer with `Stale` when they are used.
                let reply = connection.call(&request).await?;
                if !reply.gone.is_empty() {
                    tracing::warn!(files = ?reply.gone, "attached files were deleted while the metadata service was away");
                }
                self.shared.locks.lost(&reply.lost);
            }
            std::mem::forget(telling);
            told.all = true;
        }
        Ok((connection, told.run))
    }

    /// Makes every metadata operation acknowledged so far, to anybody, survive power loss. One
    /// request. Without [`ConnectOptions::lazy`] each operation does that itself before it is
    /// acknowledged.
    ///
    /// # Errors
    /// With [`Code::Lost`], once, when the service came back without changes that this client was
    /// told of.
    pub async fn sync_namespace(&self) -> Result<(), Error> {
        self.catch_up().await;
        let request = SyncNamespaceRequest {
            changed: self.shared.unsynced.of_names(),
        };
        let synced = self.meta_now("sync the namespace", &request, Repeat::Safe);
        let (unsynced, synced) = (&self.shared.unsynced, synced.await);
        match &synced {
            Ok(_) => unsynced.asked_names(&request.changed, None),
            Err(error) if error.code() == Code::Lost => {
                unsynced.asked_names(&request.changed, Some(&error.to_string()));
            }
            Err(_) => {}
        }
        synced.map(drop)
    }

    /// How many losses of names a descriptor that is opened now counts as told of, for
    /// [`Volume::name_loss_since`].
    pub fn name_losses(&self) -> u64 {
        self.shared.unsynced.names_baseline()
    }

    /// The loss of names that a descriptor was not told of yet, which then counts as told. Local.
    ///
    /// # Errors
    /// With [`Code::Lost`].
    pub fn name_loss_since(&self, told: &AtomicU64) -> Result<(), Error> {
        let untold = self.shared.unsynced.untold_names(told);
        untold.map_or(Ok(()), |message| Err(Error::lost("names", message)))
    }
}

/// What the service was told over a connection.
#[derive(Default)]
struct Told {
    /// Everything that there was to tell.
    all: bool,
    /// The connection's number.
    run: u64,
}

/// A reassertion under way; dropped, what was outdated still is.
struct Telling<'a>(&'a Shared, bool);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.must_tell();
        }
    }
}

/// An attach under way; dropped before its answer it may have been made, and the next connection is
/// told that it is not.
pub(crate) struct Attaching<'a> {
    shared: &'a Shared,
    answered: bool,
}

impl<'a> Attaching<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Attaching<'a> {
        shared.attached.begin();
        Attaching {
            shared,
            answered: false,
        }
    }

    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Attaching<'_> {
    fn drop(&mut self) {
        self.shared.attached.end();
        if !self.answered {
            self.shared.must_tell();
        }
    }
}

/// How often a call that ends attachments is repeated because the connection was lost.
const ENDING_TRIES: u32 = 2;

/// Attachments that end, and are told to new connections until the service was told so. Dropped
/// before, they end all the same: those that are certainly there are told later, of others the next
/// connection is told that they are not.
pub(crate) struct Ending {
    volume: Volume,
    files: Vec<(u64, bool)>,
    /// The service has answered that it did nothing.
    there: bool,
}

impl Ending {
    /// `files`: their ids, and whether they were attached for writing.
    pub(crate) fn new(volume: &Volume, files: Vec<(u64, bool)>) -> Ending {
        Ending {
            volume: volume.clone(),
            files,
            there: false,
        }
    }

    fn forget(&mut self) {
        for (file, write) in self.files.drain(..) {
            self.volume.shared.note_detached(file, write);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        if self.there {
            for (file, write) in self.files.drain(..) {
                self.volume.detach_later(file, write);
            }
        } else {
            self.forget();
            self.volume.shared.must_tell();
        }
    }
}

impl Shared {
    /// Notes an attachment of which the service told over connection `run`; false if another
    /// connection was told meanwhile of what is attached, without it.
    pub(crate) fn note_attached_over(&self, run: u64, file: u64, write: bool) -> bool {
        self.attached.add_over(run, file, write)
    }

    pub(crate) fn note_attached(&self, file: u64, write: bool) {
        self.attached.add(file, write);
    }

    pub(crate) fn has_ended_all(&self) -> bool {
        self.attached.is_empty()
    }

    pub(crate) fn note_detached(&self, file: u64, write: bool) {
        if self.attached.remove(file, write) {
            self.locks.ended(file);
            self.ended.notify_waiters();
        }
    }

    /// What there is to tell connection `run`.
    fn reassertion(&self, run: u64, outdated: bool) -> Option<ReassertRequest> {
        let mut request = ReassertRequest {
            lazy: self.lazy,
            name: self.name.clone(),
            locks: self.locks.all(),
            ..ReassertRequest::default()
        };
        let any = self.attached.tell(run, &mut request);
        (self.lazy || outdated || any || !self.name.is_empty()).then_some(request)
    }

    /// What is attached must be told on the next connection, also if it is nothing.
    pub(crate) fn must_tell(&self) {
        self.outdated.store(true, Ordering::Release);
    }
}
