//! A picture of a grid for the terminal: a bar for each cell, the servers below.

use std::fmt::Write;

/// One cell of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The server that holds it.
    pub(crate) server: u32,
    /// Bytes of its `data` fork.
    pub(crate) length: u64,
}

/// How the picture is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// Lines of a bar.
    pub(crate) height: usize,
    /// Only characters of ASCII.
    pub(crate) ascii: bool,
}

/// Characters left of the bars.
const MARGIN: usize = 11;
/// Cells are drawn side by side while each has this many characters.
const COLUMN_MIN: usize = 2;
/// No bar is wider, with its gap.
const COLUMN_MAX: usize = 12;

/// A bar: a cell, or several cells in a row.
struct Bar {
    first: usize,
    last: usize,
    /// Mean of the cells, so that bars of several cells compare with each other.
    length: u64,
    server: Option<u32>,
}

/// Draws the grid; the text ends without a line break.
pub(crate) fn draw(cells: &[Cell], style: Style) -> String {
    let width = style.width.saturating_sub(MARGIN).max(COLUMN_MIN);
    let together = cells.len().div_ceil(width / COLUMN_MIN).max(1);
    let bars: Vec<Bar> = bars(cells, together);
    let column = (width / bars.len().max(1)).clamp(COLUMN_MIN, COLUMN_MAX);
    let longest = bars.iter().map(|b| b.length).max().unwrap_or(0);
    let mut text = String::new();
    for line in (0..style.height).rev() {
        let mark = if line + 1 == style.height {
            crate::terminal::output::bytes(longest)
        } else {
            String::new()
        };
        let edge = if style.ascii { '|' } else { '│' };
        write!(text, "{mark:>9} {edge}").expect("a string takes all");
        for bar in &bars {
            let fill = fill(bar.length, longest, line, style);
            let wide = column - 1;
            text.extend(std::iter::repeat_n(fill, wide));
            text.push(' ');
        }
        end_line(&mut text);
    }
    let (corner, line) = if style.ascii {
        ('+', '-')
    } else {
        ('└', '─')
    };
    write!(text, "{:>9} {corner}", "0").expect("a string takes all");
    text.extend(std::iter::repeat_n(line, bars.len() * column));
    text.push('\n');
    let label = |bar: &Bar| {
        if bar.first == bar.last {
            bar.first.to_string()
        } else {
            format!("{}-{}", bar.first, bar.last)
        }
    };
    labels(
        &mut text,
        "cell",
        column,
        style.width,
        bars.iter().map(label),
    );
    if together == 1 {
        let server = |bar: &Bar| bar.server.map_or(String::new(), |s| format!("s{s}"));
        labels(
            &mut text,
            "server",
            column,
            style.width,
            bars.iter().map(server),
        );
        let length = |bar: &Bar| short(bar.length);
        labels(
            &mut text,
            "length",
            column,
            style.width,
            bars.iter().map(length),
        );
    }
    text.truncate(text.trim_end().len());
    text
}

fn bars(cells: &[Cell], together: usize) -> Vec<Bar> {
    let bar = |(i, group): (usize, &[Cell])| {
        let sum: u128 = group.iter().map(|c| u128::from(c.length)).sum();
        Bar {
            first: i * together,
            last: i * together + group.len() - 1,
            length: (sum / group.len() as u128) as u64,
            server: (group.len() == 1).then(|| group[0].server),
        }
    };
    cells.chunks(together).enumerate().map(bar).collect()
}

/// The character of a bar on one line, counted from below.
fn fill(length: u64, longest: u64, line: usize, style: Style) -> char {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let steps = if style.ascii { 1 } else { 8 };
    let all = style.height as u128 * steps;
    let filled = (u128::from(length) * all).div_ceil(u128::from(longest.max(1)));
    let here = filled.saturating_sub(line as u128 * steps).min(steps) as usize;
    if style.ascii {
        [' ', '#'][here]
    } else {
        EIGHTHS[here]
    }
}

/// A line of labels below the bars; those that would run into the one before or past the width are
/// left out.
fn labels(
    text: &mut String,
    what: &str,
    column: usize,
    width: usize,
    each: impl Iterator<Item = String>,
) {
    let start = text.chars().count();
    write!(text, "{what:>9}  ").expect("a string takes all");
    for (i, label) in each.enumerate() {
        let wanted = MARGIN + i * column;
        let at = text.chars().count() - start;
        // One blank between labels at least.
        if (i == 0 || at < wanted) && wanted + label.chars().count() <= width {
            text.extend(std::iter::repeat_n(' ', wanted - at));
            text.push_str(&label);
        }
    }
    end_line(text);
}

fn end_line(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

/// A length in few characters: `0`, `17`, `4.0K`, `12M`.
fn short(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = " KMGTPE".chars();
    let mut unit = units.next().unwrap_or(' ');
    while value >= 1000.0
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    match unit {
        ' ' => bytes.to_string(),
        _ if value < 9.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(lengths: &[u64], servers: u32) -> Vec<Cell> {
        let cell = |(length, i): (&u64, u32)| Cell {
            server: 1 + i % servers,
            length: *length,
        };
        lengths.iter().zip(0..).map(cell).collect()
    }

    const ASCII: Style = Style {
        width: 40,
        height: 4,
        ascii: true,
    };

    #[test]
    fn bars_are_as_high_as_cells_are_long() {
        let picture = draw(&cells(&[4096, 2048, 1, 0], 2), ASCII);
        let expected = [
            "  4.0 KiB |######",
            "          |######",
            "          |###### ######",
            "          |###### ###### ######",
            "        0 +----------------------------",
            "     cell  0      1      2      3",
            "   server  s1     s2     s1     s2",
            "   length  4.0K   2.0K   1      0",
        ];
        assert_eq!(picture.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_partly_filled_line_is_drawn_in_eighths() {
        let style = Style {
            ascii: false,
            height: 1,
            width: 20,
        };
        let picture = draw(&cells(&[8, 4, 1, 0], 1), style);
        assert_eq!(picture.lines().next().unwrap(), "      8 B │█ ▄ ▁");
    }

    #[test]
    fn wide_files_are_summarized_to_the_width() {
        for count in [1, 5, 14, 15, 100, 65_536] {
            let picture = draw(&cells(&vec![7; count], 3), ASCII);
            assert!(
                picture.lines().all(|l| l.chars().count() <= 40),
                "{picture}"
            );
            assert!(picture.contains(" 0"), "{picture}");
        }
        let wide = draw(&cells(&[1; 1000], 4), ASCII);
        assert!(wide.contains("0-71"), "{wide}");
    }

    #[test]
    fn an_empty_file_has_an_empty_picture() {
        assert!(draw(&cells(&[0, 0], 2), ASCII).contains("0 B |"));
        assert!(!draw(&cells(&[0, 0], 2), ASCII).contains('#'));
    }

    #[test]
    fn lengths_are_printed_in_a_short_form() {
        let all = [0, 999, 1000, 4096, 10_190, 1 << 20, u64::MAX].map(short);
        assert_eq!(all, ["0", "999", "1.0K", "4.0K", "10K", "1.0M", "16E"]);
    }
}
