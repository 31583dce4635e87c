//! Makes files and directories.

use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Access, Error, File, NewMode, Store};
use weft_layout::ViewOffset;
use weft_net::WallClock;
use weft_proto::Code;

use super::super::entry::{Content, Entry, FileState, InCells};
use super::super::turn::{Turn, Want};
use super::process::Life;
use crate::net::SimWallClock;
use crate::state::now;

const MODE: u32 = 0o644;
/// Bytes of a small file at most, and of one that has to lie in cells.
const SMALL: usize = 3000;
const LARGE: usize = 40_000;

impl Life {
    /// Makes a file, and perhaps writes it, changes its attributes and syncs it.
    pub(super) async fn make_file(&self, rng: &mut SmallRng) {
        let Some(turn) = self.take_turn(Want::AbsentFile, rng) else {
            return self.make_directory(rng).await;
        };
        let made = self.make_in_turn(&turn, rng).await;
        self.shared.names().end_turn(&turn, made.is_none(), now());
    }

    async fn make_in_turn(&self, turn: &Turn, rng: &mut SmallRng) -> Option<()> {
        let (file, mut state) = self.create(turn).await?;
        self.pause(rng).await;
        if rng.random_ratio(1, 4) {
            state = self.change_mode(turn, state, rng).await?;
        }
        match rng.random_range(0..8) {
            0 => {}
            1 => return self.write_cells(turn, &file, state, rng).await,
            _ => {
                state = self.store(turn, &file, state, rng).await?;
                if rng.random_ratio(1, 3) {
                    self.pause(rng).await;
                    state = self.change_mode(turn, state, rng).await?;
                }
                if rng.random_ratio(1, 4) {
                    self.pause(rng).await;
                    self.sync_file(turn, &file).await?;
                    self.die_after_sync(rng).await;
                }
            }
        }
        // A new file that is empty and open is not handed over.
        if state.content.stamp > 0 && rng.random_ratio(1, 5) {
            self.change_mode(turn, state, rng).await?;
            self.volume.hand_over_attributes(file.id()).await;
            self.shared.names().keep(turn, now());
        }
        let closed = file.close_deferred().await;
        self.done(turn, "close ahead", closed).map(drop)
    }

