//! Transfers through views: exports and imports equal a computation that shares only Vesta's
//! formula with the code.

mod files_support;

use std::fs;
use std::process::Stdio;

use files_support::{Volume, bytes};

const BSU: usize = 1000;
const CELLS: usize = 6;
const ROWS: usize = 240;
/// Vbs, Vn, Hbs, Hn: six cells are two blocks across, without ghosts.
const VIEW: [usize; 4] = [2, 3, 3, 1];

/// The file, in canonical order.
fn grid() -> Vec<u8> {
    bytes(7, BSU * CELLS * ROWS)
}

/// Each subfile's bytes: BSU by BSU to where the formula of Vesta §3.2 puts it.
fn subfiles(grid: &[u8], [vbs, vn, hbs, hn]: [usize; 4]) -> Vec<Vec<u8>> {
    let mut subfiles = vec![vec![0; grid.len() / (vn * hn)]; vn * hn];
    for row in 0..ROWS {
        for cell in 0..CELLS {
            let (s, t) = (cell % (hbs * hn) / hbs, row % (vbs * vn) / vbs);
            let block = row / (vbs * vn) * (CELLS / (hbs * hn)) + cell / (hbs * hn);
            let place = block * vbs * hbs + cell % hbs * vbs + row % vbs;
            let from = (row * CELLS + cell) * BSU;
            subfiles[s + t * hn][place * BSU..][..BSU].copy_from_slice(&grid[from..][..BSU]);
        }
    }
    subfiles
}

fn option(view: [usize; 4], index: usize) -> String {
    let [vbs, vn, hbs, hn] = view;
    format!("--subfile {vbs},{vn},{hbs},{hn},{index}")
}

#[test]
fn exported_subfiles_equal_the_formula_and_importing_them_restores_the_file() {
    let volume = Volume::up();
    let grid = grid();
    volume.feed("put /grid --cells 6 --bsu 1000", &grid);
    for view in [VIEW, [1, 1, 1, 6], [4, 2, 1, 3], [1, 4, 6, 1]] {
        let expected = subfiles(&grid, view);
        let name = |index: usize| volume.path(format!("sub-{index}"));
        for (index, bytes) in expected.iter().enumerate() {
            let (option, to) = (option(view, index), name(index));
            volume.text(&format!("export /grid {} {option} --force", to.display()));
            assert!(fs::read(&to).unwrap() == *bytes, "{view:?} {index}");
        }
        // All imports at once, into a file that the first of them creates. Where cells are shared,
        // each view extends as far as the others have written.
        let children: Vec<_> = (0..expected.len())
            .map(|index| {
                let (option, from) = (option(view, index), name(index));
                let line = format!(
                    "import {} /again {option} --cells 6 --bsu 1000 --force --verify",
                    from.display()
                );
                let mut command = volume.command(line.split_whitespace());
                command.stdin(Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "{view:?}");
        }
        assert!(volume.run(["cat", "/again"]) == grid, "{view:?}");
        volume.text("rm /again");
    }
}

#[test]
fn a_view_is_exported_and_imported_in_parts_from_an_offset() {
    let volume = Volume::up();
    // Large enough for several pieces.
    let data = bytes(9, 13_000_000);
    let source = volume.path("source");
    fs::write(&source, &data).unwrap();
    let line = |i: u32| {
        format!(
            "import {} /grid --cell 1 --offset 12345 --part {i}/3 --cells 3 --bsu 512",
            source.display()
        )
    };
    for i in [3, 1, 2] {
        volume.text(&line(i));
    }
    let cell = volume.run(["cat", "/grid", "--cell", "1"]);
    assert_eq!(cell.len(), 12_345 + data.len());
    assert!(cell[..12_345].iter().all(|b| *b == 0) && cell[12_345..] == data);
    let refused = volume.fails(&line(1), 1);
    assert!(refused.contains("holds data"), "{refused}");

    // Eight bytes of every 24 from the fifth on.
    let copy = volume.path("copy");
    for i in [2, 1] {
        let to = copy.display();
        volume.text(&format!(
            "export /grid {to} --partition 5,8,24 --offset 3 --part {i}/2"
        ));
    }
    let whole = volume.run(["cat", "/grid"]);
    let visible = whole.iter().enumerate().skip(5);
    let visible = visible.filter(|(f, _)| (f - 5) % 24 < 8).map(|(_, b)| *b);
    let expected: Vec<u8> = visible.skip(3).collect();
    assert!(fs::read(&copy).unwrap() == expected);
}

#[test]
fn column_order_is_one_access_and_round_trips() {
    let volume = Volume::up();
    let grid = grid();
    volume.feed("put /grid --cells 6 --bsu 1000", &grid);
    let copy = volume.path("columns");
    let view = "--subfile 1,1,6,1,0 --order column";
    volume.text(&format!("export /grid {} {view}", copy.display()));
    let cells = (0..CELLS).flat_map(|cell| (0..ROWS).map(move |row| (row * CELLS + cell) * BSU));
    let expected: Vec<u8> = cells.flat_map(|at| grid[at..at + BSU].to_vec()).collect();
    assert!(fs::read(&copy).unwrap() == expected);
    volume.text(&format!(
        "import {} /again {view} --cells 6 --bsu 1000 --verify",
        copy.display()
    ));
    assert!(volume.run(["cat", "/again"]) == grid);
    let refused = volume.fails(
        &format!("export /grid {}.2 {view} --part 1/2", copy.display()),
        1,
    );
    assert!(refused.contains("cannot be used with --part"), "{refused}");
}

#[test]
fn bytes_on_ghosts_are_reported_and_not_counted() {
    let volume = Volume::up();
    // Two cells, and a subfile of four: every second BSU of the row falls on a ghost.
    let source = volume.path("source");
    let data = bytes(11, 8 * 1000);
    fs::write(&source, &data).unwrap();
    let line = |more: &str| {
        format!(
            "import {} /grid --cells 2 --bsu 1000 --subfile 1,1,4,1,0 --order row --json{more}",
            source.display()
        )
    };
    let output = volume.command(line("").split_whitespace()).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("4000 bytes of ") && said.contains("ghosts"),
        "{said}"
    );
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["written"], 4000, "{summary}");
    assert_eq!(
        (&summary["ghosts"], &summary["copied"]),
        (&4000.into(), &8000.into())
    );
    let refused = volume.fails(&line(" --force --verify"), 1);
    assert!(refused.contains("falls on a ghost"), "{refused}");
    assert!(!refused.contains("--resume"), "{refused}");
}

#[test]
fn a_hole_at_the_end_counts_in_a_view_as_well() {
    let volume = Volume::up();
    let source = volume.path("hole");
    fs::File::create(&source).unwrap().set_len(700_000).unwrap();
    volume.text(&format!(
        "import {} /grid --cell 2 --cells 3",
        source.display()
    ));
    assert_eq!(volume.run(["cat", "/grid", "--cell", "2"]).len(), 700_000);
    assert!(volume.run(["cat", "/grid", "--cell", "1"]).is_empty());
}
