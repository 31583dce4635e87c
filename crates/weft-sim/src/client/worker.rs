//! One client: its number, its plan and its random numbers.

use rand::rngs::SmallRng;
use weft_client::{Access, Error, File, NewLayout, Volume};

use super::volume::layout;
use crate::plan::Plan;
use crate::state::State;

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) plan: Plan,
    pub(crate) state: State,
    pub(crate) rng: SmallRng,
}

impl Client {
    pub(super) fn layout(&self) -> NewLayout {
        layout(self.plan)
    }

    pub(super) async fn attach(&self, volume: &Volume) -> Result<File, Error> {
        let layout = self.layout();
        let access = Access::read_write().create(0o644).layout(&layout);
        volume.attach("/file", access).await
    }
}
