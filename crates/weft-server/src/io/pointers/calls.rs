//! The calls of clients about pointers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};
use weft_layout::{CellIndex, CellOffset, FileId, OFFSET_MAX};
use weft_proto::collective::Membership;
use weft_proto::limits::POINTER_NAME_MAX;
use weft_proto::pointer::{
    PointerName, PointerReply, PointerRequest, TakeOffsetReply, TakeOffsetRequest,
};
use weft_proto::{Code, Failure};
use weft_store::{CHUNK_MIN, ForkKey, ForkName, ORDER_STATE, Write};

use super::gathering::Gathering;
use super::record;
use super::state::{Asked, Dealt, PointerState};
use super::table::Slot;
use crate::failure;
use crate::io::IoService;
use crate::io::collective::check_membership;
use crate::io::job::file_id;
use crate::limits::POINTERS_MAX;

fn key(file: FileId, name: &str) -> Result<ForkKey, Failure> {
    let length = name.len();
    let fork = ForkName::new(&format!("{:016x}-{name}", file.0));
    match fork {
        Ok(fork) if (1..=POINTER_NAME_MAX).contains(&length) => Ok(ForkKey {
            file: ORDER_STATE,
            cell: CellIndex(0),
            fork,
        }),
        _ => Err(failure::invalid(format!(
            "a pointer's name has 1 to {POINTER_NAME_MAX} bytes without NUL and '/'; {name:?} has {length}"
        ))),
    }
}

/// A pointer that a call uses, locked.
struct Locked {
    key: ForkKey,
    slot: OwnedMutexGuard<Slot>,
}

impl Locked {
    fn state(&self) -> Option<&PointerState> {
        self.slot.state.as_ref()
    }
}

impl IoService {
    pub(in crate::io) async fn take_offset(
        &self,
        request: TakeOffsetRequest,
    ) -> Result<TakeOffsetReply, Failure> {
        if request.taker == 0 {
            return Err(failure::invalid("a taker's number is not 0"));
        }
        let asked = Asked {
            taker: request.taker,
            sequence: request.sequence,
            bytes: request.bytes,
        };
        let offset = match &request.group {
            None => self.take_alone(&request.pointer, asked).await?,
            Some(membership) => {
                check_membership(membership)?;
                self.take_in_order(&request.pointer, asked, membership)
                    .await?
            }
        };
        Ok(TakeOffsetReply { offset })
    }

    pub(in crate::io) async fn pointer(
        &self,
        request: PointerRequest,
    ) -> Result<PointerReply, Failure> {
        let mut locked = self.lock_pointer(&request.pointer).await?;
        let offset = locked.state().map_or(0, PointerState::offset);
        if request.remove {
            if locked.slot.state.take().is_some() {
                let removed = self.store.remove_fork(&locked.key).await;
                removed.map_err(|e| failure::of_store(&e))?;
            }
            return Ok(PointerReply { offset });
        }
        let Some(set) = request.set else {
            return Ok(PointerReply { offset });
        };
        if set > OFFSET_MAX {
            let what = format!("offset {set} is beyond the largest offset {OFFSET_MAX}");
            return Err(Failure::new(Code::TooLarge, what));
        }
        self.state_to_change(&mut locked).await?;
        let moved = Dealt::moved_to(set);
        self.store_dealt(&mut locked, moved).await?;
        Ok(PointerReply { offset: set })
    }

    /// Removes the pointers of files that are deleted. Cost: a look at every pointer.
    pub(in crate::io) async fn remove_pointers(&self, files: &[FileId]) -> Result<(), Failure> {
        // Calls that began before the deletion end first, so that their forks are listed.
        for slot in self.pointers.slots_of(files) {
            let mut slot = slot.lock().await;
            slot.state = None;
            if let Some(gathering) = slot.gathering.take() {
                gathering.end(Err(Failure::new(Code::Stale, "the file was deleted")));
            }
        }
        let forks = self.store.forks(ORDER_STATE).await;
        for (key, _) in forks.map_err(|e| failure::of_store(&e))? {
            let file = key.fork.as_str().split_once('-');
            let file = file.and_then(|(file, _)| u64::from_str_radix(file, 16).ok());
            if !file.is_some_and(|file| files.contains(&FileId(file))) {
                continue;
            }
            let removed = self.store.remove_fork(&key).await;
            removed.map_err(|e| failure::of_store(&e))?;
        }
        Ok(())
    }

    async fn take_alone(&self, pointer: &PointerName, asked: Asked) -> Result<u64, Failure> {
        let mut locked = self.lock_pointer(pointer).await?;
        let state = self.state_to_change(&mut locked).await?;
        if let Some(offset) = state.answered(asked)? {
            return Ok(offset);
        }
        let (offset, dealt) = (state.offset(), state.deal(&[asked], Instant::now())?);
        self.store_dealt(&mut locked, dealt).await?;
        Ok(offset)
    }

