//! Removing the tree when the keeper, whose work that is, was killed.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::cgroup::{Cgroup, CgroupError, Population};
use crate::sys::poll::{Interest, Poll};
use crate::sys::wait::{self, Children};
use crate::sys::{SysError, clock, fd};

/// How long it is tried.
const WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked for zombies that came to us: we are a subreaper too.
const AGAIN: Duration = Duration::from_millis(20);

/// Kills what lives in `root`, a group below `parent`, and removes it.
pub(super) fn remove(parent: OwnedFd, root: &str) -> Result<(), CgroupError> {
    let name = root.rsplit('/').next().unwrap_or(root);
    let Ok(name) = std::ffi::CString::new(name) else { return Ok(()) };
    let parent = Cgroup::from_dir(parent, "")?;
    let tree = match parent.open_child(&name) {
        Ok(tree) => tree,
        Err(error) if error.source.errno == crate::sys::Errno::ENOENT => return Ok(()),
        Err(error) => return Err(error),
    };
    let events = tree.events()?;
    let fail = |source: SysError| CgroupError { action: "empty", path: root.to_owned(), source };
    let give_up = clock::monotonic() + WITHIN;
    loop {
        tree.kill()?;
        while let Ok(Children::Ended(pid)) = wait::peek() {
            // A zombie of the tree, or the keeper itself.
            let _ = wait::reap_ended(pid);
        }
        if events.population().map_err(fail)? != Population::Populated {
            match parent.remove_child(&name) {
                Err(error) if clock::monotonic() >= give_up => return Err(error),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
        let mut poll = Poll::<1>::new();
        poll.add(std::os::fd::AsFd::as_fd(&events), Interest::Priority);
        poll.wait(Some(AGAIN)).map_err(fail)?;
    }
}

/// What a tree may be called that the keeper was killed over while it made it: its name or, where that was taken, the name with a number.
#[derive(Debug)]
pub(super) struct Unborn {
    root: String,
    /// Groups of such names that were there before, so are not the keeper's.
    before: Vec<CString>,
}

impl Unborn {
    /// Looks before the keeper is told to make it.
    pub(super) fn look(parent: BorrowedFd<'_>, root: &str) -> Self {
        let parent = fd::duplicate(parent).ok().and_then(|dir| Cgroup::from_dir(dir, "").ok());
        let before = parent.and_then(|parent| parent.children().ok()).unwrap_or_default();
        Self { root: root.to_owned(), before: before.into_iter().filter(|name| may_be(root, name)).collect() }
    }

    /// Removes what is there of it. Nothing was born in it yet, so nothing is killed.
    pub(super) fn remove(self, parent: OwnedFd) -> Result<(), CgroupError> {
        let parent = Cgroup::from_dir(parent, "")?;
        let made = parent.children()?.into_iter();
        made.filter(|name| may_be(&self.root, name) && !self.before.contains(name))
            .try_for_each(|name| parent.remove_child(&name))
    }
}

/// Whether a keeper that was told to make `root` may have made this.
fn may_be(root: &str, name: &CString) -> bool {
    let Some(rest) = name.to_bytes().strip_prefix(root.as_bytes()) else { return false };
    rest.is_empty() || rest.strip_prefix(b"-").is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keepers_names_are_taken_for_its_tree() {
        let is_ours = |name: &str| may_be("proctor.run-12", &CString::new(name).unwrap());
        assert!(is_ours("proctor.run-12") && is_ours("proctor.run-12-2") && is_ours("proctor.run-12-99"));
        assert!(!is_ours("proctor.run-123") && !is_ours("proctor.run-1") && !is_ours("proctor.run-12-x"));
        assert!(!is_ours("other"));
    }
}
