//! Directories of mounted file systems: open them, and ask what was opened.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, FsType, fstatfs};

use super::{Result, SysError};

/// Flags for a directory that is only a place for `*at` calls. `clone3(CLONE_INTO_CGROUP)` takes such a descriptor too.
const PLACE: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// `open(2)` of a directory as a place (`O_PATH`). Follows symbolic links: for paths that the kernel told us.
///
/// # Errors
/// As open(2): `ENOENT`, `EACCES`, `ENOTDIR`, ...
pub fn open_place(path: &Path) -> Result<OwnedFd> {
    SysError::from_nix("open", open(path, PLACE, Mode::empty()))
}

/// `openat2(2)` of a directory below `dir` as a place (`O_PATH`), without symbolic links and without a way out upwards
/// (`RESOLVE_BENEATH`, Linux 5.6). An empty path is `dir` itself.
///
/// # Errors
/// As openat(2); `EXDEV`: the path leads out of `dir`; `ENOSYS`: openat2 is not there, or a seccomp filter hides it.
pub fn open_place_below(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = OpenHow::new().flags(PLACE).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS,
    );
    SysError::from_nix("openat2", openat2(dir, path, how))
}

/// A kind of file system that we look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// cgroup v2.
    Cgroup2,
    /// The file system that keeps BPF objects (`BPF_FS_MAGIC`).
    Bpf,
}

/// `fstatfs(2)`: the file is on a file system of this kind.
///
/// # Errors
/// As fstatfs(2).
pub fn is_on(fd: BorrowedFd<'_>, kind: FileSystem) -> Result<bool> {
    let magic = match kind {
        FileSystem::Cgroup2 => CGROUP2_SUPER_MAGIC,
        FileSystem::Bpf => FsType(libc::BPF_FS_MAGIC as _),
    };
    Ok(SysError::from_nix("fstatfs", fstatfs(fd))?.filesystem_type() == magic)
}

/// `statx(2)` with `STATX_MNT_ID` (Linux 5.8): the number of the mount through which this was opened, as in mountinfo.
///
/// # Errors
/// `ENOSYS`: the kernel is too old to say.
pub fn mount_id(fd: impl AsFd) -> Result<u64> {
    // SAFETY: `statx` is plain data for which zero is a valid value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is borrowed for the call, the path is an empty C string, `found` is a valid place for one statx.
    let result = unsafe {
        libc::statx(
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_MNT_ID,
            &raw mut found,
        )
    };
    if result < 0 {
        return Err(SysError::last("statx"));
    }
    if found.stx_mask & libc::STATX_MNT_ID == 0 {
        return Err(SysError::new("statx", nix::errno::Errno::ENOSYS));
    }
    Ok(found.stx_mnt_id)
}