    /// Takes when all members have arrived, in the order of their numbers.
    async fn take_in_order(
        &self,
        pointer: &PointerName,
        asked: Asked,
        membership: &Membership,
    ) -> Result<u64, Failure> {
        let mut locked = self.lock_pointer(pointer).await?;
        // A gathering lives in its slot, which stays in memory as long as a call has it.
        let _kept = Arc::clone(OwnedMutexGuard::mutex(&locked.slot));
        if let Some(offset) = self.state_to_change(&mut locked).await?.answered(asked)? {
            return Ok(offset);
        }
        let gathering = locked
            .slot
            .gathering
            .get_or_insert_with(|| Gathering::new(membership));
        gathering.arrive(membership, asked)?;
        if gathering.is_complete() {
            return self.end_gathering(&mut locked, asked).await;
        }
        let (mut ended, started) = (gathering.ended(), gathering.started());
        drop(locked);
        let deadline = started + Duration::from_millis(membership.wait.into());
        // Ended or not, the outcome counts as it stands under the lock: a member whose wait ran
        // out may find that another one has ended the gathering meanwhile.
        let _ = timeout_at(deadline, ended.wait_for(Option::is_some)).await;
        let mut locked = self.lock_pointer(pointer).await?;
        let outcome = ended.borrow().clone();
        if let Some(Err(failure)) = outcome {
            return Err(failure);
        }
        if let Some(offset) = self.state_to_change(&mut locked).await?.answered(asked)? {
            return Ok(offset);
        }
        match &locked.slot.gathering {
            Some(gathering) if gathering.is_of(membership) && membership.go_on => {
                self.end_gathering(&mut locked, asked).await
            }
            Some(gathering) if gathering.is_of(membership) => {
                let failure = gathering.missing();
                gathering.end(Err(failure.clone()));
                locked.slot.gathering = None;
                Err(failure)
            }
            _ => Err(Failure::new(
                Code::Busy,
                "the pointer was removed or its members were answered; try again",
            )),
        }
    }

    /// Deals to the members that have arrived, and answers them.
    async fn end_gathering(&self, locked: &mut Locked, asked: Asked) -> Result<u64, Failure> {
        let gathering = locked.slot.gathering.take();
        let gathering = gathering.expect("the caller has seen it under the same lock");
        let state = self.state_to_change(locked).await?;
        let dealt = match state.deal(&gathering.in_order(), Instant::now()) {
            Ok(dealt) => self.store_dealt(locked, dealt).await,
            Err(failure) => Err(failure),
        };
        gathering.end(dealt.clone());
        dealt?;
        let answer = locked.state().map(|state| state.answered(asked));
        let offset = answer.transpose()?.flatten();
        offset
            .ok_or_else(|| Failure::new(Code::Internal, "a member that arrived was dealt nothing"))
    }

    /// Waits for the pointer's turn, and loads it. Refuses pointers of files that were deleted.
    async fn lock_pointer(&self, pointer: &PointerName) -> Result<Locked, Failure> {
        let file = file_id(pointer.file)?;
        let key = key(file, &pointer.name)?;
        let slot = self.pointers.slot(file, &pointer.name).lock_owned().await;
        // Under the lock, so that no pointer of a file is made once the file is deleted.
        self.check_alive(file).await?;
        let mut locked = Locked { key, slot };
        if locked.slot.state.is_none() {
            locked.slot.state = self.load_pointer(&locked.key).await?;
        }
        Ok(locked)
    }

    async fn load_pointer(&self, key: &ForkKey) -> Result<Option<PointerState>, Failure> {
        let status = self.store.status(key).await;
        let Some(status) = status.map_err(|e| failure::of_store(&e))? else {
            return Ok(None);
        };
        let bytes = self.store.read(key, CellOffset(0), status.length).await;
        let bytes = bytes.map_err(|e| failure::of_store(&e))?.concat();
        let (offset, takes) = record::decode(&bytes)?;
        Ok(Some(PointerState::new(offset, takes, Instant::now())))
    }

    /// The state of a pointer that a call is about to change, at offset 0 if it is new.
    async fn state_to_change<'a>(
        &self,
        locked: &'a mut Locked,
    ) -> Result<&'a PointerState, Failure> {
        if locked.slot.state.is_none() {
            let forks = self.store.forks(ORDER_STATE).await;
            if forks.map_err(|e| failure::of_store(&e))?.len() >= POINTERS_MAX {
                let what = format!(
                    "this server has {POINTERS_MAX} shared pointers, the most that it keeps; remove some"
                );
                return Err(Failure::new(Code::NoSpace, what));
            }
            locked.slot.state = Some(PointerState::new(0, Vec::new(), Instant::now()));
        }
        Ok(locked.slot.state.as_ref().expect("it was just made"))
    }

    /// Makes takes survive kill −9, and then lets them take effect.
    async fn store_dealt(&self, locked: &mut Locked, dealt: Dealt) -> Result<(), Failure> {
        let writes = dealt.pieces().map(|(at, entry)| Write {
            key: locked.key.clone(),
            chunk: CHUNK_MIN,
            offset: CellOffset(at as u64),
            data: Bytes::copy_from_slice(&entry),
        });
        let stored = self.store.write(writes.collect(), self.now()).await;
        stored.map_err(|e| failure::of_store(&e))?;
        if let Some(state) = &mut locked.slot.state {
            state.keep(dealt, Instant::now());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_names_of_forks_name_a_pointer() {
        for name in ["a", &"n".repeat(POINTER_NAME_MAX)] {
            assert_eq!(key(FileId(7), name).unwrap().file, ORDER_STATE);
        }
        for name in ["", "a/b", "a\0b", &"n".repeat(POINTER_NAME_MAX + 1)] {
            let refused = key(FileId(7), name).unwrap_err();
            assert_eq!(refused.code(), Code::Invalid, "{name:?}");
        }
    }
}
