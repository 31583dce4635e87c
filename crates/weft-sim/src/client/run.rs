//! What a client does from its start to the end of the run.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{ConnectOptions, Error, File, Volume};

use super::calls::ignore_reported_loss;
use super::copies::Copies;
use super::names::Names;
use super::private_file::PrivateFile;
use super::tree::Tree;
use super::volume::{LENGTH, RECOVERY_TIME, connect};
use super::worker::Client;
use crate::oracle::Oracle;

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
        let ordered = loop {
            match self.ordered(&volume).await {
                Ok(view) => break view,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let mut names = Names::new(self.number);
        let rng = SmallRng::from_rng(&mut self.rng);
        let private_file = PrivateFile::new(
            &volume,
            &self.state,
            rng,
            self.layout(),
            self.number,
            self.plan.rot,
        );
        let mut private_file = private_file.await.map_err(|e| e.to_string())?;
        let rng = SmallRng::from_rng(&mut self.rng);
        let tree = Tree::new(&volume, &self.state, rng, self.layout(), self.number);
        let mut tree = tree.await.map_err(|e| e.to_string())?;
        let rng = SmallRng::from_rng(&mut self.rng);
        let copies = Copies::new(&volume, &self.state, rng, self.layout(), self.number);
        let mut copies = copies.await.map_err(|e| e.to_string())?;
        for _ in 0..self.plan.operations {
            match self.rng.random_range(0..24) {
                20.. => self.ordered_operation(&ordered).await,
                0..=7 => private_file.operation().await.map_err(|e| e.to_string())?,
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
        tokio::time::sleep(RECOVERY_TIME).await;
        let ordered = self.ordered_after_healing(&ordered).await;
        ordered.map_err(|e| format!("after healing: {e}"))?;
        let healed = self
            .after_healing(
                &volume,
                &file,
                &names,
                &mut private_file,
                &mut tree,
                &mut copies,
            )
            .await;
        healed.map_err(|e| format!("after healing: {e}"))
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
        private_file: &mut PrivateFile,
        tree: &mut Tree,
        copies: &mut Copies,
    ) -> Result<(), Error> {
        let read = self.read(file, 0, LENGTH).await;
        self.state.lock().tolerate(read)?;
        ignore_reported_loss(self.sync(file).await)?;
        names.check(volume, &self.state).await?;
        private_file.after_healing().await?;
        tree.after_healing().await?;
        copies.after_healing().await?;
        if self.plan.rot {
            // What went bad may be a block of any of its files.
            tree.clear().await?;
        }
        ignore_reported_loss(file.close().await)?;
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
