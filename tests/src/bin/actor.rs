//! A process that does what a test tells it, step by step: it has children in given cgroups, moves, and ends, each when it is told to.
//!
//! Every actor reads lines from a socket and answers each with one line. `WHO VERB ARGS`: who is `.` for the actor itself, or a path of
//! names of children (`executor/main`). An actor whose socket ends, ends too, so nothing outlives the test that started the first one.
//!
//! `actor load` instead loads the audit and prints in one line why it could not, or `loaded`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use supervisor::audit::{Audit, Level};
use supervisor::sys::fork::{Child, Fork, SingleThreaded, into_cgroup};
use supervisor::sys::{fork, pidfd};

/// What comes of a command.
enum Next {
    /// Tell this.
    Answer(String),
    /// This is the new process: obey from now on.
    Become(Actor),
    /// End with this code.
    End(u8),
}

struct Actor {
    control: BufReader<UnixStream>,
    children: BTreeMap<String, (Child, BufReader<UnixStream>)>,
}

impl Actor {
    fn new(control: UnixStream) -> Self {
        Self { control: BufReader::new(control), children: BTreeMap::new() }
    }

    fn obey(mut self) -> Result<u8> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.control.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            match self.act(line.trim_end()) {
                Ok(Next::Answer(answer)) => writeln!(self.control.get_mut(), "{answer}")?,
                Ok(Next::Become(child)) => self = child,
                Ok(Next::End(code)) => return Ok(code),
                Err(error) => writeln!(self.control.get_mut(), "error: {error:#}")?,
            }
        }
    }

    fn act(&mut self, line: &str) -> Result<Next> {
        let (who, rest) = line.split_once(' ').context("no verb")?;
        if who != "." {
            let (name, who) = who.split_once('/').unwrap_or((who, "."));
            let (_, stream) = self.children.get_mut(name).with_context(|| format!("no child {name}"))?;
            writeln!(stream.get_mut(), "{who} {rest}")?;
            let mut answer = String::new();
            stream.read_line(&mut answer)?;
            return Ok(Next::Answer(answer.trim_end().to_owned()));
        }
        let words: Vec<&str> = rest.split(' ').collect();
        Ok(match words.as_slice() {
            ["bear", name, cgroup] => self.bear(name, cgroup)?,
            ["move", cgroup] => {
                fs::write(format!("{cgroup}/cgroup.procs"), "0")?;
                Next::Answer("ok".to_owned())
            }
            ["shuttle", times, one, other] => {
                for _ in 0..times.parse::<u32>()? {
                    fs::write(format!("{one}/cgroup.procs"), "0")?;
                    fs::write(format!("{other}/cgroup.procs"), "0")?;
                }
                Next::Answer("ok".to_owned())
            }
            ["signal", name, number] => {
                let (child, _) = self.children.get(*name).with_context(|| format!("no child {name}"))?;
                pidfd::send_signal(child.pidfd.as_fd(), number.parse()?)?;
                self.reap(name)?
            }
            ["end", name, code] => {
                let (_, stream) = self.children.get_mut(*name).with_context(|| format!("no child {name}"))?;
                writeln!(stream.get_mut(), ". exit {code}")?;
                self.reap(name)?
            }
            ["reap", name] => self.reap(name)?,
            ["exit", code] => Next::End(code.parse()?),
            other => bail!("what is {other:?}?"),
        })
    }

    fn bear(&mut self, name: &str, cgroup: &str) -> Result<Next> {
        let directory = File::open(cgroup).with_context(|| cgroup.to_owned())?;
        let (mine, its) = UnixStream::pair()?;
        let proof = SingleThreaded::check().context("not single-threaded")?;
        match into_cgroup(proof, directory.as_fd())? {
            // What belongs to the parent must be closed here, or the end of a socket would never come.
            Fork::Child => {
                drop(mine);
                self.children.clear();
                Ok(Next::Become(Self::new(its)))
            }
            Fork::Parent(child) => {
                let pid = child.pid;
                self.children.insert(name.to_owned(), (child, BufReader::new(mine)));
                Ok(Next::Answer(pid.to_string()))
            }
        }
    }

    fn reap(&mut self, name: &str) -> Result<Next> {
        let (child, _) = self.children.remove(name).with_context(|| format!("no child {name}"))?;
        let status = wait(&child)?;
        Ok(Next::Answer(status))
    }
}

fn wait(child: &fork::Child) -> Result<String> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    match waitid(Id::PIDFd(child.pidfd.as_fd()), WaitPidFlag::WEXITED)? {
        WaitStatus::Exited(_, code) => Ok(format!("exited {code}")),
        WaitStatus::Signaled(_, signal, _) => Ok(format!("signaled {}", signal as i32)),
        other => bail!("strange status {other:?}"),
    }
}

fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("load") => {
            let answer =
                Audit::load(Level::Anomalies).map_or_else(|error| error.why(), |_| "loaded".to_owned());
            writeln!(std::io::stdout(), "{answer}")?;
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            // SAFETY: descriptor 0 is open for the whole life of this process: the test made it a socket.
            let control = unsafe { BorrowedFd::borrow_raw(0) }.try_clone_to_owned()?;
            let null = File::open("/dev/null")?;
            nix::unistd::dup2_stdin(&null)?;
            Ok(ExitCode::from(Actor::new(UnixStream::from(control)).obey()?))
        }
    }
}
