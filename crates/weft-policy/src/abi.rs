//! The structures of `weft_policy.h`.

use std::ffi::{c_char, c_int, c_void};

pub(crate) const NAMES_NONE: u32 = 0;
pub(crate) const NAMES_COHERENT: u32 = 1;
pub(crate) const NAMES_OWN: u32 = 2;

/// `struct weft_policy_values`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub(crate) size: u32,
    pub(crate) in_order: u32,
    pub(crate) names: u32,
    pub(crate) until_sync: u32,
    pub(crate) written_once: u32,
    pub(crate) reserved: u32,
    pub(crate) believed_ms: u64,
    pub(crate) delay_ms: u64,
}

/// `struct weft_open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Open {
    pub(crate) size: u32,
    pub(crate) writable: u32,
    pub(crate) created: u32,
    pub(crate) addressed: u32,
    pub(crate) file: u64,
    pub(crate) length: u64,
    pub(crate) chunk: u64,
    pub(crate) path: *const c_char,
}

/// `struct weft_range`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    pub(crate) size: u32,
    pub(crate) canonical: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// `struct weft_chunk`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Within its cell.
    pub number: u64,
    /// The cell.
    pub cell: u32,
    /// 1: it has no name, and reads as zeros.
    pub hole: u32,
    /// BLAKE3 of its bytes without the zeros at their end.
    pub name: [u8; 32],
}

/// `struct weft_call`: the client's own part follows the member that authors see.
#[repr(C)]
pub struct Call {
    pub(crate) core: *const Core,
}

/// `struct weft_core`.
#[repr(C)]
pub struct Core {
    pub(crate) size: u32,
    pub(crate) version: u32,
    pub(crate) hcache_get: unsafe extern "C" fn(*mut Call, u64, u64, *mut Chunk, *mut usize) -> i64,
    pub(crate) hcache_put: unsafe extern "C" fn(*mut Call, *const Chunk, usize) -> c_int,
    pub(crate) hcache_clear: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) hcache_clear_range: unsafe extern "C" fn(*mut Call, u64, u64) -> c_int,
    pub(crate) hcache_invalidate: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) hcache_fetch: unsafe extern "C" fn(*mut Call, u64, u64) -> c_int,
    pub(crate) dcache_get: unsafe extern "C" fn(*mut Call, *const u8, *mut c_void, usize) -> i64,
    pub(crate) dcache_put:
        unsafe extern "C" fn(*mut Call, *const u8, *const c_void, usize) -> c_int,
    pub(crate) commit: unsafe extern "C" fn(*mut Call) -> c_int,
    pub(crate) because: unsafe extern "C" fn(*mut Call, *const c_char) -> c_int,
}

pub(crate) type OnOpen =
    unsafe extern "C" fn(*mut Call, *const Open, *mut Values, *mut *mut c_void) -> c_int;
pub(crate) type OnFile = unsafe extern "C" fn(*mut Call, *mut c_void) -> c_int;
pub(crate) type OnRange = unsafe extern "C" fn(*mut Call, *mut c_void, *const Range) -> c_int;
pub(crate) type OnDone = unsafe extern "C" fn(*mut Call, *mut c_void, *const Range, i64) -> c_int;
pub(crate) type OnWrite =
    unsafe extern "C" fn(*mut Call, *mut c_void, *const Range, *mut u64) -> c_int;

/// `struct weft_policy`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Policy {
    pub(crate) size: u32,
    pub(crate) version: u32,
    pub(crate) name: *const c_char,
    pub(crate) summary: *const c_char,
    pub(crate) values: Values,
    pub(crate) pre_open: Option<OnOpen>,
    pub(crate) post_open: Option<OnFile>,
    pub(crate) pre_close: Option<OnFile>,
    pub(crate) post_close: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) pre_read: Option<OnRange>,
    pub(crate) post_read: Option<OnDone>,
    pub(crate) pre_write: Option<OnWrite>,
    pub(crate) post_write: Option<OnDone>,
    pub(crate) pre_sync: Option<OnFile>,
    pub(crate) post_sync: Option<OnFile>,
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::mem::offset_of;
    use std::process::Command;

    use super::{Call, Chunk, Core, Open, Policy, Range, Values};

    macro_rules! layout {
        ($rust:ty, $c:literal, $($member:ident)+) => {
            vec![(format!("sizeof(struct {})", $c), size_of::<$rust>()),
                $((format!("offsetof(struct {}, {})", $c, stringify!($member)), offset_of!($rust, $member)),)+]
        };
    }

    #[test]
    fn the_structures_lie_in_memory_as_the_header_says() {
        let all = [
            layout!(Values, "weft_policy_values", size in_order names until_sync written_once reserved believed_ms delay_ms),
            layout!(Open, "weft_open", size writable created addressed file length chunk path),
            layout!(Range, "weft_range", size canonical offset bytes start end),
            layout!(Chunk, "weft_chunk", number cell hole name),
            layout!(Call, "weft_call", core),
            layout!(Core, "weft_core", size version hcache_get hcache_put hcache_clear hcache_clear_range
                hcache_invalidate hcache_fetch dcache_get dcache_put commit because),
            layout!(Policy, "weft_policy", size version name summary values pre_open post_open pre_close post_close
                pre_read post_read pre_write post_write pre_sync post_sync),
        ]
        .concat();
        let mut source = "#include \"weft_policy.h\"\n".to_owned();
        for (n, (what, value)) in all.iter().enumerate() {
            writeln!(
                source,
                "typedef char check_{n}[{what} == {value} ? 1 : -1]; /* {what} */"
            )
            .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout.c");
        std::fs::write(&path, source).unwrap();
        for language in [["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++17"]] {
            let mut cc = Command::new("cc");
            cc.args(language).args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-fsyntax-only",
                "-I",
            ]);
            cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
                .arg(&path);
            let output = cc.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // A machine may have no compiler for C++.
            let absent = said.contains("cc1plus") || said.contains("libstdc++");
            assert!(
                output.status.success() || absent && language[1] == "c++",
                "{said}"
            );
        }
    }
}
