use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use tempfile::TempDir;
use weft_policy::{Chunk, Core, Folder, Kept, NotFound, Open, Plugin, Touched};

#[path = "../common/mod.rs"]
mod common;

use common::{built, compile, compile_text, example};

/// A client that notes what it is asked for.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl Noted {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Core for Noted {
    fn hcache_get(&self, range: Range<u64>, most: usize) -> Result<(Vec<Chunk>, u64), Errno> {
        self.note(format!("get {range:?} {most}"));
        let chunk = |number| Chunk {
            number,
            cell: 7,
            hole: 0,
            name: [number as u8; 32],
        };
        Ok(((1..=3).map(chunk).take(most).collect(), 5))
    }

    fn hcache_put(&self, chunks: &[Chunk]) -> Result<(), Errno> {
        self.note(format!("put {} of {}", chunks[0].number, chunks.len()));
        Err(Errno::NOTSUP)
    }

    fn hcache_clear(&self, range: Option<Range<u64>>) -> Result<(), Errno> {
        self.note(format!("clear {range:?}"));
        Ok(())
    }

    fn hcache_invalidate(&self) {
        self.note("invalidate");
    }

    fn hcache_fetch(&self, range: Range<u64>) {
        self.note(format!("fetch {range:?}"));
    }

    fn dcache_get(&self, name: &[u8; 32], into: &mut [u8]) -> Result<usize, Errno> {
        into.copy_from_slice(&b"bytes of a chunk"[..into.len()]);
        if name[0] == 1 {
            Ok(16)
        } else {
            Err(Errno::NOENT)
        }
    }

    fn dcache_put(&self, name: &[u8; 32], bytes: &[u8]) -> Result<(), Errno> {
        self.note(format!("keep {} {bytes:?}", name[0]));
        Ok(())
    }

    fn commit(&self) {
        self.note("commit");
    }
}

const OPEN: Open<'_> = Open {
    path: "/f",
    file: 12,
    length: 1_000,
    chunk: 65_536,
    writable: true,
    created: false,
    addressed: true,
};

fn touched(offset: u64, bytes: u64) -> Touched {
    Touched {
        offset,
        bytes,
        canonical: Some(offset..offset + bytes),
    }
}

fn folder() -> (TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    (dir, folder)
}

fn refusal(folder: &Folder, name: &str) -> String {
    folder.find(name).unwrap_err().to_string()
}

fn install(dir: &Path, name: &str, library: &Path) {
    let path = dir.join(format!("{name}.so"));
    fs::copy(library, &path).unwrap();
    // A build may have set another mode.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A table whose first members are these.
fn table(name: &str, members: &str) -> String {
    format!(
        "static const struct weft_policy table = {{ .size = sizeof(struct weft_policy),
            .version = WEFT_POLICY_VERSION, .name = \"{name}\", .summary = \"none\",
            .values = {{ .size = sizeof(struct weft_policy_values) }}, {members} }};
        const struct weft_policy *weft_policy(void) {{ return &table; }}"
    )
}

