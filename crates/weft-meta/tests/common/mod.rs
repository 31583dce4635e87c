//! Shared by the suites: a namespace on either engine, short forms of the requests, and the check
//! of the namespace's invariants by reading the engine's keys.
#![allow(dead_code, reason = "each suite uses its own part")]

pub mod check;

use std::ops::ControlFlow;
use std::sync::Arc;

use weft_kv::{FjallKv, FjallOptions, MemKv, OrderedKv};
use weft_layout::ServerId;
use weft_meta::{
    Attached, CheckObserver, Intent, MetaError, Namespace, Truncation, VolumeSettings,
};
use weft_proto::fsck::Finding;
use weft_proto::meta::*;

/// The findings of a check.
#[derive(Default)]
pub struct Found(pub Vec<Finding>);

impl CheckObserver for Found {
    fn seen(&mut self, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn found(&mut self, finding: Finding) {
        self.0.push(finding);
    }
}

pub const ROOT_USER: u32 = 0;

/// A volume, and the owner of its engine.
pub struct Volume {
    pub kv: Arc<dyn OrderedKv>,
    pub meta: Namespace,
    pub now: i64,
    _folder: Option<tempfile::TempDir>,
}

pub fn settings() -> VolumeSettings {
    VolumeSettings {
        id: *b"sixteen byte id.",
        name: "test".into(),
        servers: (1..=4)
            .map(|id| (ServerId(id), format!("host{id}:7000")))
            .collect(),
        replicas: Vec::new(),
        uid: 0,
        gid: 0,
        mode: 0o777,
        now: 1,
    }
}

impl Volume {
    pub fn over(kv: Arc<dyn OrderedKv>) -> Volume {
        Namespace::format(&*kv, &settings()).unwrap();
        let meta = Namespace::open(kv.clone()).unwrap();
        meta.reap_orphans().unwrap();
        Volume {
            kv,
            meta,
            now: 1000,
            _folder: None,
        }
    }

    /// An existing volume.
    pub fn opened(kv: Arc<dyn OrderedKv>) -> Volume {
        let meta = Namespace::open(kv.clone()).unwrap();
        Volume {
            kv,
            meta,
            now: 1_000_000,
            _folder: None,
        }
    }

    pub fn mem() -> Volume {
        Volume::over(Arc::new(MemKv::new()))
    }

    pub fn fjall() -> Volume {
        let folder = tempfile::tempdir().unwrap();
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        Volume {
            _folder: Some(folder),
            ..Volume::over(Arc::new(kv))
        }
    }

    /// Restarts the service: its state in memory is lost.
    pub fn restart(&mut self) {
        self.meta = Namespace::open(self.kv.clone()).unwrap();
    }

    /// A later time at each call.
    pub fn tick(&mut self) -> i64 {
        self.now += 10;
        self.now
    }

    pub fn mkdir(&mut self, uid: u32, path: &str, mode: u32) -> Result<Attributes, MetaError> {
        let request = MakeDirectoryRequest {
            who: who(uid),
            target: at(path),
            mode,
            umask: 0,
            lease: false,
        };
        let now = self.tick();
        Ok(self.meta.make_directory(now, &request)?.attributes)
    }

    pub fn attach(&mut self, client: u64, request: &AttachRequest) -> Result<Attached, MetaError> {
        let now = self.tick();
        self.meta.attach(now, client, request)
    }

    /// Creates a file that no client has open.
    pub fn create(&mut self, uid: u32, path: &str, mode: u32) -> Result<Attributes, MetaError> {
        let request = creating(uid, path, mode, true);
        let attached = self.attach(1, &request)?;
        let attributes = attached.reply.attributes;
        self.detach(1, attributes.id, false);
        Ok(attributes)
    }

    pub fn detach(&mut self, client: u64, file: u64, write: bool) {
        let request = ReportRequest {
            file,
            detach: true,
            write,
            ..ReportRequest::default()
        };
        self.meta.report(client, &request).unwrap();
    }

    pub fn symlink(&mut self, uid: u32, path: &str, text: &str) -> Result<Attributes, MetaError> {
        let request = MakeLinkRequest {
            who: who(uid),
            target: at(path),
            text: text.as_bytes().to_vec().into(),
        };
        let now = self.tick();
        Ok(self.meta.make_link(now, &request)?.attributes)
    }

    pub fn link(&mut self, uid: u32, source: &str, path: &str) -> Result<Attributes, MetaError> {
        let request = LinkRequest {
            who: who(uid),
            source: at(source),
            target: at(path),
        };
        let now = self.tick();
        Ok(self.meta.link(now, &request)?.attributes)
    }

    pub fn unlink(&mut self, uid: u32, path: &str) -> Result<UnlinkReply, MetaError> {
        let request = UnlinkRequest {
            who: who(uid),
            target: at(path),
        };
        let now = self.tick();
        self.meta.unlink(now, &request)
    }

    pub fn rmdir(&mut self, uid: u32, path: &str) -> Result<UnlinkReply, MetaError> {
        let request = RemoveDirectoryRequest {
            who: who(uid),
            target: at(path),
        };
        let now = self.tick();
        self.meta.remove_directory(now, &request)
    }

