//! Which descriptors the executor gets for the task's input and output.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::error::RunError;
use super::terminal::{Interrupt, Notices, Sides, Terminal};
use crate::sys::fd;
use crate::sys::terminal::{self, Ground};
use crate::task::{Identity, TaskSpec};
use crate::wire::OutputPlan;

/// The plan, and the descriptors that go with it, in its order.
#[derive(Debug)]
pub(super) struct Stdio {
    pub(super) plan: OutputPlan,
    pub(super) fds: Vec<OwnedFd>,
}

/// Arranges it from the caller's three. With a terminal for input and output the task gets one of its own.
pub(super) fn arrange(
    [stdin, stdout, stderr]: [OwnedFd; 3],
    spec: &TaskSpec,
    interrupt: Interrupt,
) -> Result<(Stdio, Option<Terminal>), RunError> {
    let is_terminal = |fd: &OwnedFd| terminal::is_terminal(fd.as_fd());
    if is_terminal(&stdin) && is_terminal(&stdout) {
        let owner = match &spec.identity {
            Identity::Inherit => None,
            Identity::As { uid, .. } => Some(*uid),
        };
        let notices = if is_terminal(&stderr) { Notices::Here } else { Notices::Elsewhere };
        let (terminal, Sides { slave, master }) = Terminal::open(&stdin, owner, interrupt, notices)?;
        let stdio = match notices {
            Notices::Here => Stdio { plan: OutputPlan::Terminal, fds: vec![slave, master, stdout] },
            Notices::Elsewhere => {
                Stdio { plan: OutputPlan::TerminalAndStderr, fds: vec![slave, master, stdout, stderr] }
            }
        };
        return Ok((stdio, Some(terminal)));
    }
    let stdin = if is_terminal(&stdin) && terminal::ground(stdin.as_fd()) == Ground::Back {
        // In its own session nothing would keep the task from taking keys that are meant for others.
        fd::null().map_err(RunError::sys("open /dev/null"))?
    } else {
        stdin
    };
    let stdio = if ordered_together(stdout.as_fd(), stderr.as_fd()) {
        Stdio { plan: OutputPlan::Merged, fds: vec![stdin, stdout] }
    } else {
        Stdio { plan: OutputPlan::Split, fds: vec![stdin, stdout, stderr] }
    };
    Ok((stdio, None))
}

/// Whether the order between the two streams can be seen by whoever reads them.
fn ordered_together(stdout: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> bool {
    fd::same_place(stdout, stderr) && fd::identify(stdout).is_ok_and(|target| Some(target) != null_identity())
}

/// In /dev/null no order can be seen, and two streams keep their figures apart.
fn null_identity() -> Option<fd::Identity> {
    fd::identify(fd::null().ok()?.as_fd()).ok()
}
