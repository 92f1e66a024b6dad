//! The cgroup tree of a keeper: `<root>/executors` and `<root>/tasks`.

use std::ffi::{CStr, CString};

use crate::cgroup::{Cgroup, CgroupError};
use crate::sys::Errno;

/// How many names are tried for the root. One that is taken was left behind by a process of the same number, or belongs to one in
/// another pid namespace.
const NAMES: u32 = 100;

/// The tree. It is made whole or not at all, and only [`Tree::remove`] removes it.
#[derive(Debug)]
pub(super) struct Tree {
    parent: Cgroup,
    name: CString,
    root: Cgroup,
    pub(super) executors: Cgroup,
    pub(super) tasks: Cgroup,
}

const EXECUTORS: &CStr = c"executors";
const TASKS: &CStr = c"tasks";

impl Tree {
    /// Makes it below `parent` under this name, or the name with a number behind it when it is taken.
    pub(super) fn create(parent: Cgroup, name: &str) -> Result<Self, CgroupError> {
        let mut attempt = 1;
        let (name, root) = loop {
            let text = if attempt == 1 { name.to_owned() } else { format!("{name}-{attempt}") };
            // A name with a NUL is as impossible as one that is taken; the caller's names hold none.
            let candidate = CString::new(text).unwrap_or_default();
            match parent.create(&candidate) {
                Ok(root) => break (candidate, root),
                Err(error) if error.source.errno == Errno::EEXIST && attempt < NAMES => attempt += 1,
                Err(error) => return Err(error),
            }
        };
        let parts = root.create(EXECUTORS).and_then(|executors| Ok((executors, root.create(TASKS)?)));
        match parts {
            Ok((executors, tasks)) => Ok(Self { parent, name, root, executors, tasks }),
            Err(error) => {
                // The first error is the one to tell; nothing lives in what was made.
                let _ = parent.remove_child(&name);
                Err(error)
            }
        }
    }

    /// For messages.
    pub(super) fn path(&self) -> &str {
        self.root.path()
    }

    /// Removes all of it. Nothing may live in it any more.
    pub(super) fn remove(&self) -> Result<(), CgroupError> {
        self.parent.remove_child(&self.name)
    }

    /// Ends whatever lives in it.
    pub(super) fn kill(&self) -> Result<(), CgroupError> {
        self.root.kill()
    }
}
