//! A mount exported by nfs-ganesha, as `docs/operating.md` describes, and a client of NFS that
//! works on it, in network and mount namespaces of their own.

mod mount_support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use mount_support::Mounted;

fn is_here(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .output();
    found.is_ok_and(|output| output.status.success())
}

#[test]
fn a_client_of_nfs_works_on_an_exported_mount() {
    let Some(m) = Mounted::with_options("allow_other") else {
        return;
    };
    let tools = ["ganesha.nfsd", "rpcbind", "unshare", "ip", "cc"];
    let missing: Vec<_> = tools.into_iter().filter(|tool| !is_here(tool)).collect();
    let library = Path::new("/usr/include/nfsc/libnfs.h").exists();
    if !missing.is_empty() || !library || !rustix::process::geteuid().is_root() {
        eprintln!(
            "SKIPPED: NFS needs root, libnfs-dev, and of {tools:?} these are missing: {missing:?}"
        );
        return;
    }
    let folder = m.beside("nfs");
    let program = folder.join("nfs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/nfs.c");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
        .arg(source)
        .args(["-lnfs", "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let mut sparse = fs::File::create(m.file("sparse")).unwrap();
    sparse.set_len(5 << 30).unwrap();
    std::io::Seek::seek(&mut sparse, std::io::SeekFrom::End(0)).unwrap();
    sparse.write_all(b"end\n").unwrap();
    drop(sparse);

    let mount = m.path.to_str().unwrap();
    let configuration = format!(
        "NFS_CORE_PARAM {{ Protocols = 3, 4; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = {folder}; }}\n\
         EXPORT {{ Export_Id = 1; Path = {mount}; Pseudo = /weft; Access_Type = RW; Squash = None; \
         SecType = sys; Filesystem_Id = 1.1; FSAL {{ Name = VFS; }} }}\n",
        folder = folder.display(),
    );
    fs::write(folder.join("ganesha.conf"), configuration).unwrap();
    let script = format!(
        "ip link set lo up && mount -t tmpfs tmpfs /run && cd {} || exit 1
         rpcbind -w -f & rpcbind=$!
         sleep 1
         ganesha.nfsd -F -f ganesha.conf -L ganesha.log -p ganesha.pid & ganesha=$!
         for try in $(seq 100); do
             grep -q 'NFS SERVER INITIALIZED' ganesha.log 2>/dev/null && break
             sleep 0.2
         done
         timeout 120 ./nfs nfs://127.0.0.1{mount}; ended=$?
         kill $ganesha $rpcbind; wait $ganesha $rpcbind
         [ $ended = 0 ] || tail -20 ganesha.log
         exit $ended",
        folder.display()
    );
    let output = Command::new("unshare")
        .args(["--net", "--mount", "bash", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("all calls of NFS did what they should"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // What came by NFS is there on the mount.
    assert_eq!(fs::read_dir(m.file("many")).unwrap().count(), 3000);
}
