//! Looks at names, and has the oracle judge what is there.

use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Access, Error, FileKind, Volume};
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::super::entry::Seen;
use super::super::shared::Shared;
use super::super::turn::Look;
use super::process::Life;
use crate::state::now;

impl Life {
    /// Looks at a name or into a directory of any client, or finds out what a name stands for that
    /// a fault has made uncertain.
    pub(super) async fn see_something(&self, rng: &mut SmallRng) {
        let uncertain = self.shared.names().uncertain(now());
        if let Some((directory, name)) = uncertain.filter(|_| rng.random()) {
            let result = see(&self.shared, &self.volume, (directory, &name), true).await;
            self.shared.state.lock().count("settle", &result);
            return;
        }
        let directory = self.shared.names().any_directory(rng);
        let names = self.shared.names().names_in(directory);
        if names.is_empty() || rng.random_ratio(1, 3) {
            let result = self.list(directory, &names).await;
            self.shared.state.lock().count("list", &result);
            return;
        }
        let name = &names[rng.random_range(0..names.len())];
        let result = see(&self.shared, &self.volume, (directory, name), false).await;
        self.shared.state.lock().count("look", &result);
    }

    async fn list(&self, directory: usize, names: &[String]) -> Result<(), Error> {
        let (path, looks) = {
            let model = self.shared.names();
            let looks: Vec<Look> = names
                .iter()
                .map(|name| model.begin_look(directory, name))
                .collect();
            (model.path_of(directory), looks)
        };
        let begun = now();
        let found = match self.volume.list(&path).all().await {
            Err(error) if error.code() == Code::NotFound => Vec::new(),
            found => found?,
        };
        self.caught_up(begun);
        let mut model = self.shared.names();
        let state = self.shared.state.lock();
        for look in &looks {
            let entry = found.iter().find(|e| e.name == look.name.as_bytes());
            let seen = entry.map_or(Seen::Absent, |entry| Seen::Listed {
                id: entry.attributes.id,
                directory: entry.attributes.kind == FileKind::Directory as i32,
            });
            model.judge(look, &seen, &state.losses, now());
        }
        Ok(())
    }
}

/// Looks what a name stands for; with `settle`, nobody can be changing it.
pub(in crate::ahead) async fn see(
    shared: &Shared,
    volume: &Volume,
    (directory, name): (usize, &str),
    settle: bool,
) -> Result<(), Error> {
    let (path, look) = {
        let names = shared.names();
        let look = names.begin_look(directory, name);
        (names.path(directory, name), look)
    };
    let seen = match find(volume, &path, name.starts_with('d')).await {
        Err(error) if error.code() == Code::NotFound => Seen::Absent,
        seen => seen?,
    };
    let mut names = shared.names();
    let state = shared.state.lock();
    if settle {
        names.settle(&look, &seen, &state.losses, now());
    } else {
        names.judge(&look, &seen, &state.losses, now());
    }
    Ok(())
}

async fn find(volume: &Volume, path: &str, directory: bool) -> Result<Seen, Error> {
    if directory {
        let id = volume.stat(path).await?.id;
        return Ok(Seen::Directory { id });
    }
    let file = volume.attach(path, Access::read().inline()).await?;
    let bytes = if let Some(bytes) = file.inline_data() {
        bytes.to_vec()
    } else {
        let size = file.size().await?;
        let mut bytes = vec![0; size as usize];
        let read = file.canonical()?.read_at(ViewOffset(0), &mut bytes).await?;
        bytes.truncate(read as usize);
        bytes
    };
    let (id, mode) = (file.id(), file.attributes().mode & 0o777);
    file.close_deferred().await?;
    Ok(Seen::File { id, mode, bytes })
}
