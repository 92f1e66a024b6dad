//! Who holds a pipe or terminal open.

use std::os::unix::fs::MetadataExt;

use crate::cgroup::parse;

/// A process with the pipe or terminal among its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Holder {
    /// Its process id.
    pub pid: i32,
    /// Its name.
    pub comm: String,
}

/// As many as a report shows.
const SHOWN: usize = 16;

/// The processes, but for ourselves, that have the pipe (or terminal) of this inode open now. Costs a walk over all descriptors of the machine, and
/// is only done when something does hold it.
pub(super) fn find(inode: u64) -> Vec<Holder> {
    let own = crate::sys::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != own && holds(*pid, inode))
        .take(SHOWN)
        .map(|pid| Holder { pid, comm: comm(pid) })
        .collect()
}

fn holds(pid: i32, inode: u64) -> bool {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let name = format!("pipe:[{inode}]");
    fds.flatten().any(|fd| match std::fs::read_link(fd.path()) {
        Ok(target) if target.as_os_str() == name.as_str() => true,
        // A FIFO of the file system shows its path: compare the file itself.
        Ok(target) if target.is_absolute() && !target.starts_with("/dev") => std::fs::metadata(fd.path())
            .is_ok_and(|file| file.ino() == inode && file.mode() & 0o170_000 == 0o010_000),
        Ok(target) if target.starts_with("/dev/pts") => std::fs::metadata(fd.path())
            .is_ok_and(|file| file.ino() == inode && file.mode() & 0o170_000 == 0o020_000),
        Ok(_) | Err(_) => false,
    })
}

fn comm(pid: i32) -> String {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    parse::stat(&stat)
        .map_or_else(|_| String::from("?"), |stat| String::from_utf8_lossy(&stat.comm).into_owned())
}
