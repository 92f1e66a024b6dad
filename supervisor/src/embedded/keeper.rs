//! The keeper of one `proctor run`, seen from its parent.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::channel::Channel;
use super::error::RunError;
use crate::keeper::{SUBCOMMAND, TITLE_ROOM};
use crate::sys::signal::HeldBack;
use crate::sys::{pidfd, socket};
use crate::task::TaskId;
use crate::wire::{FromKeeper, KeeperSetup, OutputPlan, ToKeeper};

/// The process and the socket to it.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    channel: Channel,
}

/// A message of the keeper, or its end.
#[derive(Debug)]
pub(super) enum News {
    Message(FromKeeper),
    Gone,
}

impl Keeper {
    /// Starts a keeper from our own program file. Nothing is made yet that would have to be removed.
    pub(super) fn spawn() -> Result<Self, RunError> {
        let (ours, theirs) = socket::pair().map_err(RunError::sys("make a socket for the keeper"))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("proctor").args([SUBCOMMAND, &" ".repeat(TITLE_ROOM)]);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // Until it leads a session of its own, a Ctrl-C reaches it as it reaches us.
        let held_back = HeldBack::begin().map_err(RunError::sys("hold signals back"))?;
        let process = command.spawn().map_err(RunError::io("start the keeper"))?;
        drop(held_back);
        let channel = Channel::new(ours).map_err(RunError::sys("wait for the keeper"))?;
        Ok(Self { process, channel })
    }

    /// Makes the tree `root` below `parent`.
    pub(super) async fn set_up(
        &self,
        setup: KeeperSetup,
        parent: OwnedFd,
    ) -> Result<(u64, u64, String), RunError> {
        self.send(&ToKeeper::Setup(setup), &[parent.as_fd()])?;
        match self.next().await? {
            News::Message(FromKeeper::Ready { executors, tasks, root }) => Ok((executors, tasks, root)),
            News::Message(FromKeeper::Failed(failure)) => Err(RunError::NotStarted(failure)),
            News::Message(_) | News::Gone => Err(RunError::KeeperDied),
        }
    }

    /// Starts an executor; gives its pid.
    pub(super) async fn start(
        &self,
        task: TaskId,
        output: OutputPlan,
        fds: &[BorrowedFd<'_>],
    ) -> Result<i32, RunError> {
        self.send(&ToKeeper::Start { task, output }, fds)?;
        match self.next().await? {
            News::Message(FromKeeper::Started { pid }) => Ok(pid),
            News::Message(FromKeeper::Failed(failure)) => Err(RunError::NotStarted(failure)),
            News::Message(_) | News::Gone => Err(RunError::KeeperDied),
        }
    }

    /// What it says next. Can be cancelled.
    pub(super) async fn next(&self) -> Result<News, RunError> {
        match self.channel.receive().await.map_err(RunError::sys("hear from the keeper"))? {
            Some(message) => Ok(News::Message(FromKeeper::decode(&message.bytes).map_err(RunError::Wire)?)),
            None => Ok(News::Gone),
        }
    }

    /// Asks it to end what is left, remove the tree and go.
    pub(super) fn finish(&self) -> Result<(), RunError> {
        self.send(&ToKeeper::Finish, &[])
    }

    /// Continues it, should somebody have stopped it: nobody else would end what is left.
    pub(super) fn wake(&self) {
        let opened = i32::try_from(self.process.id()).map(pidfd::open);
        if let Ok(Ok(process)) = opened {
            // Our child that we have not reaped. One that is gone needs nothing.
            let _ = pidfd::send_signal(process.as_fd(), CONT);
        }
    }

    /// Reaps it. It has closed its socket, so it is gone or about to be.
    pub(super) fn reap(&mut self) {
        // Our child that nobody else can have reaped; if it was never there, nothing is left to do.
        let _ = self.process.wait();
    }

    fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> Result<(), RunError> {
        self.channel.send(&message.encode(), fds).map_err(RunError::sys("speak to the keeper"))
    }
}

/// `SIGCONT`.
const CONT: i32 = 18;
