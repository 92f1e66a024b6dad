//! A private cgroup for one test.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use supervisor::cgroup::Hierarchy;

use crate::{Finished, Running, wait_until};

/// A cgroup below our own and a directory for files, both removed at the end.
#[derive(Debug)]
pub struct Place {
    cgroup: PathBuf,
    files: PathBuf,
}

/// `proctor` as users have it, built by `cargo build -p supervisor`.
///
/// # Panics
/// When it was not built.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PROCTOR_BIN") {
        return path.into();
    }
    // A test is in target/PROFILE/deps, a benchmark in target/PROFILE.
    let own = std::env::current_exe().expect("own path");
    let found = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("proctor"))
        .find(|path| fs::metadata(path).is_ok());
    found.expect("proctor is not built: run `cargo build -p supervisor`, with --release for a benchmark")
}

/// `proctor` with its fault switches compiled in.
///
/// # Panics
/// When it was not built.
pub fn faulty_binary() -> PathBuf {
    let path = binary().with_file_name("proctor-faulty");
    assert!(fs::metadata(&path).is_ok(), "{} is not there: it is built with the tests", path.display());
    path
}

impl Place {
    /// Makes one. `test` is part of its name.
    ///
    /// # Panics
    /// Without root or a writable cgroup2.
    pub fn new(test: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("proctor-test-{test}.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hierarchy = Hierarchy::find().expect("these tests need cgroup2");
        let own = hierarchy.directory_of(hierarchy.own_cgroup()).expect("our own cgroup is shown");
        let cgroup = own.join(&name);
        fs::create_dir(&cgroup).expect("these tests need root and a writable cgroup2");
        let files = std::env::temp_dir().join(name);
        fs::create_dir(&files).expect("a directory for files");
        Self { cgroup, files }
    }

    /// The cgroup's directory.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The directory for files; root's, mode 0755.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// A program that is started inside the place.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let procs =
            std::ffi::CString::new(self.cgroup.join("cgroup.procs").into_os_string().into_encoded_bytes());
        let procs = procs.expect("no NUL in a path");
        let mut command = Command::new(program);
        // SAFETY: signal, open, write and close are async-signal-safe, and the path was made before the fork.
        unsafe {
            command.pre_exec(move || {
                // Tests that were started in the background have these ignored, and proctor would keep to that.
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                let file = libc::open(procs.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file < 0 || libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                    return Err(std::io::Error::last_os_error());
                }
                libc::close(file);
                Ok(())
            });
        }
        command
    }

    /// `proctor ARGS` in the place, to its end. Each use may add a report file of its own.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Finished {
        self.start(args).finish()
    }

    /// Starts `proctor ARGS` in the place.
    pub fn start<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Running {
        let mut command = self.command(binary());
        command.args(args);
        Running::spawn(command)
    }

    /// `proctor run --report FILE ARGS`: `args` are options, `--` and the command.
    pub fn run_reported<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Finished {
        self.start_reported(&binary(), None, args).finish()
    }

    /// Starts `program run --report FILE ARGS`, with `PROCTOR_FAULT` set where one is named (then give [`faulty_binary`]).
    pub fn start_reported<S: AsRef<std::ffi::OsStr>>(
        &self,
        program: &Path,
        fault: Option<&str>,
        args: &[S],
    ) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let report = self.file(&format!("report.{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut command = self.command(program);
        command.arg("run").arg("--report").arg(&report).args(args);
        if let Some(fault) = fault {
            command.env("PROCTOR_FAULT", fault);
        }
        Running::spawn(command).with_report(report)
    }

    /// The groups directly below, by name.
    pub fn groups(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.cgroup).expect("list the place");
        let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The directory of the one run's leaf that is there now: `proctor.run-<pid>/tasks/<task>/run-1`.
    pub fn leaf(&self, task: &str) -> PathBuf {
        wait_until("the run's leaf", || {
            self.groups()
                .into_iter()
                .map(|root| self.cgroup.join(root).join("tasks").join(task).join("run-1"))
                .find(|leaf| fs::metadata(leaf).is_ok())
        })
    }

    /// Waits until neither a process nor a group is left in the place: for a proctor that was killed and whose keeper cleans up.
    pub fn wait_empty(&self) {
        wait_until("an empty place", || {
            (self.groups().is_empty() && self.population() == "populated 0").then_some(())
        });
    }

    fn population(&self) -> String {
        let events = fs::read_to_string(self.cgroup.join("cgroup.events")).unwrap_or_default();
        events.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let groups = self.groups();
        let population = self.population();
        // Whatever the verdict, nothing stays: first the processes, then the groups.
        let _ = fs::write(self.cgroup.join("cgroup.kill"), "1");
        let begin = std::time::Instant::now();
        while self.population() != "populated 0" && begin.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        remove_tree(&self.cgroup);
        let _ = fs::remove_dir_all(&self.files);
        if !std::thread::panicking() {
            assert!(groups.is_empty(), "cgroups were left behind: {groups:?}");
            assert_eq!(population, "populated 0", "processes were left behind");
        }
    }
}

fn remove_tree(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}
