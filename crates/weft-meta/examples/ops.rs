//! Operations of the namespace per second, beside what the engine itself can do in the same run.
//!
//! `cargo run --release -p weft-meta --example ops [-- FILES]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_kv::{FjallKv, FjallOptions, MemKv, OrderedKv, Space};
use weft_layout::ServerId;
use weft_meta::{Namespace, VolumeSettings};
use weft_proto::meta::{
    AttachRequest, Create, Credentials, ListRequest, MakeDirectoryRequest, ROOT, RenameRequest,
    ReportRequest, StatRequest, Target, UnlinkRequest,
};

fn root() -> Credentials {
    Credentials {
        uid: 1000,
        gid: 1000,
        groups: vec![4, 24, 27],
    }
}

fn target(path: String) -> Target {
    Target {
        at: ROOT,
        path: path.into_bytes().into(),
        follow: true,
    }
}

fn path(number: u64) -> String {
    format!("home/user/d{}/file-{number:08}", number % 64)
}

/// Nanoseconds that this thread ran on a CPU: what an operation costs on a machine that is busy
/// with other things too. The engine's background threads are not in it.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn timed(name: &str, count: u64, mut run: impl FnMut(u64)) {
    let mut longest = Duration::ZERO;
    let (start, cpu_start) = (Instant::now(), cpu());
    for number in 0..count {
        let began = Instant::now();
        run(number);
        longest = longest.max(began.elapsed());
    }
    let (all, on_cpu) = (start.elapsed(), cpu() - cpu_start);
    let each = all / count as u32;
    let on_cpu = Duration::from_nanos(on_cpu / count);
    let rate = count as f64 / all.as_secs_f64();
    println!(
        "  {name:<28} {rate:>9.0}/s  {each:>9.2?} each, {on_cpu:>9.2?} on a CPU, longest {longest:.2?}"
    );
}

/// A transaction like a create's without the namespace: four reads, five writes.
fn raw(kv: &dyn OrderedKv, count: u64) {
    let space = Space("raw");
    let value = [7; 80];
    timed("engine: 4 gets, 5 puts", count, |number| {
        kv.transact(&mut |txn| {
            for i in 0..4_u64 {
                txn.get(space, &(number * 8 + i).to_be_bytes())?;
            }
            for i in 0..5_u64 {
                txn.put(space, &(number * 8 + i).to_be_bytes(), &value);
            }
            Ok(())
        })
        .expect("the engine commits");
    });
}

fn fresh(kv: &Arc<dyn OrderedKv>) -> Namespace {
    let settings = VolumeSettings {
        id: [1; 16],
        name: "bench".into(),
        servers: (1..=4)
            .map(|id| (ServerId(id), format!("h:{id}")))
            .collect(),
        replicas: Vec::new(),
        uid: 1000,
        gid: 1000,
        mode: 0o755,
        now: 1,
    };
    Namespace::format(&**kv, &settings).expect("a fresh engine");
    let meta = Namespace::open(kv.clone()).expect("a formatted volume");
    meta.reap_orphans().expect("no orphans");
    let mut directories = vec!["home".to_owned(), "home/user".to_owned()];
    directories.extend((0..64).map(|i| format!("home/user/d{i}")));
    for directory in directories {
        let request = MakeDirectoryRequest {
            who: root(),
            target: target(directory),
            mode: 0o755,
            umask: 0,
            lease: false,
        };
        meta.make_directory(1, &request).expect("a new directory");
    }
    meta
}

fn bench(name: &str, kv: &Arc<dyn OrderedKv>, count: u64) {
    println!("{name}, {count} files in 64 directories three deep");
    raw(&**kv, count);
    let meta = fresh(kv);
    let create = |number| AttachRequest {
        who: root(),
        target: target(path(number)),
        read: true,
        write: true,
        create: Some(Create {
            mode: 0o644,
            exclusive: true,
            layout: None,
            umask: 0,
        }),
        inline: false,
        keep: None,
    };
    let mut ids = Vec::with_capacity(count as usize);
    timed("create (attach for writing)", count, |number| {
        let attached = meta.attach(2, 1, &create(number)).expect("a new file");
        ids.push(attached.reply.attributes.id);
    });
    timed("report and detach", count, |number| {
        let request = ReportRequest {
            file: ids[number as usize],
            modified: Some(3),
            detach: true,
            write: true,
            end: Some(4096),
            ..Default::default()
        };
        meta.report(1, &request).expect("a report");
    });
    timed("stat", count, |number| {
        let request = StatRequest {
            who: root(),
            target: target(path(number * 7919 % count)),
        };
        meta.stat(&request).expect("the file is there");
    });
    timed("attach and detach, reading", count, |number| {
        let mut request = create(number);
        (request.write, request.create) = (false, None);
        meta.attach(4, 1, &request).expect("the file is there");
        let request = ReportRequest {
            file: ids[number as usize],
            detach: true,
            ..Default::default()
        };
        meta.report(1, &request).expect("a report");
    });
    timed("rename", count, |number| {
        let request = RenameRequest {
            who: root(),
            source: target(path(number)),
            target: target(path(number) + "x"),
            no_replace: false,
            exchange: false,
        };
        meta.rename(5, &request).expect("the file is there");
    });
    timed("list, 1000 with attributes", 64, |number| {
        let request = ListRequest {
            who: root(),
            target: target(format!("home/user/d{number}")),
            after: Vec::new().into(),
            limit: 1000,
        };
        meta.list(&request).expect("the directory is there");
    });
    timed("unlink", count, |number| {
        let request = UnlinkRequest {
            who: root(),
            target: target(path(number) + "x"),
        };
        meta.unlink(6, &request).expect("the file is there");
    });
    timed("carry through a delete", count / 100, |_| {
        for intent in meta.pending_intents(100).expect("a scan") {
            meta.intent_done(intent.number()).expect("an intent");
        }
    });
    timed("sync", 20, |_| kv.sync().expect("a sync"));
}

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(100_000, |arg| arg.parse().expect("a number"));
    bench(
        "MemKv",
        &(Arc::new(MemKv::new()) as Arc<dyn OrderedKv>),
        count,
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kv = FjallKv::open(folder.path(), FjallOptions::default()).expect("a new engine");
    bench("FjallKv", &(Arc::new(kv) as Arc<dyn OrderedKv>), count);
}
