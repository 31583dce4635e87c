//! Names the shared library as the linker's users expect: a program is bound to the interface's
//! version, not to the file that it was linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft.so.0");
}
