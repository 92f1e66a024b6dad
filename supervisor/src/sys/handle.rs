//! Opening a cgroup's directory by the kernel's own name for it.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{Result, SysError};

/// `FILEID_KERNFS`: the handle is the 8 bytes of the node's id.
const KERNFS_HANDLE: i32 = 0xfe;

/// `struct file_handle` with room for the one kind of handle that is used here.
#[repr(C)]
struct KernfsHandle {
    handle_bytes: u32,
    handle_type: i32,
    id: [u8; 8],
}

/// Opens (`O_PATH`) the file of a kernfs file system, such as cgroup2, whose inode number is `id`. `mount` is anything on that mount.
///
/// # Errors
/// `ESTALE` when there is no such file any more, `EPERM` without `CAP_DAC_READ_SEARCH`.
pub fn open_kernfs_node(mount: BorrowedFd<'_>, id: u64) -> Result<OwnedFd> {
    let mut handle = KernfsHandle { handle_bytes: 8, handle_type: KERNFS_HANDLE, id: id.to_ne_bytes() };
    // SAFETY: the handle is live and as long as handle_bytes says; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            std::ptr::from_mut(&mut handle),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
    let fd = fd.ok_or_else(|| SysError::last("open_by_handle_at"))?;
    // SAFETY: the kernel has just made this fd and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_system_without_such_handles_refuses() {
        let proc = File::open("/proc").unwrap();
        let error = open_kernfs_node(proc.as_fd(), 1).unwrap_err();
        assert_eq!(error.call, "open_by_handle_at");
        assert_ne!(error.errno, Errno::EFAULT);
    }
}
