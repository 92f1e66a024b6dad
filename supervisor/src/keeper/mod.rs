//! The keeper: a fork server. It makes the cgroup tree, starts executors by forking itself, reaps what nobody else can, and removes the
//! tree at the end.
//!
//! `proctor run` starts one of its own. It stays in the caller's cgroup, beside the tree, so that it can remove the tree to the last
//! directory; it leads a session of its own, so that no Ctrl-C reaches it; and it watches the socket to `proctor run`: whatever way that
//! one ends, SIGKILL included, the keeper ends the tasks and leaves nothing.
//!
//! Protocol: [`crate::wire::ToKeeper`] and [`crate::wire::FromKeeper`] on descriptor 0.

mod tree;

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use tree::Tree;

use crate::cgroup::{Cgroup, CgroupError, Population};
use crate::executor::{self, OutputSetup, Setup, children};
use crate::sys::fork::{self, Child, Fork, SingleThreaded};
use crate::sys::poll::{Interest, Poll};
use crate::sys::process::Title;
use crate::sys::signal::{self, ChildSignals};
use crate::sys::socket::{self, Message, Received};
use crate::sys::wait::{self, Children, Ended};
use crate::sys::{Errno, SysError, clock, fd, pidfd, process};
use crate::task::{StartFailure, TaskId};
use crate::wire::{FromKeeper, OutputPlan, ToKeeper};

/// The hidden subcommand that starts a keeper.
pub const SUBCOMMAND: &str = "keeper";

/// Room for a title in the keeper's arguments: its executors write the task's name there, for `ps`.
pub const TITLE_ROOM: usize = 160;

/// How long a new executor may take to say that it lives.
const SPEAK_WITHIN: Duration = Duration::from_secs(5);

/// How often an end that does not come is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the tree's removal is tried before what is left is reported.
const REMOVE_WITHIN: Duration = Duration::from_secs(10);

/// How long an executor may take to hand over the last output and to end, once its task is dead.
const END_WITHIN: Duration = Duration::from_secs(3);

/// What came of forking an executor.
enum Birth {
    /// We are it.
    We,
    /// It lives.
    Lives(Child),
    /// It was killed before its first instruction.
    KilledAtOnce,
}

/// Forks an executor and hears from it that it lives: on some kernels it never does (see [`Tree::move_in`]).
fn birth(proof: SingleThreaded, tree: &Tree) -> Result<Birth, StartFailure> {
    let failed = |error: SysError| StartFailure {
        step: error.call.to_owned(),
        object: tree.executors.path().to_owned(),
        errno: error.errno as i32,
    };
    let (hear, tell) = fd::pipe(fd::PipeFlags::Blocking).map_err(failed)?;
    match fork::into_cgroup(proof, tree.executors.as_fd()).map_err(failed)? {
        Fork::Child => {
            // At once: later a task could have killed us, which is no death at birth. If nobody hears it, the keeper is gone, which the
            // executor sees by itself.
            let _ = fd::write(tell.as_fd(), b"!");
            Ok(Birth::We)
        }
        Fork::Parent(child) => {
            drop(tell);
            let mut poll = Poll::<1>::new();
            let spoke = poll.add(hear.as_fd(), Interest::Read);
            poll.wait(Some(SPEAK_WITHIN)).map_err(failed)?;
            if !poll.ready(spoke) {
                // Frozen, or on a machine that is overwhelmed: not dead, and its end would be heard of like any other's.
                return Ok(Birth::Lives(child));
            }
            match fd::read(hear.as_fd(), &mut [0]).map_err(failed)? {
                fd::Read::Bytes(_) | fd::Read::Empty => Ok(Birth::Lives(child)),
                fd::Read::End => {
                    // INV-3: our own child, which nobody else reaps.
                    match wait::reap_ended(child.pid).map_err(failed)? {
                        Ended::Signaled(KILL) => Ok(Birth::KilledAtOnce),
                        Ended::Signaled(_) | Ended::Exited(_) => {
                            Err(failed(SysError::new("start an executor in", Errno::ECHILD)))
                        }
                    }
                }
            }
        }
    }
}

/// What the process is to be after a turn of the loop.
enum Next {
    /// Still the keeper.
    Go,
    /// Everything is done.
    End,
    /// We are the fork: the executor of this task.
    BeExecutor(Box<Setup>, TaskId),
}

/// The whole life of a keeper process.
pub fn main() -> ExitCode {
    let end = match Keeper::new() {
        Ok((keeper, title, proof)) => keeper.serve().and_then(|next| match next {
            Next::Go | Next::End => Ok(()),
            Next::BeExecutor(setup, task) => be_executor(*setup, &task, title, proof),
        }),
        Err(error) => Err(error),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the keeper cannot go on");
            ExitCode::FAILURE
        }
    }
}

fn be_executor(setup: Setup, task: &TaskId, title: Title, proof: SingleThreaded) -> Result<(), SysError> {
    process::set_name(c"proctor-exec")?;
    title.set(proof, &format!("proctor-exec: {task}"));
    if let Err(error) = executor::run(setup, proof) {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%task, %error, source, "the executor ends");
    }
    Ok(())
}

