//! Names that servers keep coherent: each tells of every change before it is acknowledged.

use std::collections::HashMap;
use std::ops::Range;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::{CellIndex, ServerId};
use weft_proto::addressed::{CallbacksReply, CallbacksRequest, DroppedShare, ReadNamesReply};

use super::names::{Known, Names, WantedChunks};
use crate::limits::NAMES_VALID;

/// The coherent names of one client.
#[derive(Default)]
pub(crate) struct SharedNames(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts the callbacks, and what else ends names.
    last_change: u64,
    servers: HashMap<ServerId, OfServer>,
}

/// What is known of one server.
#[derive(Default)]
struct OfServer {
    /// The server's number for this client; 0: none. They ascend.
    registration: u64,
    /// The last one that has ended.
    ended: u64,
    cursor: u64,
    /// Until when its names are believed.
    until: Option<Instant>,
    /// A task asks for callbacks.
    asking: bool,
    files: HashMap<u64, OfFile>,
    dropped: Vec<DroppedShare>,
}

/// A file's names on one server.
struct OfFile {
    share: u64,
    /// The last change of it, or its first use.
    changed: u64,
    /// The size of a chunk.
    chunk: u64,
    names: Names,
}

/// That names are being asked for.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    server: ServerId,
    file: u64,
    /// The last change when it began.
    begun: u64,
    sent: Instant,
    after: u64,
}

impl Fill {
    /// The registration must be later than this one.
    pub(crate) fn after(self) -> u64 {
        self.after
    }
}

/// A share that a server gave with names.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    registration: u64,
    share: u64,
}

impl Given {
    pub(crate) fn of(reply: &ReadNamesReply) -> Given {
        Given {
            registration: reply.registration,
            share: reply.share,
        }
    }
}

impl OfServer {
    /// Ends all that is believed of this server.
    fn reset(&mut self, registration: u64) {
        self.ended = self.ended.max(self.registration);
        self.files.clear();
        self.dropped.clear();
        self.registration = registration;
        self.cursor = 0;
        self.until = None;
    }
}

impl SharedNames {
    /// The wanted names on each of these servers as they all are now, if they are known.
    pub(crate) fn all_of<'a>(
        &self,
        file: u64,
        wanted: impl Iterator<Item = (ServerId, &'a WantedChunks)>,
    ) -> Option<Vec<Names>> {
        let state = self.0.lock();
        let now = Instant::now();
        let of = |(server, wanted): (ServerId, &WantedChunks)| {
            let server = state.servers.get(&server)?;
            let believed = server.until.is_some_and(|until| now < until);
            server
                .files
                .get(&file)
                .filter(|_| believed)?
                .names
                .all_of(wanted)
        };
        wanted.map(of).collect()
    }

    /// Before names are asked for.
    pub(crate) fn begin(&self, server: ServerId, file: u64, chunk: u64) -> Fill {
        let mut state = self.0.lock();
        let state = &mut *state;
        let of_server = state.servers.entry(server).or_default();
        of_server.files.entry(file).or_insert_with(|| {
            // Names that were asked for before are no longer kept: callbacks may have been missed.
            state.last_change += 1;
            OfFile {
                share: 0,
                changed: state.last_change,
                chunk,
                names: Names::default(),
            }
        });
        Fill {
            server,
            file,
            begun: state.last_change,
            sent: Instant::now(),
            after: of_server.ended,
        }
    }

    /// Keeps names that were asked for, if nothing has changed them since. Returns whether a task
    /// must ask the server for callbacks from now on.
    pub(crate) fn keep(&self, fill: &Fill, given: Given, names: Names) -> bool {
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some(server) = state.servers.get_mut(&fill.server) else {
            return false;
        };
        if given.registration <= server.ended || given.registration < server.registration {
            return false;
        }
        let mut of_file = server.files.remove(&fill.file);
        if given.registration > server.registration {
            server.reset(given.registration);
            // Answers for names bring no callbacks: only the first one says that nothing is queued.
            server.until = Some(fill.sent + NAMES_VALID);
            // No callback of this registration has arrived.
            state.last_change += 1;
            of_file = of_file.map(|of_file| OfFile {
                changed: fill.begun.min(of_file.changed),
                names: Names::default(),
                ..of_file
            });
        }
        if let Some(mut of_file) = of_file {
            of_file.share = of_file.share.max(given.share);
            if of_file.changed <= fill.begun {
                of_file.names.merge(names);
            }
            server.files.insert(fill.file, of_file);
        } else {
            server.dropped.push(DroppedShare {
                file: fill.file,
                share: given.share,
            });
        }
        !std::mem::replace(&mut server.asking, true)
    }