    pub fn rename(&mut self, uid: u32, source: &str, target: &str) -> Result<(), MetaError> {
        self.rename_with(uid, source, target, false, false)
    }

    pub fn rename_with(
        &mut self,
        uid: u32,
        source: &str,
        target: &str,
        no_replace: bool,
        exchange: bool,
    ) -> Result<(), MetaError> {
        let request = RenameRequest {
            who: who(uid),
            source: at(source),
            target: at(target),
            no_replace,
            exchange,
        };
        let now = self.tick();
        self.meta.rename(now, &request).map(|_| ())
    }

    pub fn stat(&self, uid: u32, path: &str) -> Result<Attributes, MetaError> {
        self.stat_target(uid, at(path))
    }

    pub fn stat_target(&self, uid: u32, target: Target) -> Result<Attributes, MetaError> {
        let request = StatRequest {
            who: who(uid),
            target,
        };
        Ok(self.meta.stat(&request)?.attributes)
    }

    pub fn set(
        &mut self,
        uid: u32,
        path: &str,
        change: SetAttributesRequest,
    ) -> Result<Attributes, MetaError> {
        let request = SetAttributesRequest {
            who: who(uid),
            target: at(path),
            ..change
        };
        let now = self.tick();
        Ok(self.meta.set_attributes(now, &request)?.attributes)
    }

    pub fn chmod(&mut self, uid: u32, path: &str, mode: u32) -> Result<Attributes, MetaError> {
        let change = SetAttributesRequest {
            mode: Some(mode),
            ..Default::default()
        };
        self.set(uid, path, change)
    }

    pub fn chown(
        &mut self,
        uid: u32,
        path: &str,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Result<Attributes, MetaError> {
        let change = SetAttributesRequest {
            uid: owner,
            gid: group,
            ..Default::default()
        };
        self.set(uid, path, change)
    }

    pub fn truncate(&mut self, uid: u32, path: &str, size: u64) -> Result<Truncation, MetaError> {
        let request = TruncateRequest {
            who: who(uid),
            target: at(path),
            size,
            attached: false,
            grow: false,
        };
        let now = self.tick();
        self.meta.truncate(now, &request)
    }

    pub fn list(&self, uid: u32, path: &str) -> Result<Vec<String>, MetaError> {
        let request = ListRequest {
            who: who(uid),
            target: at(path),
            after: Vec::new().into(),
            limit: 0,
        };
        let reply = self.meta.list(&request)?;
        let name = |entry: &Entry| String::from_utf8(entry.name.to_vec()).unwrap();
        Ok(reply.entries.iter().map(name).collect())
    }

    /// Carries out every delete, as the service would.
    pub fn carry_deletes(&mut self) -> Vec<u64> {
        let mut files = Vec::new();
        for intent in self.meta.pending_intents(1000).unwrap() {
            if let Intent::Delete { number, file, .. } = intent {
                self.meta.intent_done(number).unwrap();
                files.push(file.0);
            }
        }
        files
    }

    pub fn check(&self) {
        check::invariants(&*self.kv);
    }
}

/// Users: 0 is root; N has group N and is also in group 20.
pub fn who(uid: u32) -> Credentials {
    Credentials {
        uid,
        gid: uid,
        groups: vec![20],
    }
}

/// A path from the root that follows a link in the last place, unless it begins with `@`.
pub fn at(path: &str) -> Target {
    let (path, follow) = match path.strip_prefix('@') {
        Some(path) => (path, false),
        None => (path, true),
    };
    Target {
        at: ROOT,
        path: path.as_bytes().to_vec().into(),
        follow,
    }
}

/// A file by its id.
pub fn by_id(id: u64) -> Target {
    Target {
        at: id,
        path: Vec::new().into(),
        follow: false,
    }
}

pub fn creating(uid: u32, path: &str, mode: u32, exclusive: bool) -> AttachRequest {
    AttachRequest {
        who: who(uid),
        target: at(path),
        read: false,
        write: false,
        create: Some(Create {
            mode,
            exclusive,
            layout: None,
            umask: 0,
        }),
        inline: false,
        keep: None,
    }
}

pub fn attaching(uid: u32, path: &str, read: bool, write: bool) -> AttachRequest {
    AttachRequest {
        who: who(uid),
        target: at(path),
        read,
        write,
        create: None,
        inline: false,
        keep: None,
    }
}

/// Runs each function on both engines.
#[macro_export]
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod mem {
            $(#[test] fn $name() {
                let mut volume = $crate::common::Volume::mem();
                super::$name(&mut volume);
                volume.check();
            })*
        }
        mod fjall {
            $(#[test] fn $name() {
                let mut volume = $crate::common::Volume::fjall();
                super::$name(&mut volume);
                volume.check();
            })*
        }
    };
}

/// The operation fails with this code.
#[macro_export]
macro_rules! refused {
    ($result:expr, $code:ident) => {{
        let error = $result.expect_err("it was not refused");
        assert_eq!(error.code(), weft_proto::Code::$code, "{error}");
    }};
}
