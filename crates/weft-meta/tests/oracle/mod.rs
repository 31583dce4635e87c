//! The simplest file system: a vector of nodes, names in maps, everything else counted. It shares
//! only the error codes with the namespace.

#![allow(dead_code, reason = "compiled once more as a test of its own")]

use std::collections::BTreeMap;

use weft_proto::Code;

pub type Outcome = Result<String, Code>;
type Id = usize;

#[derive(Clone)]
enum Body {
    File,
    Directory(BTreeMap<String, Id>),
    Link(String),
}

struct Node {
    body: Body,
    mode: u32,
    uid: u32,
    gid: u32,
}

pub struct Oracle {
    nodes: Vec<Node>,
}

const ROOT: Id = 0;

/// Where a path ends: at a name in a directory, or at something without a name.
enum End {
    Name {
        directory: Id,
        name: String,
        slash: bool,
    },
    Bare(Id, &'static str),
}

impl Oracle {
    pub fn new() -> Oracle {
        let root = Node {
            body: Body::Directory(BTreeMap::new()),
            mode: 0o777,
            uid: 0,
            gid: 0,
        };
        Oracle { nodes: vec![root] }
    }

    fn children(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match &self.nodes[id].body {
            Body::Directory(children) => Some(children),
            _ => None,
        }
    }

    fn children_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        match &mut self.nodes[id].body {
            Body::Directory(children) => children,
            _ => panic!("no directory"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        self.children(id).is_some()
    }

    fn lookup(&self, directory: Id, name: &str) -> Option<Id> {
        self.children(directory)?.get(name).copied()
    }

    /// Found by a search of all nodes.
    fn parent(&self, id: Id) -> Id {
        let holds = |at: &Id| {
            self.children(*at)
                .is_some_and(|c| c.values().any(|child| *child == id))
        };
        (0..self.nodes.len()).find(holds).unwrap_or(ROOT)
    }

    fn names(&self, id: Id) -> usize {
        let of = |node: &Node| match &node.body {
            Body::Directory(children) => children.values().filter(|child| **child == id).count(),
            _ => 0,
        };
        self.nodes.iter().map(of).sum()
    }

    fn allowed(&self, uid: u32, id: Id, bit: u32) -> bool {
        let node = &self.nodes[id];
        let shift = if uid == node.uid {
            6
        } else if node.gid == uid || node.gid == 20 {
            3
        } else {
            0
        };
        uid == 0 || (node.mode >> shift) & bit == bit
    }

    fn walk(&self, uid: u32, path: &str, follow: bool, depth: &mut u32) -> Result<End, Code> {
        let path = path.strip_prefix('@').unwrap_or(path);
        self.walk_from(ROOT, uid, path, follow, depth)
    }

    fn walk_from(
        &self,
        from: Id,
        uid: u32,
        path: &str,
        follow: bool,
        depth: &mut u32,
    ) -> Result<End, Code> {
        let mut at = if path.starts_with('/') { ROOT } else { from };
        let slash = path.ends_with('/');
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut bare = "/";
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            if !self.is_dir(at) {
                return Err(Code::NotDirectory);
            }
            if !self.allowed(uid, at, 1) {
                return Err(Code::Permission);
            }
            match *part {
                "." => bare = ".",
                ".." => {
                    bare = "..";
                    at = self.parent(at);
                }
                name => {
                    let child = self.lookup(at, name);
                    let link = child.and_then(|child| match &self.nodes[child].body {
                        Body::Link(text) => Some(text.clone()),
                        _ => None,
                    });
                    if let Some(text) = link.filter(|_| !last || follow) {
                        *depth += 1;
                        if *depth > 40 {
                            return Err(Code::Loop);
                        }
                        let mut rest = text;
                        if !last {
                            rest = format!("{rest}/{}", parts[index + 1..].join("/"));
                        }
                        if slash {
                            rest.push('/');
                        }
                        return self.walk_from(at, uid, &rest, follow, depth);
                    }
                    if last {
                        let name = name.to_owned();
                        return Ok(End::Name {
                            directory: at,
                            name,
                            slash,
                        });
                    }
                    at = child.ok_or(Code::NotFound)?;
                }
            }
        }
        Ok(End::Bare(at, bare))
    }

    fn find(&self, uid: u32, path: &str) -> Result<Id, Code> {
        let mut follow = !path.starts_with('@');
        loop {
            match self.walk(uid, path, follow, &mut 0)? {
                End::Bare(id, _) => return Ok(id),
                End::Name {
                    directory,
                    name,
                    slash,
                } => {
                    let id = self.lookup(directory, &name).ok_or(Code::NotFound)?;
                    if slash && matches!(self.nodes[id].body, Body::Link(_)) && !follow {
                        follow = true;
                        continue;
                    }
                    if slash && !self.is_dir(id) {
                        return Err(Code::NotDirectory);
                    }
                    return Ok(id);
                }
            }
        }
    }

