//! Layouts and views from the shell: attributes of files and directories, and files under
//! `.weft/views`.

mod mount_support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mount_support::{Mounted, sh, weft};
use rustix::fs::{SeekFrom, XattrFlags, getxattr, seek, setxattr};
use rustix::io::Errno;

fn layout(path: &Path) -> String {
    let mut value = [0; 256];
    let length = getxattr(path, "user.weft.layout", &mut value[..]).unwrap();
    String::from_utf8(value[..length].to_vec()).unwrap()
}

fn set(path: &Path, name: &str, value: &str) -> Result<(), Errno> {
    setxattr(path, name, value.as_bytes(), XattrFlags::empty())
}

#[test]
fn the_layout_of_an_empty_file_can_change_and_that_of_a_file_with_data_cannot() {
    let Some(m) = Mounted::new() else { return };
    let path = m.file("f");
    let lay_out = |text: &str| set(&path, "user.weft.layout", text);
    fs::write(&path, b"").unwrap();
    assert!(
        layout(&path).starts_with("cells=2 bsu=256KiB"),
        "{}",
        layout(&path)
    );
    lay_out("cells=5 bsu=1000").unwrap();
    assert!(
        layout(&path).starts_with("cells=5 bsu=1000"),
        "{}",
        layout(&path)
    );
    // Values that are not named stay; an empty layout means the volume's default.
    lay_out("bsu=4KiB").unwrap();
    assert!(
        layout(&path).starts_with("cells=5 bsu=4KiB"),
        "{}",
        layout(&path)
    );
    lay_out("").unwrap();
    assert!(
        layout(&path).starts_with("cells=2 bsu=256KiB"),
        "{}",
        layout(&path)
    );
    lay_out("cells=3 bsu=7").unwrap();
    assert_eq!(lay_out("bsu=0"), Err(Errno::INVAL));
    assert_eq!(lay_out("servers=9"), Err(Errno::INVAL));
    assert_eq!(lay_out("rows=1"), Err(Errno::INVAL));
    {
        let _open = fs::File::open(&path).unwrap();
        assert_eq!(lay_out("cells=1"), Err(Errno::BUSY));
    }
    for length in [1, 100_000_u32] {
        let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &data).unwrap();
        assert_eq!(lay_out("cells=1"), Err(Errno::NOTEMPTY));
        assert!(layout(&path).starts_with("cells=3 bsu=7 "));
        assert!(fs::read(&path).unwrap() == data);
        // The former place of the bytes does not matter once they are removed.
        fs::write(&path, b"").unwrap();
        lay_out("cells=4 bsu=5").unwrap();
        fs::write(&path, &data).unwrap();
        assert!(fs::read(&path).unwrap() == data);
        let other = m.further(&format!("other-{length}"), "");
        assert!(fs::read(other.join("f")).unwrap() == data);
        fs::write(&path, b"").unwrap();
        lay_out("cells=3 bsu=7").unwrap();
    }
    sh(
        &m.path,
        "mkfifo p; ! setfattr -n user.weft.layout -v cells=1 p 2>/dev/null",
    );
    sh(
        &m.path,
        "chmod 777 .; ! setpriv --reuid 1000 --regid 1000 --clear-groups setfattr -n user.weft.layout -v cells=1 f 2>/dev/null",
    );
}

#[test]
fn an_empty_file_open_in_another_mount_keeps_its_layout() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    fs::write(m.file("f"), b"").unwrap();
    let writer = fs::File::options()
        .write(true)
        .open(other.join("f"))
        .unwrap();
    assert_eq!(
        set(&m.file("f"), "user.weft.layout", "cells=1"),
        Err(Errno::BUSY)
    );
    writer.write_all_at(b"x", 0).unwrap();
    drop(writer);
    mount_support::wait_until("the file is closed and has data", || {
        set(&m.file("f"), "user.weft.layout", "cells=1") == Err(Errno::NOTEMPTY)
    });
}

#[test]
fn reserved_names_are_refused() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"x").unwrap();
    for name in ["user.weft.colour", "user.weft.process", "user.weft."] {
        assert_eq!(
            set(&m.file("f"), name, "1"),
            Err(Errno::OPNOTSUPP),
            "{name}"
        );
        assert_eq!(
            getxattr(m.file("f"), name, &mut [0; 9][..]),
            Err(Errno::NODATA),
            "{name}"
        );
    }
    for name in ["user.weftless", "user.weft.array"] {
        set(&m.file("f"), name, "1").unwrap();
    }
}

#[test]
fn a_view_can_be_read_in_default_row_and_column_order() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; setfattr -n user.weft.layout -v 'cells=4 bsu=3' d",
    );
    let data: Vec<u8> = (0..3 * 4 * 20_000_u32).map(|i| (i % 253) as u8).collect();
    fs::write(m.file("d/f"), &data).unwrap();
    let volume = m.volume.to_str().unwrap();
    let mut seen = Vec::new();
    for order in ["default", "row", "column"] {
        let view = m.file(&format!("d/.weft/views/f/subfile=2,2,2,2,1,{order}"));
        let through = fs::File::open(&view).unwrap();
        let mut bytes = vec![0; data.len() / 4];
        assert_eq!(
            through.read_at(&mut bytes, 0).unwrap(),
            bytes.len(),
            "one access"
        );
        // Tools that look for holes find one, at the end.
        let end = bytes.len() as u64;
        assert_eq!(seek(&through, SeekFrom::Data(7)), Ok(7));
        assert_eq!(seek(&through, SeekFrom::Hole(7)), Ok(end));
        assert_eq!(seek(&through, SeekFrom::Data(end)), Err(Errno::NXIO));
        let arguments = [
            "--volume",
            volume,
            "cat",
            "/d/f",
            "--subfile",
            "2,2,2,2,1",
            "--order",
            order,
        ];
        assert!(
            weft(&arguments).stdout == bytes,
            "{order} differs from `weft cat`"
        );
        seen.push(bytes);
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
    // An access is one call of the program: 24 bytes are two blocks of 2 by 2 units.
    let column = m.file("d/.weft/views/f/subfile=2,2,2,2,1,column");
    let (mut part, through) = (
        [0; 24],
        fs::File::options()
            .read(true)
            .write(true)
            .open(&column)
            .unwrap(),
    );
    through.read_exact_at(&mut part, 0).unwrap();
    let mut default = seen[0][..24].to_vec();
    let mut sorted = part.to_vec();
    default.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(
        sorted, default,
        "the access has the same bytes as in default order"
    );
    through.write_all_at(&part, 0).unwrap();
    drop(through);
    assert!(
        fs::read(m.file("d/f")).unwrap() == data,
        "writing the bytes back changes nothing"
    );
}
