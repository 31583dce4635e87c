//! Which clients share which files, and the callbacks that each has not handled.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use weft_layout::FileId;
use weft_proto::addressed::{Callback, CallbacksReply, CallbacksRequest};

use super::mark::SharersMark;
use crate::limits::{
    CALLBACK_ANSWER_UPDATES, CALLBACK_INTERVAL, CALLBACK_PATIENCE, CALLBACKS_QUEUED_MAX,
    SHARERS_BELIEVE, SHARES_MAX,
};

/// The sharers of all files of a server.
pub(in crate::io) struct Sharers {
    table: Mutex<Table>,
    /// There are some.
    any: AtomicBool,
    /// A client has handled callbacks, or is no sharer any more.
    handled: Notify,
    /// Held while names are read and queued for a sharer: so the names of a later change are queued
    /// later.
    pub(super) updates: tokio::sync::Mutex<()>,
    pub(super) mark: SharersMark,
}

struct Table {
    last_registration: u64,
    last_share: u64,
    shares: usize,
    clients: HashMap<u64, Client>,
    /// The sharers of each file, and the last share of each.
    files: HashMap<FileId, BTreeMap<u64, u64>>,
}

/// A client that is a sharer of some file.
struct Client {
    registration: u64,
    last: u64,
    queue: VecDeque<Queued>,
    woken: Arc<Notify>,
    /// When it was last answered: it believes nothing [`SHARERS_BELIEVE`] later.
    answered: Instant,
    /// It was silent for too long: it gets no answer any more, and is forgotten once it believes
    /// nothing.
    expired: bool,
}

/// A callback that a client has not handled.
struct Queued {
    number: u64,
    /// The lowest number that it stands for.
    first: u64,
    since: Instant,
    callback: Callback,
}

/// That a client becomes a sharer of a file.
#[derive(Clone, Copy, Default)]
pub(in crate::io) struct Share {
    pub(in crate::io) registration: u64,
    pub(in crate::io) share: u64,
}

/// Callbacks that were queued, and are to be handled: of these clients, in this registration, up to
/// this number.
#[derive(Default)]
pub(super) struct Told(Vec<(u64, u64, u64)>);

/// What a change waits for.
struct Waiting {
    client: u64,
    /// Since when the callback is queued.
    since: Instant,
    /// If it gets no answer any more: when it got the last one.
    last_answer: Option<Instant>,
}

impl Waiting {
    /// Until when: then the client believes nothing that is older than the callback.
    fn until(&self) -> Instant {
        let patience = self.since + CALLBACK_PATIENCE;
        let forgotten = self.last_answer.map(|at| at + SHARERS_BELIEVE);
        forgotten.map_or(patience, |forgotten| forgotten.min(patience))
    }
}

impl Sharers {
    /// `first`: larger than the registrations of the server's earlier runs.
    pub(in crate::io) fn new(first: u64) -> Sharers {
        Sharers {
            table: Mutex::new(Table {
                last_registration: first,
                last_share: 0,
                shares: 0,
                clients: HashMap::new(),
                files: HashMap::new(),
            }),
            any: AtomicBool::new(false),
            handled: Notify::new(),
            updates: tokio::sync::Mutex::default(),
            mark: SharersMark::new(),
        }
    }

    /// Makes a client a sharer, in a registration after this one; `None` if there are too many.
    /// `connected`: whether the client still is; looked at under the lock, so that a client that
    /// leaves is refused here or found by [`Sharers::remove`].
    pub(super) fn add(
        &self,
        client: u64,
        file: FileId,
        after: u64,
        connected: impl FnOnce() -> bool,
    ) -> Option<Share> {
        // The client says itself that it believes nothing of this registration.
        let ended = |known: &Client| known.registration <= after;
        if self.table.lock().clients.get(&client).is_some_and(ended) {
            self.remove(client);
        }
        let mut table = self.table.lock();
        let table = &mut *table;
        let of_file = table.files.entry(file).or_default();
        let known = of_file.contains_key(&client);
        let of_client = table.clients.get(&client);
        let expired = of_client.is_some_and(|known| known.expired);
        let unknown = after > table.last_registration;
        if !connected() || expired || unknown || !known && table.shares >= SHARES_MAX {
            if of_file.is_empty() {
                table.files.remove(&file);
            }
            return None;
        }
        table.last_share += 1;
        of_file.insert(client, table.last_share);
        table.shares += usize::from(!known);
        let registered = table.clients.entry(client).or_insert_with(|| {
            table.last_registration += 1;
            Client {
                registration: table.last_registration,
                last: 0,
                queue: VecDeque::new(),
                woken: Arc::default(),
                answered: Instant::now(),
                expired: false,
            }
        });
        self.any.store(true, Ordering::SeqCst);
        Some(Share {
            registration: registered.registration,
            share: table.last_share,
        })
    }

