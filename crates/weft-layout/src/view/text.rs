//! Views as people write them: the numbers of the command line's options, and the one word that
//! names a view under a mount.

use crate::{CellIndex, Order, Partition, Subfile, View, size};

fn numbers<const N: usize>(text: &str, form: &str) -> Result<[u64; N], String> {
    let parts: Vec<&str> = text.split(',').collect();
    let parts: [&str; N] = parts.try_into().map_err(|_| {
        format!("`{text}` is not {form}: give {N} numbers with commas between them")
    })?;
    let mut out = [0; N];
    for (slot, part) in out.iter_mut().zip(parts) {
        *slot = size::parse(part)?;
    }
    Ok(out)
}

/// Vesta's five parameters: `Vbs,Vn,Hbs,Hn,INDEX`.
///
/// # Errors
/// What is wrong, in words.
pub fn subfile(text: &str) -> Result<Subfile, String> {
    let [vbs, vn, hbs, hn, index] = numbers(text, "Vbs,Vn,Hbs,Hn,INDEX")?;
    for (name, value) in [("Vbs", vbs), ("Vn", vn), ("Hbs", hbs), ("Hn", hn)] {
        if value == 0 {
            return Err(format!("{name} is 0: it must be at least 1"));
        }
    }
    // A product past 64 bits is larger than any index.
    if hn.checked_mul(vn).is_some_and(|count| index >= count) {
        return Err(format!(
            "there is no subfile {index}: {hn} across × {vn} down are numbered from 0 to {}",
            hn * vn - 1
        ));
    }
    Ok(Subfile {
        vbs,
        vn,
        hbs,
        hn,
        index,
        order: Order::Default,
    })
}

/// PVFS's three parameters: `OFFSET,GSIZE,STRIDE`.
///
/// # Errors
/// What is wrong, in words.
pub fn partition(text: &str) -> Result<Partition, String> {
    let [offset, group, stride] = numbers(text, "OFFSET,GSIZE,STRIDE")?;
    if group == 0 {
        return Err("GSIZE is 0: it must be at least 1".to_owned());
    }
    if stride < group {
        return Err(format!(
            "a group of {group} bytes every {stride} bytes overlaps itself: STRIDE must not be below GSIZE"
        ));
    }
    Ok(Partition {
        offset,
        group,
        stride,
    })
}

/// Checks a fork's name as the servers do.
///
/// # Errors
/// What is wrong, in words.
pub fn fork_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 255 || text.contains(['/', '\0']) {
        return Err("a fork's name is 1 to 255 bytes without slashes".to_owned());
    }
    Ok(text.to_owned())
}

/// A view and a fork in one word: `subfile=Vbs,Vn,Hbs,Hn,INDEX[,ORDER]`,
/// `partition=OFFSET,GSIZE,STRIDE` or `cell=I`, perhaps with `@FORK` behind it. ORDER is `default`,
/// `row` or `column`.
///
/// # Errors
/// What is wrong, in words.
pub fn view(text: &str) -> Result<(View, String), String> {
    let (what, fork) = match text.split_once('@') {
        Some((what, fork)) => (what, fork_name(fork)?),
        None => (text, "data".to_owned()),
    };
    let view = match what.split_once('=') {
        Some(("subfile", parameters)) => View::Subfile(ordered(parameters)?),
        Some(("partition", parameters)) => View::Partition(partition(parameters)?),
        Some(("cell", index)) => {
            let index = index.parse();
            View::Cell(CellIndex(
                index.map_err(|_| format!("`{what}` names no cell"))?,
            ))
        }
        _ => {
            return Err(format!(
                "`{text}` is no view: write subfile=Vbs,Vn,Hbs,Hn,INDEX, partition=OFFSET,GSIZE,STRIDE or cell=I"
            ));
        }
    };
    Ok((view, fork))
}

fn ordered(parameters: &str) -> Result<Subfile, String> {
    let (order, parameters) = match parameters.rsplit_once(',') {
        Some((rest, "default")) => (Order::Default, rest),
        Some((rest, "row")) => (Order::Row, rest),
        Some((rest, "column")) => (Order::Column, rest),
        _ => (Order::Default, parameters),
    };
    let mut subfile = subfile(parameters)?;
    subfile.order = order;
    Ok(subfile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_and_its_fork_are_parsed_from_one_word() {
        let expected = Subfile {
            vbs: 1,
            vn: 1,
            hbs: 1,
            hn: 4,
            index: 2,
            order: Order::Default,
        };
        let data = |view| Ok((view, "data".to_owned()));
        assert_eq!(view("subfile=1,1,1,4,2"), data(View::Subfile(expected)));
        let row = Subfile {
            order: Order::Row,
            ..expected
        };
        assert_eq!(view("subfile=1,1,1,4,2,row"), data(View::Subfile(row)));
        assert_eq!(
            view("cell=3@index"),
            Ok((View::Cell(CellIndex(3)), "index".to_owned()))
        );
        let expected = Partition {
            offset: 1024,
            group: 16,
            stride: 64,
        };
        assert_eq!(view("partition=1K,16,64"), data(View::Partition(expected)));
    }

    #[test]
    fn an_invalid_view_is_refused_with_a_reason() {
        for (text, word) in [
            ("subfile=1,2,3", "5 numbers"),
            ("subfile=1,1,1,4,2,sideways", "5 numbers"),
            ("subfile=1,2,1,2,4", "no subfile 4"),
            ("partition=0,4,3", "overlaps"),
            ("cell=x", "no cell"),
            ("cell=1@", "fork"),
            ("row=1", "no view"),
            ("", "no view"),
        ] {
            let error = view(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
