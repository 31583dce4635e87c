//! An engine without disk space: operations that make the namespace larger are refused and change
//! nothing, all others succeed.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Volume, at, attaching, creating, who};
use weft_kv::{Batch, KvError, MemKv, OrderedKv, Reader, Transaction};
use weft_meta::MetaError;
use weft_proto::Code;
use weft_proto::checkpoint::MakeCheckpointRequest;
use weft_proto::inline::StoreInlineRequest;
use weft_proto::meta::*;

/// An engine on a disk that other programs fill and empty.
#[derive(Default)]
struct Cramped {
    inner: MemKv,
    full: AtomicBool,
}

impl OrderedKv for Cramped {
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError> {
        self.inner.snapshot()
    }

    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        self.inner.transact(work)
    }

    fn write(&self, batch: Batch) -> Result<(), KvError> {
        self.inner.write(batch)
    }

    fn check_space(&self) -> Result<(), KvError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(KvError::NoSpace {
                path: "/meta".to_owned(),
                available: 1,
                needed: 2,
            });
        }
        Ok(())
    }

    fn committed(&self) -> u64 {
        self.inner.committed()
    }

    fn sync(&self) -> Result<(), KvError> {
        self.inner.sync()
    }
}

fn volume() -> (Arc<Cramped>, Volume) {
    let kv = Arc::new(Cramped::default());
    let mut v = Volume::over(kv.clone());
    v.mkdir(0, "d", 0o777).unwrap();
    v.mkdir(0, "empty", 0o777).unwrap();
    v.create(0, "d/f", 0o644).unwrap();
    for name in ["d/g", "d/h"] {
        let request = AttachRequest {
            inline: true,
            ..creating(0, name, 0o644, true)
        };
        let attached = v.attach(1, &request).unwrap();
        v.detach(1, attached.reply.attributes.id, false);
    }
    (kv, v)
}

fn no_space<T: std::fmt::Debug>(result: Result<T, MetaError>) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), Code::NoSpace, "{error}");
    assert!(error.to_string().contains("/meta"), "{error}");
}

fn set_xattr(v: &mut Volume) -> Result<XattrDone, MetaError> {
    let request = SetXattrRequest {
        who: who(0),
        target: at("d/f"),
        name: b"user.a".to_vec().into(),
        value: b"value".to_vec().into(),
        create: false,
        replace: false,
    };
    let now = v.tick();
    v.meta.set_xattr(now, &request)
}

fn checkpoint(v: &mut Volume, path: &str) -> Result<(), MetaError> {
    let request = MakeCheckpointRequest {
        who: who(0),
        target: at(path),
        name: "c".to_owned(),
    };
    let now = v.tick();
    v.meta.make_checkpoint(now, &request).map(drop)
}

fn store(v: &mut Volume, data: &[u8]) -> Result<(), MetaError> {
    let request = AttachRequest {
        inline: true,
        ..attaching(0, "d/g", false, true)
    };
    let attached = v.attach(7, &request)?;
    let file = attached.reply.attributes.id;
    let request = StoreInlineRequest {
        file,
        data: data.to_vec().into(),
        ..StoreInlineRequest::default()
    };
    let now = v.tick();
    let stored = v.meta.store_inline(now, 7, &request).map(drop);
    v.detach(7, file, true);
    stored
}

#[test]
fn operations_that_grow_the_namespace_are_refused_on_a_full_disk_and_change_nothing() {
    let (kv, mut v) = volume();
    store(&mut v, b"four").unwrap();
    kv.full.store(true, Ordering::SeqCst);
    let files = v.meta.counts().unwrap().files;
    no_space(v.mkdir(0, "new", 0o755));
    no_space(v.create(0, "d/new", 0o644));
    no_space(v.symlink(0, "d/link", "f"));
    no_space(v.link(0, "d/f", "d/second"));
    no_space(set_xattr(&mut v));
    no_space(checkpoint(&mut v, "d/f"));
    no_space(checkpoint(&mut v, "d"));
    no_space(store(&mut v, b"longer"));
    assert_eq!(v.meta.counts().unwrap().files, files);
    assert_eq!(v.stat(0, "d/g").unwrap().size, 4);
    for name in ["new", "d/new", "d/link", "d/second"] {
        let error = v.stat(0, name).unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{name}");
    }
    kv.full.store(false, Ordering::SeqCst);
    v.mkdir(0, "new", 0o755).unwrap();
    set_xattr(&mut v).unwrap();
    checkpoint(&mut v, "d/f").unwrap();
    store(&mut v, b"longer").unwrap();
}

#[test]
fn operations_that_do_not_grow_the_namespace_succeed_on_a_full_disk() {
    let (kv, mut v) = volume();
    store(&mut v, b"four").unwrap();
    kv.full.store(true, Ordering::SeqCst);
    store(&mut v, b"less").unwrap();
    store(&mut v, b"s").unwrap();
    v.chmod(0, "d/f", 0o600).unwrap();
    v.rename(0, "d/f", "moved").unwrap();
    v.rename(0, "d/g", "d/h").unwrap();
    v.unlink(0, "moved").unwrap();
    v.unlink(0, "d/h").unwrap();
    v.rmdir(0, "empty").unwrap();
    v.rmdir(0, "d").unwrap();
    assert_eq!(v.meta.counts().unwrap().files, 1);
}