    /// How many sharers a file has.
    pub(super) fn of(&self, file: FileId) -> usize {
        if !self.any.load(Ordering::SeqCst) {
            return 0;
        }
        self.table.lock().files.get(&file).map_or(0, BTreeMap::len)
    }

    /// Queues callbacks for all sharers of a file.
    pub(super) fn tell(&self, file: FileId, callbacks: &[Callback]) -> Told {
        let now = Instant::now();
        let mut table = self.table.lock();
        let Table { clients, files, .. } = &mut *table;
        let mut told = Told::default();
        for number in files.get(&file).into_iter().flat_map(BTreeMap::keys) {
            let Some(client) = clients.get_mut(number) else {
                continue;
            };
            let anything = Callback {
                file: file.0,
                bytes: None,
            };
            // One that was told earlier, and that nobody has waited for.
            let silent = |oldest: &Queued| oldest.since + CALLBACK_PATIENCE <= now;
            client.expired |= client.queue.front().is_some_and(silent);
            let (mut since, mut first) = (now, client.last + 1);
            let some = if client.queue.len() + callbacks.len() > CALLBACKS_QUEUED_MAX {
                // One for each file is enough; there are at most as many as shares.
                client.queue.retain(|queued| {
                    let of_file = queued.callback.file == file.0;
                    if of_file {
                        (since, first) = (since.min(queued.since), first.min(queued.first));
                    }
                    !of_file
                });
                std::slice::from_ref(&anything)
            } else {
                callbacks
            };
            for callback in some {
                client.last += 1;
                client.queue.push_back(Queued {
                    number: client.last,
                    first: first.min(client.last),
                    since,
                    callback: callback.clone(),
                });
            }
            told.0.push((*number, client.registration, client.last));
            client.woken.notify_one();
        }
        told
    }

    /// Waits until all sharers have handled what they were told, or cannot believe any more what
    /// was there before. One that is silent for too long is no sharer any more.
    pub(super) async fn wait(&self, mut told: Told) {
        loop {
            let mut handled = std::pin::pin!(self.handled.notified());
            handled.as_mut().enable();
            let waits = self.waits_for(&told);
            let Some(until) = waits.iter().map(Waiting::until).min() else {
                return;
            };
            if timeout_at(until, handled).await.is_ok() {
                continue;
            }
            for waiting in self.waits_for(&told) {
                if waiting.until() <= Instant::now() {
                    self.expire(waiting.client);
                    told.0.retain(|(client, ..)| *client != waiting.client);
                }
            }
        }
    }

    /// The clients that have not handled what they were told.
    fn waits_for(&self, told: &Told) -> Vec<Waiting> {
        let table = self.table.lock();
        let waits = told.0.iter().filter_map(|(number, registration, last)| {
            let client = table.clients.get(number)?;
            // The last of them, or what stands for it: they are handled in order.
            let is_last = |queued: &&Queued| queued.first <= *last && queued.number >= *last;
            let queued = client.queue.iter().find(is_last)?;
            (client.registration == *registration).then_some(Waiting {
                client: *number,
                since: queued.since,
                last_answer: client.expired.then_some(client.answered),
            })
        });
        waits.collect()
    }

    /// A client is silent. It gets no answer from now on, and so believes nothing a while later;
    /// then it is forgotten.
    fn expire(&self, number: u64) {
        let forget = {
            let mut table = self.table.lock();
            let Some(client) = table.clients.get_mut(&number) else {
                return;
            };
            if !std::mem::replace(&mut client.expired, true) {
                tracing::warn!(
                    client = number,
                    "a client does not handle changes of files whose names it keeps: it is no sharer any more"
                );
                client.woken.notify_one();
            }
            Instant::now() >= client.answered + SHARERS_BELIEVE
        };
        if forget {
            self.remove(number);
        }
    }