    fn show(&self, id: Id) -> String {
        let node = &self.nodes[id];
        let (kind, links, size) = match &node.body {
            Body::File => (1, self.names(id), 0),
            Body::Directory(children) => {
                let inside = children
                    .values()
                    .filter(|child| self.is_dir(**child))
                    .count();
                (2, 2 + inside, children.len())
            }
            Body::Link(text) => (3, self.names(id), text.len()),
        };
        let Node { mode, uid, gid, .. } = node;
        format!("{kind} {mode:o} {uid}:{gid} links {links} size {size}")
    }

    fn free(&self, uid: u32, path: &str, directory: bool) -> Result<(Id, String), Code> {
        match self.walk(uid, path, false, &mut 0)? {
            End::Bare(..) => Err(Code::Exists),
            End::Name {
                directory: at,
                name,
                slash,
            } => {
                if self.lookup(at, &name).is_some() {
                    return Err(Code::Exists);
                }
                if slash && !directory {
                    return Err(Code::NotFound);
                }
                if !self.allowed(uid, at, 2) {
                    return Err(Code::Permission);
                }
                Ok((at, name))
            }
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "its callers end with it")]
    fn add(&mut self, uid: u32, place: (Id, String), body: Body, mode: u32) -> Outcome {
        let (directory, name) = place;
        let parent = &self.nodes[directory];
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { uid };
        let mode = match body {
            Body::Directory(_) => (mode & 0o1777) | if inherits { 0o2000 } else { 0 },
            Body::File if mode & 0o2010 == 0o2010 && uid != 0 && gid != uid && gid != 20 => {
                mode & !0o2000
            }
            _ => mode,
        };
        self.nodes.push(Node {
            body,
            mode,
            uid,
            gid,
        });
        let id = self.nodes.len() - 1;
        self.children_mut(directory).insert(name, id);
        Ok(self.show(id))
    }

    pub fn mkdir(&mut self, uid: u32, path: &str, mode: u32) -> Outcome {
        let place = self.free(uid, path, true)?;
        self.add(uid, place, Body::Directory(BTreeMap::new()), mode)
    }

    pub fn symlink(&mut self, uid: u32, path: &str, text: &str) -> Outcome {
        let place = self.free(uid, path, false)?;
        self.add(uid, place, Body::Link(text.to_owned()), 0o777)
    }

    pub fn create(&mut self, uid: u32, path: &str, mode: u32, exclusive: bool) -> Outcome {
        let follow = !path.starts_with('@') && !exclusive;
        let (directory, name, slash) = match self.walk(uid, path, follow, &mut 0)? {
            End::Bare(..) if exclusive => return Err(Code::Exists),
            End::Bare(..) => return Err(Code::IsDirectory),
            End::Name {
                directory,
                name,
                slash,
            } => (directory, name, slash),
        };
        let Some(id) = self.lookup(directory, &name) else {
            if slash {
                return Err(Code::IsDirectory);
            }
            if !self.allowed(uid, directory, 2) {
                return Err(Code::Permission);
            }
            return self.add(uid, (directory, name), Body::File, mode);
        };
        if slash && !self.is_dir(id) {
            return Err(Code::NotDirectory);
        }
        match self.nodes[id].body {
            _ if exclusive => Err(Code::Exists),
            Body::Directory(_) => Err(Code::IsDirectory),
            Body::Link(_) => Err(Code::Loop),
            Body::File => Ok(self.show(id)),
        }
    }

    pub fn link(&mut self, uid: u32, source: &str, path: &str) -> Outcome {
        let id = self.find(uid, source)?;
        let (directory, name) = self.free(uid, path, false)?;
        if self.is_dir(id) {
            return Err(Code::NotOwner);
        }
        self.children_mut(directory).insert(name, id);
        Ok(self.show(id))
    }

    /// Whether the caller may remove this name.
    fn removable(&self, uid: u32, directory: Id, id: Id) -> Result<(), Code> {
        if !self.allowed(uid, directory, 2) {
            return Err(Code::Permission);
        }
        self.sticky(uid, directory, id)
    }

    fn sticky(&self, uid: u32, directory: Id, id: Id) -> Result<(), Code> {
        let parent = &self.nodes[directory];
        let owner = [parent.uid, self.nodes[id].uid].contains(&uid);
        if parent.mode & 0o1000 != 0 && uid != 0 && !owner {
            return Err(Code::NotOwner);
        }
        Ok(())
    }

    pub fn unlink(&mut self, uid: u32, path: &str) -> Outcome {
        let End::Name {
            directory,
            name,
            slash,
        } = self.walk(uid, path, false, &mut 0)?
        else {
            return Err(Code::IsDirectory);
        };
        let id = self.lookup(directory, &name).ok_or(Code::NotFound)?;
        self.removable(uid, directory, id)?;
        if self.is_dir(id) {
            return Err(Code::IsDirectory);
        }
        if slash {
            return Err(Code::NotDirectory);
        }
        self.children_mut(directory).remove(&name);
        Ok(self.names(id).to_string())
    }

