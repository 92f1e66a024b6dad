//! What each test of the programs stands on: a private tree like proctor's, with an audit of its own that watches it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use supervisor::audit::probe::{Run, Sizes, global};
use supervisor::audit::{Audit, ExecutorLife, Level, ProcessKey, Subject, Verdict};
use supervisor::cgroup::CgroupId;
use tests::{Place, wait_until};

/// A cgroup: where it is and what the kernel calls it.
#[derive(Clone, Debug)]
pub struct Dir {
    pub path: PathBuf,
    pub id: CgroupId,
}

impl Dir {
    fn make(path: PathBuf) -> Self {
        fs::create_dir(&path).expect("make a cgroup");
        let id = CgroupId::new(fs::metadata(&path).expect("look at the cgroup").ino()).expect("an id");
        Self { path, id }
    }

    /// Makes a child group.
    pub fn child(&self, name: &str) -> Self {
        Self::make(self.path.join(name))
    }

    /// Moves a process here, as a stranger to all: the test itself writes.
    pub fn take(&self, pid: u32) -> std::io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    /// Waits until it can be removed, and removes it.
    pub fn remove(&self) {
        wait_until("the removal of a cgroup", || match fs::remove_dir(&self.path) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => None,
            Err(error) => panic!("remove {}: {error}", self.path.display()),
        });
    }
}

impl std::fmt::Display for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}

/// The counters of the kernel side that belong to no run. What is not named must be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub failed: u64,
    pub young_moves: u64,
    pub dead_attaches: u64,
    pub executor_births: u64,
    pub executor_exits: u64,
    pub execs: u64,
    pub identity_mismatches: u64,
    pub mkdirs: u64,
    pub rmdirs: u64,
    pub dropped: u64,
}

impl Totals {
    /// One executor that came and went, and this many executions of programs.
    pub fn one_executor(execs: u64) -> Self {
        Self { executor_births: 1, executor_exits: 1, execs, ..Self::default() }
    }
}

pub struct Ground {
    pub audit: Audit,
    pub executors: Dir,
    pub tasks: Dir,
    /// `tasks/t`, made before the audit began to count.
    pub task: Dir,
    /// `tasks/t/run-1`.
    pub run: Dir,
    /// A cgroup that nobody watches.
    pub other: Dir,
    /// Groups made during the setup.
    made: u64,
    place: Place,
}

impl Ground {
    pub fn new(test: &str) -> Self {
        Self::with(test, Level::Movements, Sizes::default())
    }

    pub fn with(test: &str, level: Level, sizes: Sizes) -> Self {
        let place = Place::new(test);
        let [executors, tasks, other] =
            ["executors", "tasks", "other"].map(|name| Dir::make(place.cgroup().join(name)));
        let mut audit = Audit::load_sized(level, sizes).unwrap_or_else(|error| panic!("{}", error.why()));
        audit.watch(executors.id, tasks.id).expect("watch");
        let task = tasks.child("t");
        let run = task.child("run-1");
        Self { audit, executors, tasks, task, run, other, made: 2, place }
    }

    /// Another run beside the first.
    pub fn another_run(&mut self) -> Dir {
        self.made += 1;
        self.task.child("run-2")
    }

    /// Makes `tasks/t` a tree of threads: its run and `TASK/threads` beside that may each hold some of one process.
    pub fn thread_trees(&self) {
        let threads = self.task.child("threads");
        for dir in [&self.run, &threads] {
            fs::write(dir.path.join("cgroup.type"), "threaded").expect("make the cgroup threaded");
        }
    }

    /// Plays a script in the place, as a stranger to the tree, to its end. `EX`, `RUN` and `OTHER` stand for the cgroups.
    pub fn play(&self, script: &str) {
        self.start(script).end();
    }