struct Keeper {
    socket: OwnedFd,
    signals: ChildSignals,
    proof: SingleThreaded,
    title: Title,
    tree: Option<Tree>,
    executors: Vec<Child>,
}

impl Keeper {
    fn new() -> Result<(Self, Title, SingleThreaded), SysError> {
        signal::block_all()?;
        let socket = fd::take_inherited(0)?;
        fd::close_inherited(3)?;
        process::new_session()?;
        process::become_subreaper()?;
        SysError::from_io("chdir", std::env::set_current_dir("/"))?;
        process::set_name(c"proctor-keeper")?;
        let proof = SingleThreaded::check().ok_or(SysError::new("clone", Errno::EINVAL))?;
        let (signals, title) = (ChildSignals::new()?, Title::find()?);
        Ok((Self { socket, signals, proof, title, tree: None, executors: Vec::new() }, title, proof))
    }

    fn serve(mut self) -> Result<Next, SysError> {
        loop {
            let mut poll = Poll::<2>::new();
            let socket = poll.add(self.socket.as_fd(), Interest::Read);
            let signals = poll.add(self.signals.as_fd(), Interest::Read);
            poll.wait(None)?;
            let (socket, signals) = (poll.ready(socket), poll.ready(signals));
            if signals {
                self.reap()?;
            }
            if socket {
                match self.receive()? {
                    Next::Go => {}
                    next @ (Next::End | Next::BeExecutor(..)) => return Ok(next),
                }
            }
        }
    }

    fn receive(&mut self) -> Result<Next, SysError> {
        let message = match socket::receive(self.socket.as_fd()) {
            Ok(Received::Message(message)) => message,
            Ok(Received::Empty) => return Ok(Next::Go),
            // Whoever we work for is gone, or speaks nonsense: nothing of it may stay.
            Ok(Received::Closed) | Err(_) => {
                self.finish()?;
                return Ok(Next::End);
            }
        };
        match ToKeeper::decode(&message.bytes) {
            Ok(ToKeeper::Setup(setup)) => {
                let answer = match self.make_tree(&setup.root, setup.parent, message.fds) {
                    Ok(answer) => answer,
                    Err(error) => FromKeeper::Failed(failed_cgroup(&error)),
                };
                self.send(&answer);
                Ok(Next::Go)
            }
            Ok(ToKeeper::Start { task, output }) => match self.start(task, output, message) {
                Ok(next) => Ok(next),
                Err(failure) => {
                    self.send(&FromKeeper::Failed(failure));
                    Ok(Next::Go)
                }
            },
            Ok(ToKeeper::Finish) => {
                self.finish()?;
                Ok(Next::End)
            }
            Err(error) => {
                let failure = StartFailure {
                    step: error.to_string(),
                    object: String::new(),
                    errno: Errno::EPROTO as i32,
                };
                self.send(&FromKeeper::Failed(failure));
                Ok(Next::Go)
            }
        }
    }

    fn make_tree(
        &mut self,
        root: &str,
        parent: String,
        fds: Vec<OwnedFd>,
    ) -> Result<FromKeeper, CgroupError> {
        let missing = CgroupError {
            action: "open",
            path: parent.clone(),
            source: SysError::new("recvmsg", Errno::EBADF),
        };
        let dir = fds.into_iter().next().ok_or(missing)?;
        let tree = Tree::create(Cgroup::from_dir(dir, parent)?, root)?;
        self.title.set(self.proof, &format!("proctor-keeper: {}", tree.path()));
        let tree = self.tree.insert(tree);
        Ok(FromKeeper::Ready {
            executors: tree.executors.id().get(),
            tasks: tree.tasks.id().get(),
            root: tree.path().to_owned(),
        })
    }

    /// Forks an executor. In the fork this returns what it is to be; everything that was the keeper's is closed when `self` is dropped.
    fn start(&mut self, task: TaskId, plan: OutputPlan, message: Message) -> Result<Next, StartFailure> {
        let tree = self.tree.as_mut().ok_or_else(|| protocol("the tree was not made yet"))?;
        let mut fds = message.fds.into_iter();
        let mut next = |what| fds.next().ok_or_else(|| protocol(what));
        let (spec, link, stdin) = (next("no spec")?, next("no link")?, next("no standard input")?);
        let output = match plan {
            OutputPlan::Split => {
                OutputSetup::Split { stdout: next("no stdout")?, stderr: next("no stderr")? }
            }
            OutputPlan::Merged => OutputSetup::Merged { target: next("no output")? },
            OutputPlan::Terminal => OutputSetup::Terminal {
                master: next("no terminal")?,
                target: next("no output")?,
                stderr: None,
            },
            OutputPlan::TerminalAndStderr => OutputSetup::Terminal {
                master: next("no terminal")?,
                target: next("no output")?,
                stderr: Some(next("no stderr")?),
            },
        };
        let name = CString::new(task.directory_name()).map_err(|_| protocol("a NUL in the task's name"))?;
        let cgroup = tree.tasks.create(&name).map_err(|error| failed_cgroup(&error))?;
        let setup = Setup { spec, link, stdin, output, task: cgroup };
        let born = match birth(self.proof, tree) {
            Ok(Birth::KilledAtOnce) if !tree.is_moved_in() => {
                tree.move_in().map_err(|error| failed_cgroup(&error)).and_then(|()| birth(self.proof, tree))
            }
            born => born,
        };
        let failure = match born {
            Ok(Birth::We) => return Ok(Next::BeExecutor(Box::new(setup), task)),
            Ok(Birth::Lives(child)) => {
                let pid = child.pid;
                self.executors.push(child);
                self.send(&FromKeeper::Started { pid });
                return Ok(Next::Go);
            }
            Ok(Birth::KilledAtOnce) => StartFailure {
                step: String::from("start an executor, which is killed at birth, in"),
                object: tree.executors.path().to_owned(),
                errno: Errno::ECHILD as i32,
            },
            Err(failure) => failure,
        };
        // The task was not born: its directory must not stay.
        let _ = tree.tasks.remove_child(&name);
        Err(failure)
    }

