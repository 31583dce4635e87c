//! Policies that are plug-ins, on real servers.

use crate::common;
#[path = "../../weft-policy/tests/common/mod.rs"]
mod build;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::TestVolume;
use weft_client::{
    Access, ConnectOptions, File, Kept, LockOwner, LockRange, NewLayout, OpenView, Policies,
    Policy, PolicyFolder, Volume,
};
use weft_layout::{Storage, View, ViewOffset};
use weft_proto::{Code, Kind};

const CHUNK: u64 = 4096;
const LENGTH: usize = 6 * CHUNK as usize;

/// A volume, and a folder of plug-ins.
struct WithPlugins {
    volume: TestVolume,
    folder: tempfile::TempDir,
}

impl WithPlugins {
    async fn start() -> WithPlugins {
        WithPlugins {
            volume: TestVolume::start(3).await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn options(&self) -> ConnectOptions {
        let mut options = self.volume.options();
        options.policies = Policies::of(PolicyFolder::at(self.folder.path()));
        options
    }

    async fn client(&self) -> Volume {
        Volume::connect(self.options()).await.unwrap()
    }

    /// A plug-in of these values and callbacks.
    fn make(&self, name: &str, code: &str, members: &str) {
        let text = format!(
            "{code}
            static const struct weft_policy table = {{ .size = sizeof(struct weft_policy),
                .version = WEFT_POLICY_VERSION, .name = \"{name}\", .summary = \"of a test\",
                .values = {{ .size = sizeof(struct weft_policy_values) }}, {members} }};
            const struct weft_policy *weft_policy(void) {{ return &table; }}"
        );
        build::compile_text(self.folder.path(), name, &text);
    }
}

async fn open(volume: &Volume, path: &str, policy: &str) -> OpenView {
    let policy = volume.policies().find(policy).unwrap();
    let layout = NewLayout {
        bsu: Some(CHUNK),
        chunk: Some(CHUNK as u32),
        storage: Some(Storage::Addressed),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = volume.attach(path, access.policy(policy)).await.unwrap();
    file.view(View::canonical()).unwrap()
}

async fn write(view: &OpenView, byte: u8) {
    let data = Bytes::from(vec![byte; LENGTH]);
    let written = view.write_at(ViewOffset(0), data).await.unwrap();
    assert_eq!(written, LENGTH as u64);
}

async fn read_all(view: &OpenView) -> Vec<u8> {
    let mut data = vec![0; LENGTH];
    let bytes = view.read_at(ViewOffset(0), &mut data).await.unwrap();
    assert_eq!(bytes, LENGTH as u64);
    data
}

/// The byte that the whole file consists of.
async fn read(view: &OpenView) -> u8 {
    let data = read_all(view).await;
    assert!(data.iter().all(|byte| *byte == data[0]));
    data[0]
}

fn calls(volume: &Volume, kinds: &[Kind]) -> u64 {
    let counters = volume.counters();
    let of = counters.calls.iter().filter(|(of, _)| kinds.contains(of));
    of.map(|(_, calls)| calls).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_plugin_shows_its_writes_at_its_close_and_no_other_before_the_next_open() {
    let test = WithPlugins::start().await;
    build::compile(test.folder.path(), "afs", &build::example("session.c"));
    let (one, two) = (test.client().await, test.client().await);
    let writer = open(&one, "/f", "afs").await;
    write(&writer, 1).await;
    writer.file().close().await.unwrap();
    let reader = open(&two, "/f", "afs").await;
    // Its names were fetched with the open.
    let names = calls(&two, &[Kind::ReadNames]);
    assert_eq!(names, 3);
    let writer = open(&one, "/f", "afs").await;
    let puts = [Kind::Write, Kind::NameChunks];
    let before = calls(&one, &puts);
    write(&writer, 2).await;
    assert_eq!(calls(&one, &puts), before, "it waits");
    let plain = open(&two, "/f", "for-1").await;
    assert_eq!(read(&plain).await, 1);
    assert_eq!(read(&writer).await, 2, "one's own writes");
    write(&writer, 3).await;
    writer.file().close().await.unwrap();
    assert_eq!(read(&plain).await, 3);
    let fresh = open(&two, "/f", "afs").await;
    assert_eq!(read(&fresh).await, 3);
    // The names of the first open are those of the first contents; whose bytes are gone, so that
    // it sees what is there.
    assert_eq!(read(&reader).await, 3);
    // A session that has read its bytes goes on to see them.
    let writer = open(&one, "/f", "afs").await;
    write(&writer, 4).await;
    writer.file().close().await.unwrap();
    assert_eq!((read(&plain).await, read(&fresh).await), (4, 3));
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_writes_leave_before_whatever_must_see_them() {
    let test = WithPlugins::start().await;
    test.make("late", "", ".values.delay_ms = 3600000");
    let volume = test.client().await;
    let view = open(&volume, "/f", "late").await;
    let other = open(&test.client().await, "/f", "for-1").await;
    write(&view, 1).await;
    assert!(view.file().size().await.unwrap() == LENGTH as u64 && read(&other).await == 1);
    write(&view, 2).await;
    view.file().sync().await.unwrap();
    assert_eq!(read(&other).await, 2);
    write(&view, 3).await;
    assert_eq!((read(&other).await, read(&view).await), (2, 3));
    assert_eq!(read(&other).await, 3);
    write(&view, 4).await;
    view.clear(ViewOffset(0), CHUNK).await.unwrap();
    let mut data = [9; 2 * CHUNK as usize];
    other.read_at(ViewOffset(0), &mut data).await.unwrap();
    assert_eq!((data[0], data[CHUNK as usize]), (0, 4));
    write(&view, 5).await;
    let range = LockRange::Whole;
    let owner = LockOwner { number: 7, pid: 7 };
    view.file().unlock(range, owner).await.unwrap();
    assert_eq!(read(&other).await, 5);
    write(&view, 6).await;
    view.file().set_policy(None).unwrap();
    assert_eq!(read(&view).await, 6);
    assert_eq!(read(&other).await, 6);
    // Bytes that go on in the same view leave as one write.
    let view = open(&volume, "/f", "late").await;
    let before = calls(&volume, &[Kind::Write, Kind::NameChunks]);
    for n in 0..LENGTH / 64 {
        let data = Bytes::from(vec![7; 64]);
        view.write_at(ViewOffset(n as u64 * 64), data)
            .await
            .unwrap();
    }
    view.file().commit().await.unwrap();
    assert_eq!(read(&other).await, 7);
    let moved = calls(&volume, &[Kind::Write, Kind::NameChunks]) - before;
    assert!(moved <= 6, "{moved}");
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_writes_leave_in_time_when_they_are_many_and_when_their_file_is_dropped() {
    let test = WithPlugins::start().await;
    test.make("soon", "", ".values.delay_ms = 300");
    test.make("late", "", ".values.delay_ms = 3600000");
    let volume = test.client().await;
    let other = open(&test.client().await, "/f", "for-1").await;
    write(&other, 0).await;
    let wait_for = async |byte| {
        let begun = Instant::now();
        // A read at the same time may find the write on some servers only.
        while read_all(&other).await.iter().any(|found| *found != byte) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{byte}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begun.elapsed()
    };
    let view = open(&volume, "/f", "soon").await;
    let begun = Instant::now();
    write(&view, 1).await;
    wait_for(1).await;
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let view = open(&volume, "/f", "late").await;
    write(&view, 2).await;
    drop(view);
    wait_for(2).await;
    let view = open(&volume, "/f", "late").await;
    let mebibyte = Bytes::from(vec![3; 1 << 20]);
    for n in 0..16 {
        view.write_at(ViewOffset(n << 20), mebibyte.clone())
            .await
            .unwrap();
    }
    assert_eq!(read(&other).await, 3);
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delayed_write_is_reported_once_and_the_file_can_be_closed() {
    let mut test = WithPlugins::start().await;
    test.make("late", "", ".values.delay_ms = 3600000");
    test.make("soon", "", ".values.delay_ms = 50");
    let volume = test.client().await;
    let (late, soon) = (
        open(&volume, "/late", "late").await,
        open(&volume, "/soon", "soon").await,
    );
    test.volume.stop_server(1).await;
    write(&soon, 1).await;
    write(&late, 1).await;
    // One that is cancelled loses no failure.
    {
        let cancelled = late.file().commit();
        tokio::pin!(cancelled);
        let soon = Duration::from_micros(1);
        let _ = tokio::time::timeout(soon, &mut cancelled).await;
    }
    late.file().commit().await.unwrap_err();
    late.file().commit().await.unwrap();
    write(&late, 2).await;
    // One that has left by itself is told with the next call that sends.
    tokio::time::sleep(Duration::from_secs(1)).await;
    soon.file().commit().await.unwrap_err();
    test.volume.start_server(1).await;
    late.file().close().await.unwrap();
    let reader = open(&test.client().await, "/late", "for-1").await;
    assert_eq!(read(&reader).await, 2);
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_picked_up_and_replaced_while_a_client_runs() {
    let test = WithPlugins::start().await;
    let volume = test.client().await;
    let unknown = volume.policies().find("mine").unwrap_err().to_string();
    assert!(
        unknown.contains("seq-1, seq-2") && unknown.contains("no plug-ins in"),
        "{unknown}"
    );
    let refuses = |errno: i32| {
        format!(
            "static int pre_read(struct weft_call *call, void *handle, const struct weft_range *range) {{
                (void)handle; (void)range; call->core->because(call, \"not today\"); return -{errno}; }}"
        )
    };
    test.make("mine", &refuses(13), ".pre_read = pre_read");
    let first = open(&volume, "/f", "mine").await;
    write(&first, 1).await;
    let errno = async |view: &OpenView| {
        let error = view.read_at(ViewOffset(0), &mut [0; 9]).await.unwrap_err();
        assert!(error.to_string().contains("not today"), "{error}");
        error.errno()
    };
    assert_eq!(errno(&first).await, 13);
    test.make("mine", &refuses(28), ".pre_read = pre_read");
    let second = open(&volume, "/f", "mine").await;
    assert_eq!((errno(&first).await, errno(&second).await), (13, 28));
    assert_ne!(first.file().policy(), second.file().policy());
    // The running file takes the new one, or another.
    let mine = volume.policies().find("mine").unwrap();
    first.file().set_policy(mine).unwrap();
    assert_eq!(errno(&first).await, 28);
    first.file().set_policy(Policy::FOR_2).unwrap();
    assert_eq!(read(&first).await, 1);
    // A file says it by its name.
    let changes = weft_client::Changes {
        policy: Some(Some(mine)),
        ..weft_client::Changes::default()
    };
    volume.set_attributes("/f", &changes).await.unwrap();
    let said = volume.attach("/f", Access::read()).await.unwrap();
    assert_eq!(errno(&said.canonical().unwrap()).await, 28);
    // Who does not know it uses the strictest.
    let stranger = test.volume.client().await;
    let file = stranger.attach("/f", Access::read()).await.unwrap();
    assert_eq!(file.policy(), Some(Policy::POSIX));
    assert_eq!(read(&file.canonical().unwrap()).await, 1);
    // A handed-over file has it, too.
    let handed = test.client().await.adopt(&said.hand_over()).unwrap();
    assert_eq!(errno(&handed.canonical().unwrap()).await, 28);
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_panics_or_cannot_be_loaded_does_not_harm_its_client() {
    let test = WithPlugins::start().await;
    let folder = test.folder.path();
    let install = |name: &str, library: &Path| {
        let path = folder.join(format!("{name}.so"));
        fs::copy(library, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    install("panics", &build::built("panics"));
    let volume = test.client().await;
    let view = open(&volume, "/f", "panics").await;
    write(&view, 1).await;
    let error = view.read_at(ViewOffset(0), &mut [0; 9]).await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("read /f: the policy panics has failed in pre_read: it panicked"),
        "{said}"
    );
    let policy = volume.policies().find("panics").unwrap();
    let refused = Access::read_write().create(0o644).policy(policy);
    let refused = volume.attach("/refused", refused).await.err().unwrap();
    assert_eq!(refused.code(), Code::Invalid);
    fs::write(folder.join("text.so"), "no library").unwrap();
    assert!(volume.policies().find("text").is_err());
    // The list has the one that works, and says what is wrong with the other.
    let plugins = volume.policies().plugins();
    assert_eq!(plugins.iter().filter(|found| found.is_ok()).count(), 1);
    view.file().set_policy(None).unwrap();
    assert_eq!(read(&view).await, 1);
    view.file().close().await.unwrap();
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_built_in_policy_can_be_written_as_a_plugin() {
    let test = WithPlugins::start().await;
    let volume = test.client().await;
    for (n, policy) in Policy::all().enumerate() {
        let values = policy.values();
        let milliseconds = |time: Option<Duration>| time.map_or(0, |time| time.as_millis());
        let (names, believed, until_sync) = match values.names {
            Kept::None => ("WEFT_NAMES_NONE", 0, false),
            Kept::Coherent => ("WEFT_NAMES_COHERENT", 0, false),
            Kept::Own {
                believed,
                until_sync,
            } => ("WEFT_NAMES_OWN", milliseconds(believed), until_sync),
        };
        let members = format!(
            ".values.in_order = {}, .values.names = {names}, .values.until_sync = {},
             .values.written_once = {}, .values.believed_ms = {believed}, .values.delay_ms = {}",
            u8::from(values.in_order),
            u8::from(until_sync),
            u8::from(values.written_once),
            milliseconds(values.delay)
        );
        let name = format!("own{n}");
        test.make(&name, "", &members);
        let plugin = volume.policies().find(&name).unwrap();
        assert_eq!(plugin.values(), values, "{policy}");
        // It costs what the built-in one costs.
        let path = format!("/{n}");
        let cost = async |policy: &str| {
            let client = test.client().await;
            let view = open(&client, &path, policy).await;
            if !values.written_once {
                write(&view, 5).await;
            }
            let counted = [Kind::Read, Kind::ReadNames, Kind::Write, Kind::NameChunks];
            let (first, before) = (read(&view).await, calls(&client, &counted));
            assert_eq!((first, read(&view).await), (5, 5));
            calls(&client, &counted) - before
        };
        let view = open(&volume, &path, "for-1").await;
        write(&view, 5).await;
        view.file().close().await.unwrap();
        if values.written_once {
            let again = Access::read_write().policy(plugin);
            let refused = volume.attach(path.as_str(), again).await.err().unwrap();
            assert!(refused.to_string().contains("written before"), "{refused}");
            continue;
        }
        assert_eq!(cost(policy.name()).await, cost(&name).await, "{policy}");
    }
    test.volume.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_hear_of_every_operation_with_its_range() {
    let test = WithPlugins::start().await;
    let code = "
    #include <stdio.h>
    static FILE *log_file;
    #define NOTE(...) do { if (log_file) { fprintf(log_file, __VA_ARGS__); fflush(log_file); } } while (0)
    static int pre_open(struct weft_call *call, const struct weft_open *open, struct weft_policy_values *values, void **handle) {
        (void)call; (void)values; *handle = &log_file;
        log_file = fopen(LOG, \"a\");
        NOTE(\"open %s %u %u\\n\", open->path, open->writable, open->created);
        return 0;
    }
    static int on_file(const char *what, void *handle) { NOTE(\"%s %d\\n\", what, handle == &log_file); return 0; }
    static int post_open(struct weft_call *c, void *h) { (void)c; return on_file(\"opened\", h); }
    static int pre_close(struct weft_call *c, void *h) { (void)c; return on_file(\"close\", h); }
    static void post_close(void *h) { on_file(\"closed\", h); }
    static int pre_sync(struct weft_call *c, void *h) { (void)c; return on_file(\"sync\", h); }
    static int post_sync(struct weft_call *c, void *h) { (void)c; return on_file(\"synced\", h); }
    static int on_range(const char *what, const struct weft_range *r, long long bytes) {
        NOTE(\"%s %llu+%llu %u %lld\\n\", what, (unsigned long long)r->offset, (unsigned long long)r->bytes, r->canonical, bytes);
        return 0;
    }
    static int pre_read(struct weft_call *c, void *h, const struct weft_range *r) { (void)c; (void)h; return on_range(\"read\", r, 0); }
    static int post_read(struct weft_call *c, void *h, const struct weft_range *r, int64_t n) { (void)c; (void)h; return on_range(\"has read\", r, n); }
    static int pre_write(struct weft_call *c, void *h, const struct weft_range *r, uint64_t *delay) { (void)c; (void)h; *delay = 0; return on_range(\"write\", r, 0); }
    static int post_write(struct weft_call *c, void *h, const struct weft_range *r, int64_t n) { (void)c; (void)h; return on_range(\"has written\", r, n); }
    ";
    let log = test.folder.path().join("log");
    let code = code.replace("LOG", &format!("{:?}", log.to_str().unwrap()));
    test.make(
        "notes",
        &code,
        ".pre_open = pre_open, .post_open = post_open, .pre_close = pre_close, .post_close = post_close,
         .pre_sync = pre_sync, .post_sync = post_sync, .pre_read = pre_read, .post_read = post_read,
         .pre_write = pre_write, .post_write = post_write",
    );
    let volume = test.client().await;
    let view = open(&volume, "/f", "notes").await;
    view.write_at(ViewOffset(5), Bytes::from_static(b"abc"))
        .await
        .unwrap();
    let mut bytes = [0; 4];
    view.read_at(ViewOffset(6), &mut bytes).await.unwrap();
    view.file().sync().await.unwrap();
    view.write_at(ViewOffset(u64::MAX - 9), Bytes::from_static(b"abc"))
        .await
        .unwrap_err();
    let file: File = view.file().clone();
    drop(view);
    file.close().await.unwrap();
    file.close().await.unwrap();
    let noted = fs::read_to_string(&log).unwrap();
    let expected = "open /f 1 1
opened 1
write 5+3 1 0
has written 5+3 1 3
read 6+4 1 0
has read 6+4 1 2
sync 1
synced 1
close 1
closed 1
";
    assert_eq!(noted, expected);
    test.volume.stop().await;
}
