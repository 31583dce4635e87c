//! Data through every kind of view, compared with a model that numbers BSUs as Vesta §3.2 does.

mod files_support;

use files_support::{Volume, bytes};

const CELLS: u64 = 5;
const BSU: u64 = 7;

/// Vesta's five parameters.
#[derive(Clone, Copy)]
struct Subfile {
    vbs: u64,
    vn: u64,
    hbs: u64,
    hn: u64,
    index: u64,
}

/// The offset in the subfile of every byte of the file, if it has one.
#[expect(
    clippy::many_single_char_names,
    reason = "the letters of Vesta's formulas"
)]
fn places(size: u64, f: Subfile) -> impl Iterator<Item = (u64, Option<u64>)> {
    let group = f.hbs * f.hn;
    let width = CELLS.div_ceil(group) * group;
    (0..size).map(move |x| {
        let (bsu, rest) = (x / BSU, x % BSU);
        let (i, j) = (bsu % CELLS, bsu / CELLS);
        let s = (i % group) / f.hbs;
        let t = (j % (f.vbs * f.vn)) / f.vbs;
        let block = (j / (f.vbs * f.vn)) * (width / group) + i / group;
        let number = block * f.vbs * f.hbs + (i % f.hbs) * f.vbs + j % f.vbs;
        (x, (s + t * f.hn == f.index).then_some(number * BSU + rest))
    })
}

/// The expected output of a subfile: zeros where it has no data, up to its last byte.
fn expected(file: &[u8], f: Subfile) -> Vec<u8> {
    let mut out = Vec::new();
    for (x, place) in places(file.len() as u64, f) {
        if let Some(place) = place {
            let place = place as usize;
            if out.len() <= place {
                out.resize(place + 1, 0);
            }
            out[place] = file[x as usize];
        }
    }
    out
}

fn option(f: Subfile) -> String {
    format!(
        "--subfile {},{},{},{},{}",
        f.vbs, f.vn, f.hbs, f.hn, f.index
    )
}

#[test]
fn subfiles_equal_the_model_and_together_restore_the_file() {
    let volume = Volume::up();
    let file = bytes(1, 1003);
    volume.feed("put /a --cells 5 --bsu 7", &file);
    for (n, (vbs, vn, hbs, hn)) in [
        (1, 1, 1, 5),
        (2, 3, 1, 1),
        (1, 2, 2, 2),
        (3, 1, 2, 3),
        (1, 1, 5, 1),
    ]
    .into_iter()
    .enumerate()
    {
        volume.text(&format!("create /b{n} --cells 5 --bsu 7"));
        for index in 0..vn * hn {
            let f = Subfile {
                vbs,
                vn,
                hbs,
                hn,
                index,
            };
            let printed = volume.run(format!("cat /a {}", option(f)).split_whitespace());
            assert!(printed == expected(&file, f), "{}", option(f));
            volume.feed(&format!("put /b{n} {}", option(f)), &printed);
        }
        // Bytes without data were printed as zeros, and are written as zeros.
        let restored = volume.run(["cat", &format!("/b{n}")]);
        assert!(restored.starts_with(&file));
        assert!(restored[file.len()..].iter().all(|b| *b == 0));
    }
}

#[test]
fn partitions_cells_and_ranges_read_and_write_only_their_bytes() {
    let volume = Volume::up();
    let mut file = bytes(2, 5000);
    volume.feed("put /a --cells 5 --bsu 7", &file);
    let seen: Vec<u8> = (0..5000)
        .filter(|x| *x >= 3 && (x - 3) % 64 < 8)
        .map(|x| file[x])
        .collect();
    assert_eq!(volume.run("cat /a --partition 3,8,64".split(' ')), seen);
    let cell: Vec<u8> = (0..5000)
        .filter(|x| x / 7 % 5 == 2)
        .map(|x| file[x])
        .collect();
    assert_eq!(volume.run("cat /a --cell 2".split(' ')), cell);
    assert_eq!(
        volume.run("cat /a --offset 10 --length 20".split(' ')),
        &file[10..30]
    );
    assert_eq!(
        volume.run("cat /a --offset 4990 --length 20".split(' ')),
        &file[4990..]
    );
    assert_eq!(volume.run("cat /a --offset 6000".split(' ')), b"");

    volume.feed("put /a --partition 3,8,64 --offset 8", b"PARTITION");
    for (i, b) in b"PARTITION".iter().enumerate() {
        let p = 8 + i;
        file[3 + p / 8 * 64 + p % 8] = *b;
    }
    volume.feed("put /a --offset 100 --length 4", b"1234567");
    file[100..104].copy_from_slice(b"1234");
    assert_eq!(volume.run(["cat", "/a"]), file);

    // Without a view the content is replaced, with --truncate it goes first.
    volume.feed("put /a --cell 1 --truncate", b"x");
    assert_eq!(volume.run(["cat", "/a"]), b"\0\0\0\0\0\0\0x");
    volume.feed("put /a", b"short");
    assert_eq!(volume.run(["cat", "/a"]), b"short");
}

