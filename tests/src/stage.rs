//! A small tree of cgroups as proctor makes it, with a keeper, and processes in it that do what a test tells them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;

use supervisor::cgroup::CgroupId;

use crate::{PATIENCE, Place, wait_until};

/// The tree and its actors. Groups: `executors`, `tasks`, `tasks/t`, `tasks/t/run-1` and `outside`.
#[derive(Debug)]
pub struct Stage {
    place: Place,
    keeper: Child,
    control: Option<BufReader<UnixStream>>,
}

impl Stage {
    /// Makes `executors`, `tasks` and `outside`, and starts the keeper, an actor beside them that belongs to no class.
    ///
    /// # Panics
    /// Without root.
    pub fn new(test: &str, actor: &Path) -> Self {
        let place = Place::new(test);
        for group in ["executors", "tasks", "outside"] {
            fs::create_dir(place.cgroup().join(group)).expect("make a cgroup");
        }
        let (mine, its) = UnixStream::pair().expect("a pair of sockets");
        mine.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let keeper = place.command(actor).stdin(OwnedFd::from(its)).spawn().expect("start the actor");
        Self { place, keeper, control: Some(BufReader::new(mine)) }
    }

    /// Process id of the keeper.
    pub fn keeper(&self) -> u32 {
        self.keeper.id()
    }

    /// The directory of a cgroup of the stage.
    pub fn group(&self, name: &str) -> PathBuf {
        self.place.cgroup().join(name)
    }

    /// Makes a cgroup.
    ///
    /// # Panics
    /// When it is there.
    pub fn make(&self, name: &str) -> CgroupId {
        fs::create_dir(self.group(name)).expect("make a cgroup");
        self.id(name)
    }

    /// Removes a cgroup, as soon as its last process is no more than a zombie.
    ///
    /// # Panics
    /// When it cannot be removed.
    #[track_caller]
    pub fn remove(&self, name: &str) {
        wait_until("an empty cgroup", || fs::remove_dir(self.group(name)).ok());
    }

    /// The id of a cgroup.
    ///
    /// # Panics
    /// When it is not there.
    pub fn id(&self, name: &str) -> CgroupId {
        let meta = fs::metadata(self.group(name)).expect("look at a cgroup");
        CgroupId::new(meta.ino()).expect("inode numbers are not 0")
    }

    /// Tells an actor (`.` for the keeper, else names from the keeper down: `executor/main`) what to do, and gives its answer.
    ///
    /// # Panics
    /// When it cannot.
    #[track_caller]
    pub fn tell(&mut self, who: &str, what: &str) -> String {
        let control = self.control.as_mut().expect("open until the end");
        writeln!(control.get_mut(), "{who} {what}").expect("tell the keeper");
        let mut answer = String::new();
        control.read_line(&mut answer).expect("an answer in time");
        assert!(!answer.starts_with("error") && !answer.is_empty(), "{who} {what}: {answer}");
        answer.trim_end().to_owned()
    }

    /// Has `parent` bear a child in a cgroup of the stage; gives its process id.
    ///
    /// # Panics
    /// When it cannot.
    #[track_caller]
    pub fn bear(&mut self, parent: &str, name: &str, group: &str) -> u32 {
        let what = format!("bear {name} {}", self.group(group).display());
        self.tell(parent, &what).parse().expect("a process id")
    }

    /// Has an actor move itself into a cgroup of the stage.
    ///
    /// # Panics
    /// When it cannot.
    #[track_caller]
    pub fn migrate(&mut self, who: &str, group: &str) {
        let what = format!("move {}", self.group(group).display());
        self.tell(who, &what);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // All actors end when their sockets do, the keeper first.
        self.control = None;
        let _ = self.keeper.wait();
        let groups = self.place.groups();
        let begin = std::time::Instant::now();
        while !groups.iter().all(|group| remove_tree(&self.group(group))) && begin.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }
}

/// Whether the group is gone, with all below.
fn remove_tree(group: &Path) -> bool {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    match fs::remove_dir(group) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