    /// Reaps all that has ended: executors, and what came to us because its executor died. INV-3.
    fn reap(&mut self) -> Result<Children, SysError> {
        self.signals.clear()?;
        loop {
            let pid = match wait::peek()? {
                Children::Ended(pid) => pid,
                rest @ (Children::Running | Children::None) => return Ok(rest),
            };
            match self.executors.iter().position(|child| child.pid == pid) {
                Some(at) => {
                    let child = self.executors.swap_remove(at);
                    if let Some(ended) = wait::reap(child.pidfd.as_fd())? {
                        self.send(&FromKeeper::ExecutorEnded { pid, status: status(ended) });
                    }
                }
                None => {
                    let status = status(wait::reap_ended(pid)?);
                    self.send(&FromKeeper::OrphanEnded { pid, status });
                }
            }
        }
    }

    /// Ends everything and removes the tree.
    fn finish(&mut self) -> Result<(), SysError> {
        let Some(mut tree) = self.tree.take() else { return Ok(()) };
        // If we cannot, the tree cannot be removed, which is told below.
        let _ = tree.move_out();
        // Executors that are still there end by themselves when their task has; without whoever they work for they kill it.
        let _ = tree.tasks.kill();
        let give_up = clock::monotonic() + REMOVE_WITHIN;
        let mut empty_since = None;
        let answer = loop {
            let children = self.reap()?;
            let tasks = tree.tasks.events().and_then(|events| {
                let read =
                    |source| CgroupError { action: "watch", path: tree.tasks.path().to_owned(), source };
                events.population().map_err(read)
            });
            let now = clock::monotonic();
            let late = now >= give_up;
            if self.executors.is_empty() && children != Children::None {
                self.kill_orphans();
            }
            match (tasks, children) {
                (Ok(Population::Empty | Population::Removed) | Err(_), Children::None) => match tree.remove()
                {
                    Ok(()) => break FromKeeper::Finished,
                    Err(error) if late => {
                        break FromKeeper::Left { why: format!("{error}: {}", error.source) };
                    }
                    // A stranger may have been moved in: it goes with the tree.
                    Err(_) => drop(tree.kill()),
                },
                // What cannot be killed now (state D) is waited for as long as it takes: it is ours to end.
                (Ok(Population::Populated), _) => drop(tree.tasks.kill()),
                // An executor whose task is dead ends within a moment, but for one that hangs.
                (
                    Ok(Population::Empty | Population::Removed) | Err(_),
                    Children::Running | Children::Ended(_),
                ) => {
                    if now >= *empty_since.get_or_insert(now) + END_WITHIN {
                        drop(tree.kill());
                    }
                }
            }
            let mut poll = Poll::<1>::new();
            poll.add(self.signals.as_fd(), Interest::Read);
            poll.wait(Some(AGAIN))?;
        };
        self.send(&answer);
        Ok(())
    }

    /// Children that are no executors: processes that left the tree and whose executor is dead.
    fn kill_orphans(&self) {
        for pid in children::living() {
            if let Ok(orphan) = pidfd::open(pid) {
                // One that has ended meanwhile needs no signal.
                let _ = pidfd::send_signal(orphan.as_fd(), KILL.into());
            }
        }
    }

    fn send(&self, message: &FromKeeper) {
        // Whoever is gone needs no answer; the end of its socket is seen by the loop.
        let _ = socket::send(self.socket.as_fd(), &message.encode(), &[]);
    }
}

const KILL: u8 = 9;

fn status(ended: Ended) -> u32 {
    match ended {
        Ended::Exited(code) => u32::from(code),
        Ended::Signaled(signal) => 256 + u32::from(signal),
    }
}

fn protocol(what: &str) -> StartFailure {
    StartFailure {
        step: String::from("understand the request"),
        object: what.to_owned(),
        errno: Errno::EPROTO as i32,
    }
}

fn failed_cgroup(error: &CgroupError) -> StartFailure {
    StartFailure {
        step: format!("{} cgroup", error.action),
        object: error.path.clone(),
        errno: error.source.errno as i32,
    }
}
