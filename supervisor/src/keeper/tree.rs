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
    home: Home,
}

/// Where the keeper lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// In the cgroup that it was started in, so that it can remove the tree to the last directory.
    Parent,
    /// In `<root>/keeper`, for as long as it forks.
    Tree,
}

const KEEPER: &CStr = c"keeper";
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
            Ok((executors, tasks)) => Ok(Self { parent, name, root, executors, tasks, home: Home::Parent }),
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

    /// Moves us into a group of the tree that was never killed. Some kernels kill at birth what is cloned from a group that `cgroup.kill` was
    /// ever written to into another one (docs/decisions.md, 1), and whether the caller's was, nobody can see.
    pub(super) fn move_in(&mut self) -> Result<(), CgroupError> {
        self.root.create(KEEPER)?.enter()?;
        self.home = Home::Tree;
        Ok(())
    }

    /// Moves us back, so that the tree can be killed and removed. Nothing is forked afterwards.
    pub(super) fn move_out(&mut self) -> Result<(), CgroupError> {
        match self.home {
            Home::Parent => Ok(()),
            Home::Tree => {
                self.parent.enter()?;
                self.home = Home::Parent;
                Ok(())
            }
        }
    }

    /// Whether [`Tree::move_in`] was of use already.
    pub(super) fn is_moved_in(&self) -> bool {
        self.home == Home::Tree
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