    /// Starts a script.
    pub fn start(&self, script: &str) -> Actors {
        let mut command = self.place.command(env!("CARGO_BIN_EXE_scenario"));
        command.arg(self.fill(script)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("start the actors");
        let stdin = process.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        Actors { process, stdin: Some(stdin), stdout }
    }

    fn fill(&self, script: &str) -> String {
        let word = |word: &str| match word {
            "EX" => self.executors.to_string(),
            "TASKS" => self.tasks.to_string(),
            "TASK" => self.task.to_string(),
            "RUN" => self.run.to_string(),
            "OTHER" => self.other.to_string(),
            other => match other.split_once('/') {
                Some(("RUN", below)) => format!("{}/{below}", self.run),
                Some(("TASK", below)) => format!("{}/{below}", self.task),
                Some(_) | None => other.to_owned(),
            },
        };
        script.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    }

    /// All that was counted for a run, without the record of its main process.
    pub fn counted(&self, run: &Dir) -> Run {
        let run = self.audit.run_figures(run.id).expect("read the run").expect("the run is on record");
        Run {
            main_start: 0,
            main_exited: 0,
            main_tgid: 0,
            main_status: 0,
            signal: 0,
            sender: 0,
            sender_uid: 0,
            sender_kernel: 0,
            sender_comm: [0; 16],
            main_parent: 0,
            ..run
        }
    }

    /// The run's counters with its main process.
    pub fn record(&self, run: &Dir) -> Run {
        self.audit.run_figures(run.id).expect("read the run").expect("the run is on record")
    }

    /// What was counted apart from the runs, without the groups of the setup.
    pub fn totals(&self) -> Totals {
        let figures = self.audit.global_figures().expect("read the globals");
        let of = |index: u32| figures[index as usize];
        Totals {
            failed: of(global::FAILED),
            young_moves: of(global::YOUNG_MOVES),
            dead_attaches: of(global::DEAD_ATTACHES),
            executor_births: of(global::EXECUTOR_BIRTHS),
            executor_exits: of(global::EXECUTOR_EXITS),
            execs: of(global::EXECS),
            identity_mismatches: of(global::IDENTITY_MISMATCH),
            mkdirs: of(global::MKDIRS) - self.made,
            rmdirs: of(global::RMDIRS),
            dropped: of(global::DROPPED),
        }
    }

    /// Asserts all counters of the first run and all totals. No process may be on record any more.
    #[track_caller]
    pub fn expect(&self, run: Run, totals: Totals) {
        assert_eq!((self.counted(&self.run), self.totals()), (run, totals));
        assert_eq!(self.audit.watched().expect("read the processes"), 0, "processes stay on record");
    }

    /// The verdict on the first run.
    pub fn verdict(
        &mut self,
        executor: Option<ProcessKey>,
        life: ExecutorLife,
        main: Option<u32>,
    ) -> Verdict {
        let subject = Subject { executor, executor_life: life, run: self.run.id, main };
        self.audit.verdict(&subject).expect("a verdict")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // The place kills and removes what is there.
        }
        for dir in [&self.executors, &self.tasks, &self.other] {
            remove_below(dir.path.as_path());
        }
    }
}

fn remove_below(path: &Path) {
    for entry in fs::read_dir(path).expect("list a cgroup").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let id = CgroupId::new(1).expect("a number");
    Dir { path: path.to_owned(), id }.remove();
}

/// The processes of a script.
pub struct Actors {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Actors {
    /// Waits for `WORD PID` and gives the process id. Ends when the actors end, which a failed step makes them do.
    #[track_caller]
    pub fn hear(&mut self, word: &str) -> u32 {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("hear the actors");
        let said = line.trim_end().split_once(' ');
        let (said, pid) = said.unwrap_or_else(|| panic!("heard `{line}` instead of {word}"));
        assert_eq!(said, word);
        pid.parse().expect("a process id")
    }

    /// Lets the one that listens go on.
    pub fn tell(&mut self) {
        self.stdin.as_mut().expect("stdin is open").write_all(b"\n").expect("tell the actors");
    }

    /// Waits until all have ended well.
    #[track_caller]
    pub fn end(mut self) {
        drop(self.stdin.take());
        let status = wait_until("the end of the actors", || self.process.try_wait().expect("wait"));
        assert!(status.success(), "the actors: {status}");
    }
}