    /// A client has left, or is silent.
    pub(in crate::io) fn remove(&self, client: u64) {
        let mut table = self.table.lock();
        let Some(left) = table.clients.remove(&client) else {
            return;
        };
        left.woken.notify_one();
        let mut removed = 0;
        table.files.retain(|_, clients| {
            removed += usize::from(clients.remove(&client).is_some());
            !clients.is_empty()
        });
        table.shares -= removed;
        self.any.store(!table.files.is_empty(), Ordering::SeqCst);
        drop(table);
        self.handled.notify_waiters();
    }

    /// Answers a client that waits for callbacks.
    pub(super) async fn callbacks(
        &self,
        client: u64,
        request: &CallbacksRequest,
    ) -> CallbacksReply {
        let deadline = Instant::now() + CALLBACK_INTERVAL;
        let Some(woken) = self.note_handled(client, request) else {
            return CallbacksReply::default();
        };
        self.handled.notify_waiters();
        loop {
            if let Some(reply) = self.queued(client, request) {
                return reply;
            }
            let quiet = timeout_at(deadline, woken.notified()).await.is_err();
            if quiet && let Some(reply) = self.nothing(client, request) {
                return reply;
            }
        }
    }

    /// Takes note of what a client has handled and dropped; `None` if it is no sharer.
    fn note_handled(&self, client: u64, request: &CallbacksRequest) -> Option<Arc<Notify>> {
        let mut table = self.table.lock();
        let table = &mut *table;
        let known = table.clients.get_mut(&client);
        let known = known.filter(|known| known.registration == request.registration)?;
        if known.expired {
            return None;
        }
        while let Some(queued) = known.queue.front()
            && queued.number <= request.cursor
        {
            known.queue.pop_front();
        }
        for dropped in &request.dropped {
            let file = FileId(dropped.file);
            let Some(sharers) = table.files.get_mut(&file) else {
                continue;
            };
            if sharers
                .get(&client)
                .is_some_and(|share| *share <= dropped.share)
            {
                sharers.remove(&client);
                known.queue.retain(|queued| queued.callback.file != file.0);
                table.shares -= 1;
                if sharers.is_empty() {
                    table.files.remove(&file);
                }
            }
        }
        Some(known.woken.clone())
    }

    /// That nothing is queued for a client; `None` if something is, or it is no sharer any more.
    fn nothing(&self, client: u64, request: &CallbacksRequest) -> Option<CallbacksReply> {
        let mut table = self.table.lock();
        let known = table.clients.get_mut(&client)?;
        if known.expired || known.registration != request.registration || !known.queue.is_empty() {
            return None;
        }
        known.answered = Instant::now();
        Some(CallbacksReply {
            registration: request.registration,
            cursor: request.cursor,
            changes: Vec::new(),
        })
    }