    /// What to ask a server next; `None`, and the task ends, if nothing is kept of it.
    pub(crate) fn question(&self, server: ServerId) -> Option<CallbacksRequest> {
        let mut state = self.0.lock();
        let server = state.servers.get_mut(&server)?;
        if server.files.is_empty() && server.dropped.is_empty() || server.registration == 0 {
            server.asking = false;
            return None;
        }
        Some(CallbacksRequest {
            registration: server.registration,
            cursor: server.cursor,
            dropped: std::mem::take(&mut server.dropped),
        })
    }

    /// Takes over what a server tells. Returns whether to ask again.
    pub(crate) fn answered(
        &self,
        server: ServerId,
        asked: &CallbacksRequest,
        sent: Instant,
        reply: &CallbacksReply,
    ) -> bool {
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some(server) = state.servers.get_mut(&server) else {
            return false;
        };
        if server.registration != asked.registration {
            // The server has given a new registration since: its callbacks are asked for next.
            return true;
        }
        if reply.registration != asked.registration {
            state.last_change += 1;
            server.reset(0);
            server.asking = false;
            return false;
        }
        for change in &reply.changes {
            let Some(of_file) = server.files.get_mut(&change.file) else {
                continue;
            };
            state.last_change += 1;
            of_file.changed = state.last_change;
            match &change.bytes {
                // What an earlier share tells of says nothing of what comes after its end.
                Some(bytes) if bytes.fork == "data" && of_file.share != 0 => {
                    of_file.names.change(bytes, of_file.chunk);
                }
                Some(_) => {}
                None => of_file.names = Names::default(),
            }
        }
        server.cursor = server.cursor.max(reply.cursor);
        let until = sent + NAMES_VALID;
        server.until = Some(server.until.map_or(until, |known| known.max(until)));
        true
    }

    /// A server does not answer a question: nothing is believed of this registration any more.
    /// Returns whether there is another one to ask for.
    pub(crate) fn lost(&self, server: ServerId, asked: &CallbacksRequest) -> bool {
        let mut state = self.0.lock();
        state.last_change += 1;
        let Some(server) = state.servers.get_mut(&server) else {
            return false;
        };
        if server.registration != asked.registration {
            return true;
        }
        server.reset(0);
        server.asking = false;
        false
    }

    /// Forgets a file's names on a server: its bytes have others.
    pub(crate) fn forget(&self, server: ServerId, file: u64) {
        let mut state = self.0.lock();
        if let Some(server) = state.servers.get_mut(&server)
            && let Some(of_file) = server.files.get_mut(&file)
        {
            of_file.names = Names::default();
        }
    }

    /// Forgets chunks of a cell.
    pub(crate) fn forget_chunks(
        &self,
        server: ServerId,
        file: u64,
        cell: CellIndex,
        chunks: Range<u64>,
    ) {
        let mut state = self.0.lock();
        if let Some(server) = state.servers.get_mut(&server)
            && let Some(of_file) = server.files.get_mut(&file)
        {
            of_file.names.forget(cell, chunks);
        }
    }

    /// Forgets all names of all files.
    pub(crate) fn forget_all(&self) {
        let mut state = self.0.lock();
        let servers = state.servers.values_mut();
        for of_file in servers.flat_map(|server| server.files.values_mut()) {
            of_file.names = Names::default();
        }
    }

    /// What is kept of a chunk.
    pub(crate) fn known(
        &self,
        server: ServerId,
        file: u64,
        cell: CellIndex,
        chunk: u64,
    ) -> Option<Known> {
        let state = self.0.lock();
        let server = state.servers.get(&server)?;
        server.until.filter(|until| Instant::now() < *until)?;
        server.files.get(&file)?.names.known(cell, chunk)
    }

