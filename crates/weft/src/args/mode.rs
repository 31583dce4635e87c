//! Permission bits as chmod takes them: octal, or symbolic such as `u+rwx,g-w,a=rX`.

/// A change of permission bits, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChange(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Octal(u32),
    Symbolic(Vec<Clause>),
}

/// One clause of classes, operator and permissions. A word such as `u+r-w` holds two.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    /// Bits of the named classes: `0o700` for `u`, and so on.
    mask: u32,
    /// No class was named, so the umask applies.
    masked: bool,
    op: char,
    perms: String,
}

/// Permission bits in octal, for new files.
pub(crate) fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(mode),
        _ => Err(format!(
            "`{text}` is not a mode: write up to four octal digits, like 0644"
        )),
    }
}

/// The process's mask for new files.
pub(crate) fn umask() -> u32 {
    // The mask can only be read by setting it; meanwhile no thread of this process creates a file
    // without setting its mode.
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask.as_raw_mode() & 0o777
}

/// Reads a mode as chmod does.
pub(crate) fn parse(text: &str) -> Result<ModeChange, String> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return octal(text).map(|mode| ModeChange(Kind::Octal(mode)));
    }
    let wrong = || {
        format!(
            "`{text}` is not a mode: write octal digits like 0755, or clauses like u+rwx,g-w,a=rX \
             (classes ugoa, operators + - =, rights rwxXst or one of ugo)"
        )
    };
    let mut clauses = Vec::new();
    for word in text.split(',') {
        let start = word.find(['+', '-', '=']).ok_or_else(wrong)?;
        let (who, mut rest) = word.split_at(start);
        let mut mask = 0;
        for class in who.chars() {
            mask |= class_bits(class).ok_or_else(wrong)?;
        }
        let masked = who.is_empty();
        let mask = if masked { 0o777 } else { mask };
        while let Some(op) = rest.chars().next() {
            rest = &rest[1..];
            let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
            let (perms, later) = rest.split_at(end);
            let copies = perms.len() == 1 && "ugo".contains(perms);
            if !copies && !perms.chars().all(|c| "rwxXst".contains(c)) {
                return Err(wrong());
            }
            clauses.push(Clause {
                mask,
                masked,
                op,
                perms: perms.to_owned(),
            });
            rest = later;
        }
    }
    Ok(ModeChange(Kind::Symbolic(clauses)))
}

fn class_bits(class: char) -> Option<u32> {
    match class {
        'u' => Some(0o700),
        'g' => Some(0o070),
        'o' => Some(0o007),
        'a' => Some(0o777),
        _ => None,
    }
}

impl ModeChange {
    /// The permission bits that a file with `mode` gets.
    pub(crate) fn apply(&self, mode: u32, directory: bool, umask: u32) -> u32 {
        match &self.0 {
            // As chmod: a directory keeps set-id bits that an octal mode of up to three digits does
            // not name.
            Kind::Octal(new) if directory => new | (mode & 0o6000),
            Kind::Octal(new) => *new,
            Kind::Symbolic(clauses) => clauses
                .iter()
                .fold(mode, |mode, clause| clause.apply(mode, directory, umask)),
        }
    }
}

impl Clause {
    fn apply(&self, mode: u32, directory: bool, umask: u32) -> u32 {
        let mut bits = 0;
        for perm in self.perms.chars() {
            bits |= match perm {
                'r' => 0o444 & self.mask,
                'w' => 0o222 & self.mask,
                'x' => 0o111 & self.mask,
                'X' if directory || mode & 0o111 != 0 => 0o111 & self.mask,
                's' => self.set_id(),
                't' if self.mask == 0o777 => 0o1000,
                'u' => (0o111 * ((mode >> 6) & 7)) & self.mask,
                'g' => (0o111 * ((mode >> 3) & 7)) & self.mask,
                'o' => (0o111 * (mode & 7)) & self.mask,
                _ => 0,
            };
        }
        if self.masked {
            bits &= !umask;
        }
        match self.op {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => {
                let special = if directory { 0 } else { self.set_id() };
                let kept = mode & !(self.mask | special);
                kept | bits
            }
        }
    }

    fn set_id(&self) -> u32 {
        let mut bits = 0;
        if self.mask & 0o700 != 0 {
            bits |= 0o4000;
        }
        if self.mask & 0o070 != 0 {
            bits |= 0o2000;
        }
        bits
    }
}

/// The bits as `ls` shows them, such as `rwsr-xr-t`.
pub(crate) fn show(mode: u32) -> String {
    let mut out = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(change: &str, mode: u32) -> u32 {
        parse(change).unwrap().apply(mode, false, 0o022)
    }

    #[test]
    fn symbolic_modes_do_what_chmod_does() {
        for (change, before, after) in [
            ("u+rwx,g-w,a=rX", 0o660, 0o444 | 0o111),
            ("u+x", 0o644, 0o744),
            ("+x", 0o644, 0o755),
            ("+w", 0o444, 0o644),
            ("a+w", 0o444, 0o666),
            ("go=", 0o777, 0o700),
            ("g=u", 0o740, 0o770),
            ("o=g-w", 0o760, 0o764),
            ("u+s,g+s", 0o755, 0o6755),
            ("u=rw", 0o4755, 0o655),
            ("+t", 0o777, 0o1777),
            ("a-x+X", 0o755, 0o644),
            ("0600", 0o4777, 0o600),
        ] {
            assert_eq!(file(change, before), after, "{change} on {before:o}");
        }
    }

    #[test]
    fn directories_get_capital_x_and_keep_set_id_bits() {
        assert_eq!(parse("a+X").unwrap().apply(0o600, true, 0), 0o711);
        assert_eq!(parse("a+X").unwrap().apply(0o600, false, 0), 0o600);
        assert_eq!(parse("755").unwrap().apply(0o2700, true, 0), 0o2755);
        assert_eq!(parse("g=rx").unwrap().apply(0o2770, true, 0), 0o2750);
    }

    #[test]
    fn malformed_modes_are_refused() {
        for text in [
            "", "8", "77777", "u", "q+r", "u+rq", "u+ug", "rwx", "u+r,,g+w", "07é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(octal("+7").is_err());
    }

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        assert_eq!(show(0o644), "rw-r--r--");
        assert_eq!(show(0o6750), "rwsr-s---");
        assert_eq!(show(0o1776), "rwxrwxrwT");
    }
}