    /// What is queued for a client, or that it is no sharer any more; `None` if there is nothing.
    fn queued(&self, client: u64, request: &CallbacksRequest) -> Option<CallbacksReply> {
        let mut table = self.table.lock();
        let known = table.clients.get_mut(&client);
        let is_current =
            |known: &&mut Client| known.registration == request.registration && !known.expired;
        let Some(known) = known.filter(is_current) else {
            return Some(CallbacksReply::default());
        };
        let cursor = known.queue.back()?.number;
        known.answered = Instant::now();
        // All of them: the client believes the rest for a while after this answer.
        let changes = known.queue.iter().enumerate().map(|(place, queued)| {
            let mut callback = queued.callback.clone();
            let names = place < CALLBACK_ANSWER_UPDATES;
            if let Some(bytes) = callback.bytes.as_mut().filter(|_| !names) {
                bytes.names.clear();
            }
            callback
        });
        Some(CallbacksReply {
            registration: known.registration,
            cursor,
            changes: changes.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::sleep;
    use weft_proto::addressed::DroppedShare;

    const FILE: FileId = FileId(7);

    fn anything() -> Vec<Callback> {
        vec![Callback {
            file: FILE.0,
            bytes: None,
        }]
    }

    fn ask(share: Share, cursor: u64) -> CallbacksRequest {
        CallbacksRequest {
            registration: share.registration,
            cursor,
            dropped: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_its_sharers_and_for_a_silent_one_not_for_ever() {
        let sharers = Arc::new(Sharers::new(100));
        let one = sharers.add(1, FILE, 0, || true).unwrap();
        let two = sharers.add(2, FILE, 0, || true).unwrap();
        assert_eq!(sharers.of(FILE), 2);
        let told = sharers.tell(FILE, &anything());
        let waiting = tokio::spawn({
            let sharers = sharers.clone();
            async move { sharers.wait(told).await }
        });
        for (client, share) in [(1, one), (2, two)] {
            let reply = sharers.callbacks(client, &ask(share, 0)).await;
            assert_eq!((reply.cursor, reply.changes), (1, anything()));
            assert!(!waiting.is_finished());
            // The next question says that it was handled, and nothing new is there.
            let reply = sharers.callbacks(client, &ask(share, 1)).await;
            assert!(reply.changes.is_empty());
        }
        waiting.await.unwrap();
        // The second client is silent from now on.
        let began = Instant::now();
        let told = sharers.tell(FILE, &anything());
        let handling = async {
            let reply = sharers.callbacks(1, &ask(one, 1)).await;
            sharers.callbacks(1, &ask(one, reply.cursor)).await;
        };
        tokio::join!(sharers.wait(told), handling);
        assert_eq!(began.elapsed(), CALLBACK_PATIENCE);
        assert_eq!(sharers.callbacks(2, &ask(two, 1)).await.registration, 0);
        assert_eq!(sharers.of(FILE), 1);
        let again = sharers.add(2, FILE, two.registration, || true).unwrap();
        assert!(again.registration > two.registration);
        assert!(sharers.add(3, FILE, u64::MAX, || true).is_none());
        // A registration that has ended for the client ends here, too.
        let later = sharers.add(2, FILE, again.registration, || true).unwrap();
        let known = sharers.add(2, FILE, again.registration, || true).unwrap();
        assert!(later.registration > again.registration);
        assert_eq!(known.registration, later.registration);
    }

    /// A client that was answered lately believes a while longer, also if it is not asked any more.
    #[tokio::test(start_paused = true)]
    async fn a_silent_sharer_is_waited_for_until_it_believes_nothing() {
        let sharers = Sharers::new(0);
        let share = sharers.add(1, FILE, 0, || true).unwrap();
        let began = Instant::now();
        let first = sharers.tell(FILE, &anything());
        sleep(CALLBACK_PATIENCE * 4 / 5).await;
        let reply = sharers.callbacks(1, &ask(share, 0)).await;
        assert_eq!(reply.changes.len(), 1);
        sharers.wait(first).await;
        assert_eq!(began.elapsed(), CALLBACK_PATIENCE);
        // It did not handle the first one in time, and gets no answer for the second.
        let second = sharers.tell(FILE, &anything());
        assert_eq!(sharers.callbacks(1, &ask(share, 1)).await.registration, 0);
        assert!(sharers.add(1, FILE, 0, || true).is_none());
        sharers.wait(second).await;
        let believed = CALLBACK_PATIENCE * 4 / 5 + SHARERS_BELIEVE;
        assert_eq!(began.elapsed(), believed);
        assert_eq!(sharers.of(FILE), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_share_ends_and_a_later_one_stays() {
        let sharers = Sharers::new(0);
        let old = sharers.add(1, FILE, 0, || true).unwrap();
        let new = sharers.add(1, FILE, 0, || true).unwrap();
        let drop_share = async |share| {
            let mut request = ask(new, 0);
            request.dropped = vec![DroppedShare {
                file: FILE.0,
                share,
            }];
            sharers.callbacks(1, &request).await;
            sharers.of(FILE)
        };
        assert_eq!(drop_share(old.share).await, 1);
        assert_eq!(drop_share(new.share).await, 0);
        assert!(sharers.add(3, FILE, 0, || false).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_becomes_one_callback_for_a_file() {
        let sharers = Sharers::new(0);
        let share = sharers.add(1, FILE, 0, || true).unwrap();
        for _ in 0..3 * CALLBACKS_QUEUED_MAX {
            drop(sharers.tell(FILE, &anything()));
        }
        let reply = sharers.callbacks(1, &ask(share, 0)).await;
        assert!(reply.changes.len() <= CALLBACKS_QUEUED_MAX);
        sharers.remove(1);
        assert_eq!(sharers.of(FILE), 0);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(sharers.callbacks(1, &ask(share, 0)).await.registration, 0);
    }
}
