//! What a call of the namespace is about.

use std::fmt;

use bytes::Bytes;
use weft_proto::meta::{ROOT, Target};
use weft_proto::text::escape;
use weft_proto::{Code, Retry};

use crate::Error;

/// A file by its path from the root, by its id, or by its name in a directory whose id is known.
///
/// Paths come by themselves from whatever holds bytes: `volume.stat("/a/b")`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    kind: Kind,
    /// What messages call it instead.
    path: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Path(Bytes),
    Id(u64),
    Under(u64, Bytes),
}

impl Place {
    /// The file with this id, whatever it is called: no directory on the way is looked at.
    pub fn of(id: u64) -> Place {
        Kind::Id(id).into()
    }

    /// A name (or a path) relative to the directory with this id.
    pub fn under(directory: u64, name: impl Into<Place>) -> Place {
        match name.into().kind {
            Kind::Path(name) => Kind::Under(directory, name).into(),
            other => other.into(),
        }
    }

    /// The id, if it is named by it.
    pub(crate) fn id(&self) -> Option<u64> {
        match self.kind {
            Kind::Id(id) => Some(id),
            Kind::Path(_) | Kind::Under(..) => None,
        }
    }

    /// The same place, which messages call by this path: an id says nothing to a user.
    #[must_use]
    pub fn shown_as(mut self, path: impl Into<Bytes>) -> Place {
        self.path = Some(path.into());
        self
    }

    /// As it goes over the wire. There an empty path means the start itself; from a user it means a
    /// mistake.
    pub(crate) fn target(&self, follow: bool) -> Result<Target, Error> {
        let (at, path) = match &self.kind {
            Kind::Id(id) => (*id, Bytes::new()),
            Kind::Path(path) if !path.is_empty() => (ROOT, path.clone()),
            Kind::Under(at, name) if !name.is_empty() => (*at, name.clone()),
            Kind::Path(_) | Kind::Under(..) => {
                return Err(Error::Refused {
                    what: "resolve a path".to_owned(),
                    code: Code::NotFound,
                    errno: Code::NotFound.errno(),
                    retry: Retry::Never,
                    message: "the path is empty".to_owned(),
                });
            }
        };
        Ok(Target { at, path, follow })
    }
}

impl From<Kind> for Place {
    fn from(kind: Kind) -> Place {
        Place { kind, path: None }
    }
}

/// For messages: what is not text is escaped.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            return f.write_str(&escape(path));
        }
        match &self.kind {
            Kind::Path(path) => f.write_str(&escape(path)),
            Kind::Id(id) => write!(f, "file {id}"),
            Kind::Under(at, name) => write!(f, "{} in directory {at}", escape(name)),
        }
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Place {
    fn from(path: &T) -> Place {
        Kind::Path(Bytes::copy_from_slice(path.as_ref())).into()
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

impl From<Bytes> for Place {
    fn from(path: Bytes) -> Place {
        Kind::Path(path).into()
    }
}

impl From<Vec<u8>> for Place {
    fn from(path: Vec<u8>) -> Place {
        Kind::Path(path.into()).into()
    }
}

impl From<String> for Place {
    fn from(path: String) -> Place {
        Kind::Path(path.into()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_from_the_root_and_names_from_their_directory() {
        let parts = |place: Place| {
            let target = place.target(false).unwrap();
            (target.at, target.path.to_vec())
        };
        assert_eq!(parts("a/b".into()), (ROOT, b"a/b".to_vec()));
        assert_eq!(parts(Place::under(7, "x")), (7, b"x".to_vec()));
        assert_eq!(parts(Place::of(9)), (9, Vec::new()));
    }

    #[test]
    fn an_empty_path_is_refused() {
        assert_eq!(
            Place::from("").target(true).unwrap_err().code(),
            Code::NotFound
        );
        assert!(Place::under(3, "").target(true).is_err());
    }

    #[test]
    fn messages_escape_bytes_that_are_not_text() {
        assert_eq!(Place::from(b"a\xff").to_string(), "a\\xff");
        assert_eq!(Place::under(3, "n").to_string(), "n in directory 3");
        let shown = Place::under(3, "n").shown_as("/a/n");
        assert_eq!(shown.to_string(), "/a/n");
        assert_eq!(shown.target(false).unwrap().at, 3);
    }
}
