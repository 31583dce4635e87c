//! What follows when all servers have done what was owed for a checkpoint of a tree.

use std::collections::{BTreeSet, HashMap};

use crate::checkpoints::{Subtree, held_files, xattrs};
use crate::edit::Edit;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::Node;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, HELD, INLINE, INODES, TREE_FILES, XATTRS, content,
};
use crate::records::record::{
    CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord, DeleteRecord, InodeRecord,
    IntentRecord, TASK_DROP, TASK_MAKE,
};

/// What files are in a checkpoint, by their ids: size and time of the last write.
pub type KeptFiles = HashMap<u64, (u64, i64)>;

impl Namespace {
    /// All servers have done what was owed for a checkpoint of a tree; `kept` tells of its files, if it was made. Doing it
    /// twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn tree_done(&self, number: u64, kept: &KeptFiles, now: i64) -> Result<(), MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(());
            };
            let task = record.checkpoint.filter(|task| task.image != 0);
            let task = task.ok_or(MetaError::WrongIntent {
                number,
                expected: "checkpoint of a tree",
            })?;
            edit.settle(number)?;
            let key = keys::with_name(record.file, task.name.as_bytes());
            match task.task {
                TASK_MAKE => edit.tree_made(&key, number, kept),
                TASK_DROP => edit.tree_dropped(&key, &task),
                _ => edit.tree_rolled_back(number, &task, now),
            }
        })
    }
}

impl Edit<'_, '_> {
    fn tree_made(&mut self, key: &[u8], number: u64, kept: &KeptFiles) -> Result<(), MetaError> {
        let bytes = self.reader().get(CHECKPOINTS, key)?;
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let mut record: CheckpointRecord = keys::decode("checkpoint", number, &bytes)?;
        for (file, image) in held_files(self.reader(), number)? {
            let mut inode = keys::named_inode(self.reader(), image)?;
            let (size, modified) = kept.get(&file).copied().unwrap_or_default();
            inode.size = size;
            if modified > inode.modified_set {
                inode.modified = inode.modified.max(modified);
            }
            self.put_unseen(INODES, &image.to_be_bytes(), &inode);
            record.size = record.size.saturating_add(size);
        }
        record.state = CHECKPOINT_THERE;
        self.put(CHECKPOINTS, key, &record);
        Ok(())
    }

    fn tree_dropped(&mut self, key: &[u8], task: &CheckpointTaskRecord) -> Result<(), MetaError> {
        self.delete(CHECKPOINTS, key);
        let mut going = BTreeSet::new();
        for (file, image) in held_files(self.reader(), task.checkpoint)? {
            self.delete_unseen(TREE_FILES, &keys::pair(task.checkpoint, file));
            let inode = keys::named_inode(self.reader(), image)?;
            if self.let_go(file, &inode)? {
                going.insert(file);
            }
        }
        if !going.is_empty() {
            self.supersede(&going)?;
        }
        let id = task.image;
        let Some(inode) = keys::inode(self.reader(), id)? else {
            return Ok(());
        };
        let tree = Subtree::read(self.reader(), Node { id, inode }, task.name.as_bytes())?;
        let counters = self.counters()?;
        counters.files = counters.files.saturating_sub(tree.nodes.len() as u64);
        for (directory, name, _) in &tree.names {
            let key = keys::with_name(tree.nodes[*directory].id, name);
            self.delete_unseen(ENTRIES, &key);
        }
        for node in &tree.nodes {
            self.remove_image(node)?;
        }
        Ok(())
    }

    fn remove_image(&mut self, image: &Node) -> Result<(), MetaError> {
        let key = image.id.to_be_bytes();
        self.delete(INODES, &key);
        if image.inode.xattr_bytes > 0 {
            for (name, _) in xattrs(self.reader(), image.id)? {
                self.delete_unseen(XATTRS, &keys::with_name(image.id, &name));
            }
        }
        if image.inode.inline {
            // A reader may have had it brought, in part at least, to cells.
            let spilling = content(self.reader(), image.id)?.spilling;
            self.delete_unseen(INLINE, &key);
            let own_cells = image.inode.frozen.is_some_and(|frozen| frozen.own_cells);
            if spilling || own_cells {
                self.owe_delete(image.id, &image.inode)?;
            }
        }
        Ok(())
    }

    /// One checkpoint less needs the cells of a file; `image` says where they are. Answers whether they go.
    fn let_go(&mut self, file: u64, image: &InodeRecord) -> Result<bool, MetaError> {
        let key = file.to_be_bytes();
        let Some(mut held) = keys::held(self.reader(), file)? else {
            return Ok(false);
        };
        held.checkpoints = held.checkpoints.saturating_sub(1);
        if held.checkpoints > 0 {
            self.put_unseen(HELD, &key, &held);
            return Ok(false);
        }
        self.delete_unseen(HELD, &key);
        if held.deleted {
            self.owe_delete(file, image)?;
        }
        Ok(held.deleted)
    }

    fn owe_delete(&mut self, file: u64, inode: &InodeRecord) -> Result<(), MetaError> {
        let servers = inode.layout.as_ref().map(|layout| layout.servers.clone());
        self.owe(&IntentRecord {
            file,
            delete: Some(DeleteRecord {
                servers: servers.unwrap_or_default(),
            }),
            truncate: None,
            checkpoint: None,
        })?;
        Ok(())
    }

    fn tree_rolled_back(
        &mut self,
        number: u64,
        task: &CheckpointTaskRecord,
        now: i64,
    ) -> Result<(), MetaError> {
        for (file, image) in held_files(self.reader(), task.checkpoint)? {
            let image = keys::named_inode(self.reader(), image)?;
            if self.cut(number, file, image.size, now)?.is_none() {
                continue;
            }
            let inode = keys::named_inode(self.reader(), file)?;
            let inode = self.change(file, &inode);
            // The servers' own time is that of the rolling back, which is nobody's write.
            inode.modified = image.modified;
            inode.modified_set = now;
        }
        Ok(())
    }
}
