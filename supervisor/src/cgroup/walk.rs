//! Going through all groups below one. A task may have made them, as deep and as wide as it liked, so neither the stack nor the number
//! of descriptors grows with the depth: there is one descriptor for where we are, and the way back up is `..`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{Errno, Result, SysError, dir};

/// Where we are in the tree.
struct Walk {
    here: OwnedFd,
    /// For each group on the way from the top to here: its name, and the children that were not visited yet. The top has no name.
    way: Vec<(CString, Vec<CString>)>,
}

impl Walk {
    fn begin(top: BorrowedFd<'_>) -> Result<Self> {
        let here = dir::open_at(top, c".")?;
        let way = vec![(CString::default(), children(here.as_fd())?)];
        Ok(Self { here, way })
    }

    /// Goes to the next group below that was not visited and that is not to be passed over; false when there is none. One that goes away
    /// meanwhile or that we may not enter is passed over too.
    fn down(&mut self, passes: impl Fn(BorrowedFd<'_>, &CStr) -> bool) -> Result<bool> {
        while let Some(name) = self.way.last_mut().and_then(|(_, rest)| rest.pop()) {
            if passes(self.here.as_fd(), &name) {
                continue;
            }
            match dir::open_at(self.here.as_fd(), &name) {
                Ok(child) => {
                    let below = children(child.as_fd())?;
                    (self.here, _) = (child, self.way.push((name, below)));
                    return Ok(true);
                }
                Err(SysError { errno: Errno::ENOENT | Errno::ENODEV | Errno::EACCES, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Goes back to the group above and gives the name of the one that was left; None at the top, above which we never go.
    fn up(&mut self) -> Result<Option<CString>> {
        if self.way.len() == 1 {
            return Ok(None);
        }
        // cgroup v2 knows no rename(2), so this is where we came from.
        self.here = dir::open_at(self.here.as_fd(), c"..")?;
        Ok(self.way.pop().map(|(name, _)| name))
    }
}

/// Shows `visit` the directory of this group and of each below, parents first. One that goes away meanwhile is not below any more.
pub(super) fn each(top: BorrowedFd<'_>, visit: &mut dyn FnMut(BorrowedFd<'_>) -> Result<()>) -> Result<()> {
    let mut walk = Walk::begin(top)?;
    let mut visit = |group: BorrowedFd<'_>| match visit(group) {
        Err(SysError { errno: Errno::ENOENT | Errno::ENODEV, .. }) => Ok(()),
        other => other,
    };
    visit(walk.here.as_fd())?;
    loop {
        if walk.down(|_, _| false)? {
            visit(walk.here.as_fd())?;
        } else if walk.up()?.is_none() {
            return Ok(());
        }
    }
}

/// Removes every group below this one, deepest first. What is gone already is fine.
///
/// # Errors
/// `EBUSY`: a process is in one of them.
pub(super) fn remove_below(top: BorrowedFd<'_>) -> Result<()> {
    let mut walk = Walk::begin(top)?;
    loop {
        // What has nothing below goes at once.
        while walk.down(|here, name| dir::remove_at(here, name).is_ok())? {}
        let Some(name) = walk.up()? else { return Ok(()) };
        match dir::remove_at(walk.here.as_fd(), &name) {
            Ok(()) | Err(SysError { errno: Errno::ENOENT, .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

fn children(group: BorrowedFd<'_>) -> Result<Vec<CString>> {
    match dir::directories(group) {
        Err(SysError { errno: Errno::ENOENT | Errno::ENODEV, .. }) => Ok(Vec::new()),
        other => other,
    }
}
