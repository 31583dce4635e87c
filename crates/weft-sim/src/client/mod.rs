//! A client of a run: operations one after the other on a file of all clients, a file and a
//! directory of its own, and names; then, when nothing fails any more, a look at everything.

mod common;
mod content;
mod copies;
mod fork;
mod image;
mod kept;
mod mortal;
mod names;
mod own;
mod rot;
mod settle;
mod size;
mod tree;
mod upkeep;

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, ConnectOptions, Error, File, NewLayout, Volume};

use self::copies::Copies;
pub(crate) use self::mortal::Mortal;
use self::names::Names;
use self::own::{Own, told_is_done};
use self::tree::Tree;
use crate::oracle::Oracle;
use crate::scenario::Plan;
use crate::state::State;

/// Bytes of the file that all clients write.
const LENGTH: usize = 48 << 10;
const BSU: u64 = 1000;
const CELLS: u32 = 5;

/// After the last fault: connections that are dead are known to be.
const HEALING: Duration = Duration::from_secs(7);

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) plan: Plan,
    pub(crate) state: State,
    pub(crate) rng: SmallRng,
}

impl Client {
    pub(crate) async fn run(mut self, options: ConnectOptions) -> Result<(), String> {
        let volume = connect(options).await;
        let file = loop {
            match self.attach(&volume).await {
                Ok(file) => break file,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let oracle = Oracle::new(LENGTH, file.layout());
        self.state.lock().oracle.get_or_insert(oracle);
        let mut names = Names::new(self.number);
        let rng = SmallRng::from_rng(&mut self.rng);
        let own = Own::new(
            &volume,
            &self.state,
            rng,
            self.layout(),
            self.number,
            self.plan.rot,
        );
        let mut own = own.await.map_err(|e| e.to_string())?;
        let rng = SmallRng::from_rng(&mut self.rng);
        let tree = Tree::new(&volume, &self.state, rng, self.layout(), self.number);
        let mut tree = tree.await.map_err(|e| e.to_string())?;
        let rng = SmallRng::from_rng(&mut self.rng);
        let copies = Copies::new(&volume, &self.state, rng, self.layout(), self.number);
        let mut copies = copies.await.map_err(|e| e.to_string())?;
        for _ in 0..self.plan.operations {
            match self.rng.random_range(0..20) {
                0..=7 => own.operation().await.map_err(|e| e.to_string())?,
                8..=14 => self.operation(&volume, &file, &mut names).await,
                15..=18 => tree.operation().await.map_err(|e| e.to_string())?,
                _ => copies.operation().await,
            }
            let pause = self.rng.random_range(1..30);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.state.lock().busy -= 1;
        while !self.state.lock().is_quiet() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Liveness: the failure detection time after the last fault everything works again.
        tokio::time::sleep(HEALING).await;
        let healed = self
            .after_healing(&volume, &file, &names, &mut own, &mut tree, &mut copies)
            .await;
        healed.map_err(|e| format!("after healing: {e}"))
    }

    fn layout(&self) -> NewLayout {
        layout(self.plan)
    }

    async fn attach(&self, volume: &Volume) -> Result<File, Error> {
        let layout = self.layout();
        let access = Access::read_write().create(0o644).layout(&layout);
        volume.attach("/file", access).await
    }

    async fn operation(&mut self, volume: &Volume, file: &File, names: &mut Names) {
        match self.rng.random_range(0..20) {
            0..=9 => self.write(file).await,
            10..=13 => {
                let at = self.rng.random_range(0..LENGTH);
                let length = self.rng.random_range(0..=(LENGTH - at).min(20_000));
                let result = self.read(file, at, length).await;
                self.state.lock().count("read", &result);
            }
            14..=15 => {
                let result = self.sync(file).await;
                self.state.lock().count("sync", &result);
            }
            16 => {
                let server = self.rng.random_range(0..self.plan.servers);
                let result = self.begin_scrub(volume, server).await;
                self.state.lock().count("scrub", &result);
            }
            _ => names.change(volume, &mut self.rng, &self.state).await,
        }
    }

    async fn after_healing(
        &mut self,
        volume: &Volume,
        file: &File,
        names: &Names,
        own: &mut Own,
        tree: &mut Tree,
        copies: &mut Copies,
    ) -> Result<(), Error> {
        let read = self.read(file, 0, LENGTH).await;
        self.state.lock().tolerate(read)?;
        told_is_done(self.sync(file).await)?;
        names.check(volume, &self.state).await?;
        own.after_healing().await?;
        tree.after_healing().await?;
        copies.after_healing().await?;
        if self.plan.rot {
            // What went bad may be a block of any of its files.
            tree.clear().await?;
        }
        told_is_done(file.close().await)?;
        self.state.lock().looking -= 1;
        if self.number == 0 {
            while self.state.lock().looking > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            if self.plan.rot {
                let repaired = self.rot_and_repair(volume).await;
                self.state.lock().count("rot and repair", &repaired);
                repaired?;
            }
            let scrubbed = self.scrub_all(volume).await;
            self.state.lock().count("whole scrub", &scrubbed);
            let checked = self.fsck(volume).await;
            self.state.lock().count("check of the volume", &checked);
            scrubbed.and(checked)?;
        }
        Ok(())
    }
}

/// Tries until the volume is there.
async fn connect(options: ConnectOptions) -> Volume {
    loop {
        match Volume::connect(options.clone()).await {
            Ok(volume) => return volume,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// How files are laid out.
fn layout(plan: Plan) -> NewLayout {
    NewLayout {
        cells: Some(CELLS),
        bsu: Some(BSU),
        chunk: Some(4096 + 512),
        servers: (0..plan.servers as u32).collect(),
        base: None,
    }
}