    async fn pause(&self, rng: &mut SmallRng) {
        if rng.random() {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..12))).await;
        }
    }

    /// Whether this process may make this name ahead of the service.
    async fn may_make(&self, turn: &Turn) -> bool {
        let is_absent = || self.known.is_absent(turn.parent, &turn.name);
        self.known.is_live()
            && is_absent()
            && self
                .volume
                .try_delegation(turn.parent, true, Vec::new)
                .await
            && is_absent()
    }

    async fn create(&self, turn: &Turn) -> Option<(File, FileState)> {
        let mut state = FileState {
            id: None,
            mode: MODE,
            content: Content::default(),
        };
        let ahead = self.may_make(turn).await;
        self.shared.names().begin(turn, Entry::File(state));
        let (parent, name) = (turn.parent, &turn.name[..]);
        let new = NewMode {
            bits: MODE,
            umask: 0,
        };
        let made = ahead.then(|| {
            let place = (parent, name.as_bytes());
            self.volume.create_delegated(place, name, new, (true, true))
        });
        let made = made.flatten();
        let kept = made.is_none();
        self.known.may_exist(parent, name);
        let file = if let Some(file) = made {
            self.counted("file made ahead");
            file
        } else {
            let begun = now();
            let access = Access::read_write().create_new(MODE).inline();
            let made = self.volume.attach(turn.place(), access).await;
            self.answered(turn, "file made", begun, made)?
        };
        self.known.names(parent, name, file.id());
        state.id = Some(file.id());
        let mut names = self.shared.names();
        names.identify(turn, file.id());
        names.acknowledge(turn, kept, now()).then_some(())?;
        Some((file, state))
    }

    /// Replaces the content of a file.
    pub(super) async fn store(
        &self,
        turn: &Turn,
        file: &File,
        mut state: FileState,
        rng: &mut SmallRng,
    ) -> Option<FileState> {
        state.content = Content {
            stamp: self.shared.names().next_stamp(),
            length: rng.random_range(1..SMALL),
            cells: None,
        };
        self.shared.names().begin(turn, Entry::File(state));
        let how = Store {
            modified: SimWallClock.now(),
            ..Store::default()
        };
        let data = Bytes::from(state.content.bytes());
        let stored = file.store_inline_with(data, &how).await;
        if matches!(&stored, Err(error) if error.code() == Code::Spilled) {
            // A process that has died may count as another writer.
            self.shared.names().withdraw(turn);
            return None;
        }
        self.done(turn, "store", stored)?;
        let sound = self.shared.names().acknowledge(turn, true, now());
        sound.then_some(state)
    }

    /// Writes a file that is too large to lie with its metadata.
    async fn write_cells(
        &self,
        turn: &Turn,
        file: &File,
        mut state: FileState,
        rng: &mut SmallRng,
    ) -> Option<()> {
        let mut cells = InCells {
            whole: false,
            synced: false,
            losses: self.shared.state.lock().losses.count(),
        };
        state.content = Content {
            stamp: self.shared.names().next_stamp(),
            length: rng.random_range(SMALL..LARGE),
            cells: Some(cells),
        };
        self.shared.names().begin(turn, Entry::File(state));
        let spilled = file.spill().await;
        self.done(turn, "spill", spilled)?;
        self.shared.names().acknowledge(turn, true, now());
        self.pause(rng).await;
        let written = self.write_all(file, &state.content).await;
        self.done(turn, "write to cells", written)?;
        let synced = rng.random();
        if synced {
            let synced = file.sync().await;
            self.done(turn, "sync of cells", synced)?;
        }
        (cells.whole, cells.synced) = (true, synced);
        state.content.cells = Some(cells);
        {
            let mut names = self.shared.names();
            names.begin(turn, Entry::File(state));
            names.acknowledge(turn, true, now());
        }
        if synced {
            self.sync_file(turn, file).await?;
        }
        let closed = file.close().await;
        self.done(turn, "close of cells", closed)
    }

    async fn write_all(&self, file: &File, content: &Content) -> Result<(), Error> {
        let view = file.canonical()?;
        let data = Bytes::from(content.bytes());
        view.write_at(ViewOffset(0), data).await.map(drop)
    }

    /// As fsync of an open file: what was done to it before survives power loss.
    async fn sync_file(&self, turn: &Turn, file: &File) -> Option<()> {
        let begun = now();
        let synced = match &self.beside {
            Some(beside) => beside.sync_namespace().await,
            None if file.inline_data().is_some() => file.sync().await,
            None => self.volume.sync_namespace().await,
        };
        self.answered(turn, "sync of a file", begun, synced)?;
        let mut names = self.shared.names();
        names.synced(self.by, begun, now());
        names.keep(turn, now());
        names.all_synced(turn);
        Some(())
    }

    /// Makes a directory, in one of this process or in the root.
    pub(super) async fn make_directory(&self, rng: &mut SmallRng) {
        let (may, root) = self.may_make_directory();
        if !may {
            return;
        }
        let nested = rng.random_ratio(2, 3) || !root;
        let turn = nested.then(|| self.take_turn(Want::AbsentDirectory, rng));
        let turn = turn.flatten().or_else(|| {
            let new = root.then(|| self.shared.names().new_name(self.by));
            new.flatten()
        });
        let Some(turn) = turn else { return };
        let made = self.make_directory_in_turn(&turn).await;
        self.shared.names().end_turn(&turn, made.is_none(), now());
    }

    pub(super) async fn make_directory_in_turn(&self, turn: &Turn) -> Option<()> {
        let ahead = self.may_make(turn).await;
        let entry = Entry::Directory { id: None };
        self.shared.names().begin(turn, entry);
        let (parent, name) = (turn.parent, &turn.name[..]);
        let asked = self.known.now();
        let new = NewMode {
            bits: 0o755,
            umask: 0,
        };
        let made = ahead.then(|| {
            let place = (parent, name.as_bytes());
            self.volume.make_directory_delegated(place, new)
        });
        self.known.may_exist(parent, name);
        let id = if let Some(made) = made.flatten() {
            self.counted("directory made ahead");
            self.known.made(asked, made.id);
            let mut names = self.shared.names();
            names.identify(turn, made.id);
            names.acknowledge(turn, false, now()).then_some(made.id)?
        } else {
            let (begun, live) = (now(), self.known.is_live());
            let made = self.volume.make_directory_leased(turn.place(), new, live);
            let made = made.await;
            let made = self.answered(turn, "directory made", begun, made)?;
            if made.leased {
                self.known.made(asked, made.attributes.id);
            }
            let id = made.attributes.id;
            let mut names = self.shared.names();
            names.identify(turn, id);
            names.acknowledge(turn, true, now()).then_some(id)?
        };
        self.shared.names().add_directory(turn, id);
        Some(())
    }
}
