//! Writes the seeds of every family into folders, for libFuzzer:
//! `cargo run -p weft-fuzz --example corpus -- FOLDER`.

use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    let mut numbers: BTreeMap<&str, u8> = BTreeMap::new();
    for target in weft_fuzz::targets() {
        let number = numbers.entry(target.family).or_default();
        let family = folder.join(target.family);
        std::fs::create_dir_all(&family)?;
        for (n, seed) in target.seeds().into_iter().enumerate() {
            let name = format!("{}-{n}", target.name.replace(' ', "-"));
            std::fs::write(family.join(name), [&[*number][..], &seed].concat())?;
        }
        *number = number.wrapping_add(1);
    }
    Ok(())
}