#[test]
fn orders_by_row_and_by_column_rearrange_one_access() {
    let volume = Volume::up();
    volume.feed("put /m --cells 4 --bsu 1", b"abcdefghijklmnop");
    // Each column of the matrix is a cell; a block of two rows and four cells.
    let view = "--subfile 2,1,4,1,0";
    assert_eq!(volume.text(&format!("cat /m {view}")), "aebfcgdhimjnkolp");
    assert_eq!(
        volume.text(&format!("cat /m {view} --order default")),
        "aebfcgdhimjnkolp"
    );
    assert_eq!(
        volume.text(&format!("cat /m {view} --order row")),
        "abcdefghijklmnop"
    );
    assert_eq!(
        volume.text(&format!("cat /m {view} --order column")),
        "aeimbfjncgkodhlp"
    );
    assert_eq!(
        volume.text(&format!("cat /m {view} --order column --length 8")),
        "aebfcgdh"
    );
    volume.text("create /n --cells 4 --bsu 1");
    volume.feed(
        &format!("put /n {view} --order column"),
        b"aeimbfjncgkodhlp",
    );
    assert_eq!(volume.text("cat /n"), "abcdefghijklmnop");
    let error = volume.fails("cat /m --order row", 2);
    assert!(error.contains("--subfile"), "{error}");
}

#[test]
fn forks_grow_independently() {
    let volume = Volume::up();
    volume.feed("put /a --cells 2 --bsu 4", b"datadata");
    volume.text("fork create /a index");
    volume.feed("put /a --fork index --cell 1", b"an index");
    assert_eq!(volume.text("cat /a --fork index --cell 1"), "an index");
    assert_eq!(volume.text("cat /a"), "datadata");
    // A cell may lack the fork; a name that no cell has is refused as misspelt.
    for line in ["cat /a --fork indx", "read /a 4 --fork indx"] {
        let error = volume.fails(line, 1);
        assert!(
            error.contains("no cell of /a has a fork \"indx\""),
            "{error}"
        );
    }
    let forks = volume.json("fork ls /a --json");
    let lengths: Vec<_> = forks
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["length"].as_u64())
        .collect();
    assert_eq!(lengths, [Some(4), Some(0), Some(4), Some(8)]);
    volume.text("fork rm /a index --cell 0");
    assert_eq!(
        volume.json("fork ls /a --json").as_array().unwrap().len(),
        3
    );
    assert!(volume.fails("fork rm /a data", 1).contains("truncate"));
}

#[test]
fn a_stream_of_many_requests_arrives_completely() {
    let volume = Volume::up();
    let file = bytes(3, (37 << 20) + 11);
    volume.feed("put /big --bsu 64K", &file);
    assert!(volume.run(["cat", "/big"]) == file);
    // Holes beyond the ends of shorter cells, between requests.
    volume.feed("put /holes --cells 3 --bsu 1M --offset 20M", b"end");
    let mut expected = vec![0; 20 << 20];
    expected.extend_from_slice(b"end");
    assert!(volume.run(["cat", "/holes"]) == expected);
}

#[test]
fn explain_reports_the_cost_of_a_call() {
    let volume = Volume::up();
    volume.feed("put /a --cells 6 --bsu 64K", &vec![1; 1 << 20]);
    let plan = volume.json("explain /a --json");
    assert_eq!(
        (&plan["requests"], &plan["pieces"]),
        (&3.into(), &16.into())
    );
    assert_eq!(plan["bytes"], 1 << 20);
    let parts = plan["servers"].as_array().unwrap();
    assert!(
        parts
            .iter()
            .all(|p| p["cells"].as_array().unwrap().len() == 2)
    );
    assert!(
        parts
            .iter()
            .all(|p| p["address"].as_str().unwrap().contains(':'))
    );
    let text = volume.text("explain /a --length 128K");
    assert!(
        text.ends_with("2 requests to 2 servers, 4 messages, 2 pieces, 128.0 KiB\n"),
        "{text}"
    );
    let ghosts = volume.text("explain /a --subfile 1,1,4,2,1 --length 256K");
    assert!(ghosts.contains("cells 6 to 7 are ghosts"), "{ghosts}");
    assert!(
        ghosts.contains("128.0 KiB of this request are discarded"),
        "{ghosts}"
    );
    let all = volume.json("explain /a --cell 0 --json");
    assert_eq!((&all["requests"], &all["pieces"]), (&1.into(), &1.into()));
    let pattern = volume.json("explain /a 64/256x1024 --offset 64 --json");
    let said = [
        &pattern["requests"],
        &pattern["pieces"],
        &pattern["bytes"],
        &pattern["offset"],
    ];
    assert_eq!(
        said.map(serde_json::Value::as_u64),
        [3, 1024, 65_536, 64].map(Some)
    );
}
