//! `/proc/PID/mountinfo`: the mounts that a process sees.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{ParseError, lines, number};

/// The kernel's number of a mount, as statx(2) gives it too (`stx_mnt_id`). Used again after an unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MountId(pub u64);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number.
    pub id: MountId,
    /// The directory of the file system that it shows: `/`, or a part of it for a bind mount. For cgroup2 a cgroup's path, seen from the
    /// reader's cgroup namespace.
    pub root: PathBuf,
    /// Where it is, seen from the reader's root directory. Another mount may lie on top.
    pub point: PathBuf,
    /// Options of this mount alone, e.g. `ro`, `nosuid`.
    mount_options: Vec<u8>,
    /// Options of the file system, the same for all its mounts, e.g. `nsdelegate`.
    fs_options: Vec<u8>,
}

impl Mount {
    /// Nothing can be written through this mount: it, or the whole file system, is read-only.
    pub fn is_read_only(&self) -> bool {
        has(&self.mount_options, b"ro") || has(&self.fs_options, b"ro")
    }

    /// The file system has this option (a word without a value), e.g. `nsdelegate`.
    pub fn has_fs_option(&self, name: &str) -> bool {
        has(&self.fs_options, name.as_bytes())
    }

    /// The value of an option of the file system, e.g. of `hidepid`.
    pub fn fs_option(&self, name: &str) -> Option<String> {
        self.fs_options.split(|&byte| byte == b',').find_map(|option| {
            let value = option.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    }
}

fn has(options: &[u8], name: &[u8]) -> bool {
    options.split(|&byte| byte == b',').any(|option| option == name)
}

/// The mounts of one file system type, in the order of the file. Lines of other types are not looked at: some file systems print options
/// that break the form.
///
/// # Errors
/// A line of that type is not as proc(5) documents.
pub fn mounts(text: &[u8], fs_type: &str) -> Result<Vec<Mount>, ParseError> {
    let mut found = Vec::new();
    for line in lines(text) {
        // Spaces in paths are escaped, so the first free-standing dash ends the optional fields.
        let Some(dash) = line.windows(3).position(|three| three == b" - ") else { continue };
        let (front, back) = (&line[..dash], &line[dash + 3..]);
        let mut back = back.splitn(3, |&byte| byte == b' ');
        if back.next() != Some(fs_type.as_bytes()) {
            continue;
        }
        // The source may be empty, so fields are separated by exactly one space.
        let fs_options = back.nth(1).unwrap_or_default();
        let error = || ParseError::new("mountinfo", "six fields with a mount id first, then ` - `", line);
        found.push(mount(front, fs_options).ok_or_else(error)?);
    }
    Ok(found)
}

fn mount(front: &[u8], fs_options: &[u8]) -> Option<Mount> {
    let mut fields = front.split(|&byte| byte == b' ');
    let id = MountId(number(fields.next()?)?);
    let _parent = number(fields.next()?)?;
    let _device = fields.next()?;
    let root = path(fields.next()?)?;
    let point = path(fields.next()?)?;
    let mount_options = fields.next()?.to_vec();
    Some(Mount { id, root, point, mount_options, fs_options: fs_options.to_vec() })
}

/// Undoes the kernel's escapes (a backslash and three octal digits for space, tab, line end, backslash and `#`). None when it is no
/// absolute path.
fn path(field: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        match (first, octal(tail)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

fn octal(tail: &[u8]) -> Option<u8> {
    let digits = tail.get(..3)?;
    digits.iter().try_fold(0_u8, |value, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HYBRID: &[u8] = b"\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
41 31 0:38 / /sys/fs/cgroup/unified rw,nosuid,relatime shared:11 master:2 - cgroup2 cgroup2 rw,nsdelegate\n\
50 27 0:38 /a\\040b /mnt/c\\134d\\043 ro,relatime - cgroup2  rw,nsdelegate\n";

    #[test]
    fn mounts_are_found_by_type() {
        let found = mounts(HYBRID, "cgroup2").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].id, MountId(41));
        assert_eq!(found[0].root, PathBuf::from("/"));
        assert_eq!(found[0].point, PathBuf::from("/sys/fs/cgroup/unified"));
        assert!(!found[0].is_read_only());
        assert!(found[0].has_fs_option("nsdelegate"));
        assert!(!found[0].has_fs_option("nsdel"));
        assert_eq!(mounts(HYBRID, "cgroup").unwrap().len(), 1);
    }

    #[test]
    fn a_read_only_bind_mount_with_escapes_and_an_empty_source() {
        let found = mounts(HYBRID, "cgroup2").unwrap();
        assert_eq!(found[1].root, PathBuf::from("/a b"));
        assert_eq!(found[1].point, PathBuf::from("/mnt/c\\d#"));
        assert!(found[1].is_read_only());
        assert!(found[1].has_fs_option("nsdelegate"));
    }

    #[test]
    fn a_read_only_file_system_is_read_only_everywhere() {
        let found = mounts(b"1 2 0:38 / /c rw - cgroup2 x ro\n", "cgroup2").unwrap();
        assert!(found[0].is_read_only());
    }

    #[test]
    fn the_value_of_an_option() {
        let found = mounts(b"1 2 0:3 / /proc rw - proc proc rw,gid=4,hidepid=invisible\n", "proc").unwrap();
        assert_eq!(found[0].fs_option("hidepid").as_deref(), Some("invisible"));
        assert_eq!(found[0].fs_option("hide"), None);
    }

    #[test]
    fn broken_lines_count_only_for_the_type_asked_for() {
        let broken = b"x y - cgroup2 none rw\n1 2 0:3 / /ok rw - tmpfs t rw\ngarbage\n";
        assert!(mounts(broken, "cgroup2").is_err());
        assert_eq!(mounts(broken, "tmpfs").unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(path(b"/a\\9"), Some(PathBuf::from("/a\\9")));
        assert_eq!(path(b"/a\\777"), Some(PathBuf::from("/a\\777")), "above one byte");
        assert_eq!(path(b"/a\\"), Some(PathBuf::from("/a\\")));
        assert_eq!(path(b"a"), None);
    }

    /// As the kernel's seq_escape.
    fn escape(path: &str) -> String {
        path.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => text.push_str(&format!("\\{byte:03o}")),
                _ => text.push(char::from(byte)),
            }
            text
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = mounts(&text, "cgroup2");
            let _ = path(&text);
        }

        #[test]
        fn any_line_of_our_type_is_answered(front in ".{0,60}", back in ".{0,60}") {
            let _ = mounts(format!("{front} - cgroup2 {back}").as_bytes(), "cgroup2");
        }

        #[test]
        fn any_path_comes_back(root in "/[ -~\t\n]{0,30}", point in "/[ -~\t\n]{0,30}", id: u64) {
            let line = format!("{id} 1 0:1 {} {} rw shared:1 - cgroup2 none rw\n", escape(&root), escape(&point));
            let found = mounts(line.as_bytes(), "cgroup2").unwrap();
            prop_assert_eq!(&found[0].root, &PathBuf::from(root));
            prop_assert_eq!(&found[0].point, &PathBuf::from(point));
            prop_assert_eq!(found[0].id, MountId(id));
        }
    }
}