#[test]
fn a_plugin_in_c_reaches_every_function_of_the_client() {
    let (dir, folder) = folder();
    let read = "static int pre_read(struct weft_call *call, void *handle, const struct weft_range *range) {
        const struct weft_core *core = call->core;
        struct weft_chunk chunks[2];
        size_t count = 2;
        char bytes[5];
        uint8_t name[32] = { 1 };
        if (core->size < sizeof *core || core->version != WEFT_POLICY_VERSION || handle != (void *)&core_of) return -5;
        if (range->size != sizeof *range || !range->canonical || range->end != range->start + range->bytes) return -6;
        if (core->hcache_get(call, range->start, range->bytes, chunks, &count) != 5 || count != 2) return -7;
        if (chunks[1].number != 2 || chunks[1].cell != 7 || chunks[1].name[31] != 2) return -8;
        if (core->hcache_put(call, chunks, 2) != -95) return -9;
        if (core->hcache_clear(call) || core->hcache_clear_range(call, 3, WEFT_TO_THE_END)) return -10;
        if (core->hcache_invalidate(call) || core->hcache_fetch(call, 0, 9) || core->commit(call)) return -11;
        if (core->dcache_get(call, name, bytes, 5) != 16 || bytes[4] != 's') return -12;
        name[0] = 2;
        if (core->dcache_get(call, name, bytes, 5) != -2) return -13;
        if (core->dcache_put(call, name, \"ab\", 2) || core->dcache_put(call, name, NULL, 2) != -22) return -14;
        core->because(call, \"all\\nis well\");
        return -42;
    }";
    let open = "static int core_of;
    static int pre_open(struct weft_call *call, const struct weft_open *open, struct weft_policy_values *values, void **handle) {
        (void)call;
        if (open->size != sizeof *open || open->file != 12 || open->length != 1000 || open->chunk != 65536) return -1;
        if (!open->writable || open->created || !open->addressed || open->path[1] != 'f') return -2;
        values->names = WEFT_NAMES_OWN;
        values->believed_ms = 250;
        *handle = (void *)&core_of;
        return 0;
    }";
    let table = table("whole", ".pre_open = pre_open, .pre_read = pre_read");
    compile_text(dir.path(), "whole", &format!("{open}\n{read}\n{table}"));
    let core = Noted::default();
    let plugin = folder.find("whole").unwrap();
    let (values, opened) = plugin.open(&core, &OPEN).unwrap();
    let believed = Some(Duration::from_millis(250));
    let own = Kept::Own {
        believed,
        until_sync: false,
    };
    assert_eq!(values.names, own);
    let failed = opened.pre_read(&core, &touched(40, 2)).unwrap_err();
    assert_eq!((failed.errno, failed.reason.as_str()), (42, "all is well"));
    assert_eq!(
        core.take(),
        [
            "get 40..42 2",
            "put 1 of 2",
            "clear None",
            "clear Some(3..18446744073709551615)",
            "invalidate",
            "fetch 0..9",
            "commit",
            "keep 2 [97, 98]",
        ]
    );
    opened.post_read(&core, &touched(0, 1), 1).unwrap();
    opened.pre_sync(&core).unwrap();
}

#[test]
fn the_session_example_fetches_names_and_commits_at_the_close() {
    let (dir, folder) = folder();
    compile(dir.path(), "afs", &example("session.c"));
    let plugin = folder.find("afs").unwrap();
    let core = Noted::default();
    let (values, opened) = plugin.open(&core, &OPEN).unwrap();
    assert!(values.delay.unwrap() >= Duration::from_mins(1) && !values.in_order);
    opened.post_open(&core).unwrap();
    let delay = opened.pre_write(&core, &touched(0, 9), values.delay);
    assert_eq!(delay.unwrap(), values.delay);
    opened.pre_close(&core).unwrap();
    assert_eq!(core.take(), ["fetch 0..18446744073709551615", "commit"]);
    // A plain file has no names.
    let plain = Open {
        addressed: false,
        ..OPEN
    };
    assert_eq!(plugin.open(&core, &plain).unwrap().0.names, Kept::None);
}

#[test]
fn the_batches_example_commits_every_64_writes() {
    let (dir, folder) = folder();
    install(dir.path(), "batches", &built("batches"));
    let core = Noted::default();
    let (values, opened) = folder.find("batches").unwrap().open(&core, &OPEN).unwrap();
    assert_eq!(
        (values.names, values.delay),
        (Kept::Coherent, Some(Duration::from_secs(1)))
    );
    for n in 1..=130 {
        opened.post_write(&core, &touched(n, 1), 1).unwrap();
        let due = n % 64 == 0;
        assert_eq!(core.take().len(), usize::from(due), "{n}");
    }
}

#[test]
fn a_panic_in_a_plugin_is_an_error_of_its_operation() {
    let (dir, folder) = folder();
    install(dir.path(), "panics", &built("panics"));
    let plugin = folder.find("panics").unwrap();
    let core = Noted::default();
    let (_, opened) = plugin.open(&core, &OPEN).unwrap();
    for _ in 0..3 {
        let failed = opened.pre_read(&core, &touched(0, 77)).unwrap_err();
        let said = failed.to_string();
        assert_eq!(
            said,
            "the policy panics has failed in pre_read: it panicked: 77 bytes are too many"
        );
        opened.pre_write(&core, &touched(0, 77), None).unwrap();
    }
    let refused = Open {
        path: "/refused",
        ..OPEN
    };
    let failed = plugin.open(&core, &refused).unwrap_err();
    assert!(failed.reason.contains("no file of this name"), "{failed}");
}

#[test]
fn what_is_no_plugin_of_this_version_is_refused_with_its_reason() {
    let (dir, folder) = folder();
    let d = dir.path();
    assert!(matches!(folder.find("absent"), Err(NotFound::Missing(_))));
    assert!(matches!(
        folder.find("../absent"),
        Err(NotFound::Missing(_))
    ));
    fs::write(d.join("text.so"), "no library").unwrap();
    assert!(refusal(&folder, "text").contains("no shared library"));
    compile_text(d, "empty", "int nothing;");
    assert!(refusal(&folder, "empty").contains("no function `weft_policy`"));
    compile_text(
        d,
        "null",
        "const struct weft_policy *weft_policy(void) { return NULL; }",
    );
    assert!(refusal(&folder, "null").contains("no table"));
    let newer = table("newer", "").replace("WEFT_POLICY_VERSION", "2");
    compile_text(d, "newer", &newer);
    let said = refusal(&folder, "newer");
    assert!(
        said.contains("version 2") && said.contains("of version 1"),
        "{said}"
    );
    let short = table("short", "").replace("= sizeof(struct weft_policy),", "= 16,");
    compile_text(d, "short", &short);
    assert!(refusal(&folder, "short").contains("16 bytes"));
    compile_text(d, "other", &table("another", ""));
    assert!(refusal(&folder, "other").contains("\"another\""));
    compile_text(d, "values", &table("values", ".values.names = 9"));
    assert!(refusal(&folder, "values").contains("names is 9"));
    compile_text(
        d,
        "missing",
        "int absent(void);\nconst struct weft_policy *weft_policy(void) { absent(); return NULL; }",
    );
    assert!(refusal(&folder, "missing").contains("absent"));
    assert_eq!(
        folder.names(),
        [
            "empty", "missing", "newer", "null", "other", "short", "text", "values"
        ]
    );
}

#[test]
fn a_plugin_that_others_could_have_changed_is_not_loaded() {
    let (dir, folder) = folder();
    compile_text(dir.path(), "open", &table("open", ""));
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let path = dir.path().join("open.so");
    set(&path, 0o777);
    assert!(refusal(&folder, "open").contains("chmod go-w"));
    set(&path, 0o755);
    set(dir.path(), 0o777);
    assert!(refusal(&folder, "open").contains("lets others change it"));
    set(dir.path(), 0o755);
    assert_eq!(folder.find("open").unwrap().name(), "open");
}

/// The number that a plug-in returns instead of reading.
fn number(plugin: &'static Plugin, opened: Option<&weft_policy::Opened>) -> i32 {
    let core = Noted::default();
    let fresh;
    let opened = if let Some(opened) = opened {
        opened
    } else {
        fresh = plugin.open(&core, &OPEN).unwrap().1;
        &fresh
    };
    opened.pre_read(&core, &touched(0, 1)).unwrap_err().errno
}

#[test]
fn a_replaced_plugin_serves_new_opens_and_the_old_one_those_that_it_has() {
    let (dir, folder) = folder();
    let text = |errno: u32| {
        let read = format!(
            "static int pre_read(struct weft_call *call, void *handle, const struct weft_range *range) {{
                (void)call; (void)handle; (void)range; return -{errno}; }}"
        );
        format!("{read}\n{}", table("number", ".pre_read = pre_read"))
    };
    compile_text(dir.path(), "number", &text(1));
    let first = folder.find("number").unwrap();
    assert!(
        std::ptr::eq(first, folder.find("number").unwrap()),
        "loaded once"
    );
    let core = Noted::default();
    let opened = first.open(&core, &OPEN).unwrap().1;
    compile_text(dir.path(), "number", &text(2));
    let second = folder.find("number").unwrap();
    assert_eq!((number(second, None), number(first, Some(&opened))), (2, 1));
    // Written over in place, even half of it: what runs does not change.
    let path = dir.path().join("number.so");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(refusal(&folder, "number").contains("still being copied"));
    assert_eq!((number(second, None), number(first, Some(&opened))), (2, 1));
}

#[test]
fn an_older_and_shorter_table_is_taken_as_far_as_it_goes() {
    let (dir, folder) = folder();
    let text = table("older", ".pre_sync = 0").replace(
        "= sizeof(struct weft_policy),",
        "= offsetof(struct weft_policy, pre_close),",
    );
    compile_text(dir.path(), "older", &text);
    let core = Noted::default();
    let (_, opened) = folder.find("older").unwrap().open(&core, &OPEN).unwrap();
    opened.pre_close(&core).unwrap();
    opened.post_sync(&core).unwrap();
}