    pub fn rmdir(&mut self, uid: u32, path: &str) -> Outcome {
        let (directory, name) = match self.walk(uid, path, false, &mut 0)? {
            End::Bare(_, "..") => return Err(Code::NotEmpty),
            End::Bare(..) => return Err(Code::Invalid),
            End::Name {
                directory, name, ..
            } => (directory, name),
        };
        let id = self.lookup(directory, &name).ok_or(Code::NotFound)?;
        self.removable(uid, directory, id)?;
        let children = self.children(id).ok_or(Code::NotDirectory)?;
        if !children.is_empty() {
            return Err(Code::NotEmpty);
        }
        self.children_mut(directory).remove(&name);
        Ok("0".into())
    }

    /// Whether `below` is `above`, or below it.
    fn contains(&self, above: Id, below: Id) -> bool {
        above == below
            || self.children(above).is_some_and(|children| {
                children
                    .values()
                    .any(|child| self.is_dir(*child) && self.contains(*child, below))
            })
    }

    pub fn rename(
        &mut self,
        uid: u32,
        from: &str,
        to: &str,
        no_replace: bool,
        exchange: bool,
    ) -> Outcome {
        let End::Name {
            directory: from_dir,
            name: from_name,
            slash: from_slash,
        } = self.walk(uid, from, false, &mut 0)?
        else {
            return Err(Code::Invalid);
        };
        let End::Name {
            directory: to_dir,
            name: to_name,
            slash: to_slash,
        } = self.walk(uid, to, false, &mut 0)?
        else {
            return Err(Code::Invalid);
        };
        let id = self.lookup(from_dir, &from_name).ok_or(Code::NotFound)?;
        let old = self.lookup(to_dir, &to_name);
        if from_slash && !self.is_dir(id) {
            return Err(Code::NotDirectory);
        }
        if no_replace && old.is_some() {
            return Err(Code::Exists);
        }
        if exchange && old.is_none() {
            return Err(Code::NotFound);
        }
        let slashed = if exchange { old.unwrap_or(id) } else { id };
        if to_slash && !self.is_dir(slashed) {
            return Err(Code::NotDirectory);
        }
        if old == Some(id) {
            return Ok(String::new());
        }
        self.removable(uid, from_dir, id)?;
        if !self.allowed(uid, to_dir, 2) {
            return Err(Code::Permission);
        }
        if let Some(old) = old {
            self.sticky(uid, to_dir, old)?;
        }
        let mut movers = vec![(id, to_dir)];
        if exchange {
            movers.extend(old.map(|old| (old, from_dir)));
        }
        for (mover, into) in movers {
            if from_dir != to_dir && self.is_dir(mover) {
                if self.contains(mover, into) {
                    return Err(Code::Invalid);
                }
                if !self.allowed(uid, mover, 2) {
                    return Err(Code::Permission);
                }
            }
        }
        if exchange {
            let old = old.expect("checked above");
            self.children_mut(from_dir).insert(from_name, old);
            self.children_mut(to_dir).insert(to_name, id);
            return Ok(String::new());
        }
        if let Some(old) = old {
            match (self.is_dir(id), self.children(old)) {
                (true, None) => return Err(Code::NotDirectory),
                (false, Some(_)) => return Err(Code::IsDirectory),
                (true, Some(children)) if !children.is_empty() => return Err(Code::NotEmpty),
                _ => {}
            }
        }
        self.children_mut(from_dir).remove(&from_name);
        self.children_mut(to_dir).insert(to_name, id);
        Ok(String::new())
    }

    pub fn chmod(&mut self, uid: u32, path: &str, mode: u32) -> Outcome {
        let id = self.find(uid, path)?;
        let node = &mut self.nodes[id];
        if uid != 0 && uid != node.uid {
            return Err(Code::NotOwner);
        }
        let member = uid == 0 || [uid, 20].contains(&node.gid);
        node.mode = if member { mode } else { mode & !0o2000 };
        Ok(self.show(id))
    }

    pub fn chown(
        &mut self,
        uid: u32,
        path: &str,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Outcome {
        let id = self.find(uid, path)?;
        if owner.is_none() && group.is_none() {
            return Ok(self.show(id));
        }
        let directory = self.is_dir(id);
        let node = &mut self.nodes[id];
        if uid != 0 {
            let gives = owner.is_some_and(|owner| owner != node.uid);
            let strange =
                group.is_some_and(|group| group != node.gid && ![uid, 20].contains(&group));
            if uid != node.uid || gives || strange {
                return Err(Code::NotOwner);
            }
        }
        if !directory {
            let member = uid == 0 || [uid, 20].contains(&node.gid);
            node.mode &= !0o4000;
            if node.mode & 0o010 != 0 || !member {
                node.mode &= !0o2000;
            }
        }
        node.uid = owner.unwrap_or(node.uid);
        node.gid = group.unwrap_or(node.gid);
        Ok(self.show(id))
    }

    pub fn stat(&self, uid: u32, path: &str) -> Outcome {
        Ok(self.show(self.find(uid, path)?))
    }

    pub fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut todo = vec![(ROOT, String::new())];
        while let Some((at, path)) = todo.pop() {
            for (name, child) in self.children(at).expect("a directory") {
                let path = format!("{path}/{name}");
                lines.push(format!("{path} {}", self.show(*child)));
                if self.is_dir(*child) {
                    todo.push((*child, path));
                }
            }
        }
        lines.sort();
        lines
    }
}
