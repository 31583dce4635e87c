//! The load while the power is on, and the data that must exist afterwards.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use weft_client::{Access, File, Volume};
use weft_layout::{CellIndex, View};

use crate::{SLOTS, WRITERS, content, slot_length, slot_offset};

/// A record that a writer wrote.
#[derive(Clone, Copy, Debug)]
struct Event {
    slot: u64,
    version: u64,
}

/// The records of a writer in order: it writes the next when the last was acknowledged.
#[derive(Clone, Debug, Default)]
struct Written {
    events: Vec<Event>,
    acknowledged: usize,
    synced: usize,
}

/// The writes and acknowledgements between two power failures.
#[derive(Default)]
pub struct Manifest {
    writers: HashMap<u64, Written>,
    pub names: Vec<String>,
}

impl Manifest {
    /// Records that a sync covers.
    pub fn synced(&self) -> usize {
        self.writers.values().map(|w| w.synced).sum()
    }

    /// Adds the counts of another manifest.
    pub fn add(&mut self, other: &Manifest) {
        for (writer, more) in &other.writers {
            self.writers.entry(*writer).or_default().synced += more.synced;
        }
        self.names.extend_from_slice(&other.names);
    }
}

pub async fn write_records(file: File, writer: u64, round: u64, manifest: Arc<Mutex<Manifest>>) {
    let view = file.view(View::Cell(CellIndex(writer as u32))).unwrap();
    let mut version = round << 16;
    loop {
        version += 1;
        let slot = version.wrapping_mul(7919) % SLOTS;
        {
            let mut manifest = manifest.lock().unwrap();
            let written = manifest.writers.entry(writer).or_default();
            written.events.push(Event { slot, version });
        }
        let data = content(writer, slot, version);
        if view.write_at(slot_offset(slot), data).await.is_err() {
            return;
        }
        let mut manifest = manifest.lock().unwrap();
        let written = manifest.writers.entry(writer).or_default();
        written.acknowledged = written.events.len();
    }
}

pub async fn make_names(volume: Volume, round: u64, manifest: Arc<Mutex<Manifest>>) {
    for i in 0.. {
        let name = format!("/names/{round}-{i}");
        let access = Access::write().create_new(0o644);
        if volume.attach(&name, access).await.is_err() {
            return;
        }
        manifest.lock().unwrap().names.push(name);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn sync_now_and_then(file: File, manifest: Arc<Mutex<Manifest>>) {
    loop {
        let before: Vec<(u64, usize)> = {
            let manifest = manifest.lock().unwrap();
            let writers = manifest.writers.iter();
            writers
                .map(|(w, written)| (*w, written.acknowledged))
                .collect()
        };
        if file.sync().await.is_err() {
            return;
        }
        for (writer, count) in before {
            let mut manifest = manifest.lock().unwrap();
            manifest.writers.entry(writer).or_default().synced = count;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// The contents of each slot after the last power failure.
#[derive(Default)]
pub struct Base(HashMap<(u64, u64), Bytes>);

impl Base {
    /// Compares a volume after a power failure with the writes since the previous one.
    pub async fn verify(&mut self, volume: &Volume, manifest: &Manifest) -> Result<(), String> {
        let file = volume
            .attach("/file", Access::read())
            .await
            .map_err(|e| e.to_string())?;
        for writer in 0..WRITERS {
            let written = manifest.writers.get(&writer).cloned().unwrap_or_default();
            let found = read_slots(&file, writer).await?;
            self.judge(writer, &written, &found)?;
            let found = (0..).zip(found).map(|(slot, data)| ((writer, slot), data));
            self.0.extend(found);
        }
        let listed = volume
            .list("/names")
            .all()
            .await
            .map_err(|e| e.to_string())?;
        let listed: BTreeSet<String> = listed
            .iter()
            .map(|e| format!("/names/{}", String::from_utf8_lossy(&e.name)))
            .collect();
        match manifest.names.iter().find(|name| !listed.contains(*name)) {
            Some(name) => Err(format!("{name} was acknowledged and is missing")),
            None => Ok(()),
        }
    }

    fn judge(&self, writer: u64, written: &Written, found: &[Bytes]) -> Result<(), String> {
        let nothing = Bytes::new();
        // The event whose record each slot holds; `None`: the content before the load.
        let mut newest: Vec<Option<Option<usize>>> = vec![None; found.len()];
        for (slot, data) in (0_u64..).zip(found) {
            let base = self.0.get(&(writer, slot)).unwrap_or(&nothing);
            let events = (0..).zip(&written.events).filter(|(_, e)| e.slot == slot);
            let here = events
                .clone()
                .rev_find(|e| *data == content(writer, slot, e.version));
            newest[slot as usize] = match here {
                Some(event) => Some(Some(event)),
                None if is(data, base) => Some(None),
                // A write that was not acknowledged may have happened partially.
                None => {
                    let open = written
                        .events
                        .get(written.acknowledged)
                        .filter(|e| e.slot == slot);
                    let open =
                        open.ok_or_else(|| format!("writer {writer}, slot {slot}: wrong bytes"))?;
                    let all: Vec<Bytes> = events
                        .map(|(_, e)| content(writer, slot, e.version))
                        .collect();
                    let explained = |(i, b): (usize, &u8)| {
                        base.get(i).copied().unwrap_or(0) == *b || all.iter().any(|v| v[i] == *b)
                    };
                    if !data.iter().enumerate().all(explained) {
                        return Err(format!(
                            "writer {writer}, slot {slot}: wrong bytes beside {open:?}"
                        ));
                    }
                    None
                }
            };
        }
        let last = newest
            .iter()
            .flatten()
            .flatten()
            .max()
            .map_or(0, |last| last + 1);
        let must = last.max(written.synced);
        let mut latest: HashMap<u64, usize> = HashMap::new();
        latest.extend((0..must.min(written.events.len())).map(|i| (written.events[i].slot, i)));
        for (slot, event) in latest {
            // A partial record is newer than all that must exist.
            let Some(here) = newest[slot as usize] else {
                continue;
            };
            if here.is_none_or(|here| here < event) {
                let what = if event < written.synced {
                    "was synced"
                } else {
                    "precedes an event that survived"
                };
                return Err(format!(
                    "writer {writer}, slot {slot}: event {event} of {} {what} and is missing (found {here:?}, {} synced)",
                    written.events.len(),
                    written.synced
                ));
            }
        }
        Ok(())
    }
}

/// Whether the data equals the content before the load, which is empty at first.
fn is(data: &[u8], base: &[u8]) -> bool {
    if base.is_empty() {
        data.iter().all(|b| *b == 0)
    } else {
        data == base
    }
}

trait FindBack {
    fn rev_find(self, is: impl Fn(&Event) -> bool) -> Option<usize>;
}

impl<'a, I: Iterator<Item = (usize, &'a Event)>> FindBack for I {
    fn rev_find(self, is: impl Fn(&Event) -> bool) -> Option<usize> {
        let all: Vec<(usize, &Event)> = self.collect();
        all.into_iter()
            .rev()
            .find(|(_, event)| is(event))
            .map(|(i, _)| i)
    }
}

async fn read_slots(file: &File, writer: u64) -> Result<Vec<Bytes>, String> {
    let view = file.view(View::Cell(CellIndex(writer as u32))).unwrap();
    let mut out = Vec::new();
    for slot in 0..SLOTS {
        let mut data = vec![0; slot_length(slot)];
        let read = view.read_at(slot_offset(slot), &mut data).await;
        read.map_err(|e| format!("writer {writer}, slot {slot}: {e}"))?;
        out.push(Bytes::from(data));
    }
    Ok(out)
}
