//! The machine that the tests run on, as far as it decides what is run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// What this machine has.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Whether we are root.
    pub root: bool,
    /// Controllers at the root of the cgroup2 hierarchy.
    pub controllers: Vec<String>,
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
    /// Where commands are looked for: PATH, and the directories of system commands, which many a PATH lacks.
    pub path: Vec<PathBuf>,
}

impl Machine {
    /// Looks at this machine. What cannot be read counts as absent.
    pub fn look() -> Self {
        let mut path: Vec<PathBuf> =
            std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        for directory in ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from) {
            if !path.contains(&directory) {
                path.push(directory);
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let controllers = cgroup2_mount(&mounts)
            .and_then(|mount| fs::read_to_string(PathBuf::from(mount).join("cgroup.controllers")).ok())
            .unwrap_or_default();
        Self {
            root: nix::unistd::geteuid().is_root(),
            controllers: controllers.split_whitespace().map(str::to_owned).collect(),
            kernel: version(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
            path,
        }
    }

    /// Whether a command of this name can be run.
    pub fn has_command(&self, name: &str) -> bool {
        let is_program = |path: PathBuf| {
            fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        self.path.iter().any(|directory| is_program(directory.join(name)))
    }

    /// [`Machine::path`] as the value of PATH.
    pub fn path_variable(&self) -> OsString {
        std::env::join_paths(&self.path).unwrap_or_default()
    }
}

/// Where the cgroup2 hierarchy is mounted.
pub fn cgroup2_mount(mountinfo: &str) -> Option<&str> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup2 ").then(|| left.split(' ').nth(4)).flatten()
    })
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("6.1.0-38-amd64\n"), (6, 1));
        assert_eq!(version("5.14"), (5, 14));
        assert_eq!(version(""), (0, 0));
    }

    #[test]
    fn this_machine_has_a_shell() {
        let machine = Machine::look();
        assert!(machine.has_command("sh") && !machine.has_command("no-such-command"));
        assert!(machine.kernel > (3, 0));
    }
}