    /// The last attachment of a file has ended.
    pub(crate) fn file_ended(&self, file: u64) {
        let mut state = self.0.lock();
        for server in state.servers.values_mut() {
            if let Some(of_file) = server.files.remove(&file)
                && of_file.share != 0
            {
                server.dropped.push(DroppedShare {
                    file,
                    share: of_file.share,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_layout::CellIndex;
    use weft_proto::addressed::{Callback, ChunkRun};

    const SERVER: ServerId = ServerId(1);
    const FILE: u64 = 9;

    fn wanted() -> WantedChunks {
        WantedChunks {
            chunks: [(CellIndex(0), 0)].into(),
            size: 10,
        }
    }

    fn names() -> Names {
        let reply = ReadNamesReply {
            chunks: vec![ChunkRun {
                count: 1,
                ..ChunkRun::default()
            }],
            names: Bytes::from(vec![5; 32]),
            ..ReadNamesReply::default()
        };
        Names::of_reply(&reply, &[(CellIndex(0), 8)].into(), &wanted()).unwrap()
    }

    fn given(registration: u64) -> Given {
        Given {
            registration,
            share: 1,
        }
    }

    fn believed(shared: &SharedNames) -> bool {
        shared
            .all_of(FILE, [(SERVER, &wanted())].into_iter())
            .is_some()
    }

    fn told(registration: u64) -> CallbacksReply {
        CallbacksReply {
            registration,
            cursor: 1,
            changes: vec![Callback {
                file: FILE,
                bytes: None,
            }],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_believed_while_the_server_answers() {
        let shared = SharedNames::default();
        let fill = shared.begin(SERVER, FILE, 10);
        assert!(shared.keep(&fill, given(4), names()) && believed(&shared));
        tokio::time::sleep(NAMES_VALID / 2).await;
        let (asked, sent) = (shared.question(SERVER).unwrap(), Instant::now());
        tokio::time::sleep(NAMES_VALID / 4).await;
        let nothing = CallbacksReply {
            registration: 4,
            ..CallbacksReply::default()
        };
        assert!(shared.answered(SERVER, &asked, sent, &nothing));
        tokio::time::sleep_until(sent + NAMES_VALID * 99 / 100).await;
        assert!(believed(&shared));
        tokio::time::sleep_until(sent + NAMES_VALID).await;
        assert!(!believed(&shared));
    }

    #[tokio::test(start_paused = true)]
    async fn names_asked_for_before_a_callback_are_not_kept_after_it() {
        let shared = SharedNames::default();
        let (first, late) = (
            shared.begin(SERVER, FILE, 10),
            shared.begin(SERVER, FILE, 10),
        );
        shared.keep(&first, given(4), names());
        let asked = shared.question(SERVER).unwrap();
        assert!(shared.answered(SERVER, &asked, Instant::now(), &told(4)));
        assert!(!believed(&shared));
        shared.keep(&late, given(4), names());
        assert!(!believed(&shared));
        let fresh = shared.begin(SERVER, FILE, 10);
        shared.keep(&fresh, given(4), names());
        assert!(believed(&shared));
        assert_eq!(shared.question(SERVER).unwrap().cursor, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_ended_registration_ends_its_names_and_those_on_their_way() {
        for how in 0..3 {
            let shared = SharedNames::default();
            let (first, late) = (
                shared.begin(SERVER, FILE, 10),
                shared.begin(SERVER, FILE, 10),
            );
            shared.keep(&first, given(4), names());
            let asked = shared.question(SERVER).unwrap();
            match how {
                0 => assert!(!shared.lost(SERVER, &asked)),
                1 => {
                    let ended = CallbacksReply::default();
                    assert!(!shared.answered(SERVER, &asked, Instant::now(), &ended));
                }
                _ => {
                    shared.file_ended(FILE);
                    let dropped = shared.question(SERVER).unwrap().dropped;
                    assert_eq!(
                        dropped,
                        [DroppedShare {
                            file: FILE,
                            share: 1
                        }]
                    );
                }
            }
            assert!(!believed(&shared), "{how}");
            let again = shared.begin(SERVER, FILE, 10);
            shared.keep(&late, given(4), names());
            assert!(!believed(&shared), "{how}");
            shared.keep(&again, given(6), names());
            assert!(believed(&shared), "{how}");
            // An answer of the old registration says nothing of the new one.
            assert!(shared.answered(SERVER, &asked, Instant::now(), &CallbacksReply::default()));
            assert!(believed(&shared), "{how}");
        }
    }
}
