//! Users and groups by name and by number.
//!
//! Names come from `/etc/passwd` and `/etc/group`, else from `getent`, which queries the other
//! configured sources. A lookup within the process would need foreign code (NSS).

use std::collections::HashMap;
use std::process::Command;

/// A change of owner, as chown takes it: `USER`, `USER:GROUP`, `USER:` (the user's own group) or
/// `:GROUP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The user.
    pub(crate) uid: Option<u32>,
    /// The group.
    pub(crate) gid: Option<u32>,
}

/// Reads a change of owner.
pub(crate) fn parse(text: &str) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let mut owner = Owner::default();
    if !user.is_empty() {
        owner.uid = Some(self::user(user)?);
    }
    match group {
        Some("") if !user.is_empty() => {
            owner.gid = Some(login_group(user).ok_or_else(|| unknown("user", user))?);
        }
        Some("") | None => {}
        Some(group) => owner.gid = Some(self::group(group)?),
    }
    if owner == Owner::default() {
        return Err(format!(
            "`{text}` is not an owner: write USER, USER:GROUP or :GROUP"
        ));
    }
    Ok(owner)
}

/// Reads a user's name or number.
pub(crate) fn user(text: &str) -> Result<u32, String> {
    id("passwd", text).ok_or_else(|| unknown("user", text))
}

/// Reads a group's name or number.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    id("group", text).ok_or_else(|| unknown("group", text))
}

fn unknown(what: &str, name: &str) -> String {
    format!("this machine has no {what} `{name}`: give the number")
}

/// The number of a name. Digits stand for themselves, unless they are a name.
fn id(database: &str, name: &str) -> Option<u32> {
    field(database, name, 2).or_else(|| name.parse().ok().filter(|id| *id != u32::MAX))
}

fn login_group(user: &str) -> Option<u32> {
    field("passwd", user, 3)
}

fn field(database: &str, name: &str, index: usize) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/etc/{database}")).unwrap_or_default();
    let of = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(index)?.parse().ok()
    };
    of(&text).or_else(|| of(&getent(database, name)?))
}

fn getent(database: &str, key: &str) -> Option<String> {
    // A name that starts with a dash would be an option.
    if key.starts_with('-') {
        return None;
    }
    let output = Command::new("getent").args([database, key]).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of numbers, looked up once each.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<(&'static str, u32), String>,
}

impl Names {
    /// A user's name, or its number.
    pub(crate) fn user(&mut self, uid: u32) -> String {
        self.name("passwd", uid)
    }

    /// A group's name, or its number.
    pub(crate) fn group(&mut self, gid: u32) -> String {
        self.name("group", gid)
    }

    fn name(&mut self, database: &'static str, id: u32) -> String {
        self.known
            .entry((database, id))
            .or_insert_with(|| look_up(database, id))
            .clone()
    }
}

fn look_up(database: &str, id: u32) -> String {
    let number = id.to_string();
    let text = std::fs::read_to_string(format!("/etc/{database}")).unwrap_or_default();
    let of = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.split(':').nth(2) == Some(&number))?;
        line.split(':').next().map(str::to_owned)
    };
    of(&text)
        .or_else(|| of(&getent(database, &number)?))
        .unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_name_or_a_number() {
        assert_eq!(
            parse("root"),
            Ok(Owner {
                uid: Some(0),
                gid: None
            })
        );
        assert_eq!(
            parse("root:root"),
            Ok(Owner {
                uid: Some(0),
                gid: Some(0)
            })
        );
        assert_eq!(
            parse("root:"),
            Ok(Owner {
                uid: Some(0),
                gid: Some(0)
            })
        );
        assert_eq!(
            parse("4711:4712"),
            Ok(Owner {
                uid: Some(4711),
                gid: Some(4712)
            })
        );
        assert_eq!(
            parse(":4712"),
            Ok(Owner {
                uid: None,
                gid: Some(4712)
            })
        );
    }

    #[test]
    fn an_unknown_user_is_named_in_the_error() {
        assert!(
            parse("nobody-of-this-name")
                .unwrap_err()
                .contains("nobody-of-this-name")
        );
        for text in ["", ":", "4294967295"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ids_without_a_name_are_shown_as_numbers() {
        let mut names = Names::default();
        assert_eq!(names.user(0), "root");
        assert_eq!(names.group(4_000_123), "4000123");
    }
}
