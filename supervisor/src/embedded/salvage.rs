//! Removing the tree when the keeper, whose work that is, was killed.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::cgroup::{Cgroup, CgroupError, Population};
use crate::sys::poll::{Interest, Poll};
use crate::sys::wait::{self, Children};
use crate::sys::{SysError, clock};

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
        if events.population().map_err(fail)? == Population::Empty {
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
