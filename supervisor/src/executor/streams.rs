//! The task's three standard streams, as its first process gets them.

use std::os::fd::{AsFd, OwnedFd};

use super::output::Output;
use super::setup::OutputSetup;
use crate::sys::{Errno, SysError, fd};
use crate::task::Identity;
use crate::wire::Stream;

/// The task's standard input.
pub(super) enum Input {
    /// As it was given to us.
    Given(OwnedFd),
    /// The slave side of the terminal, which is its output too and is kept there.
    Terminal,
}

/// One output for both streams or one for each.
pub(super) struct Outputs {
    pub(super) stdout: Output,
    pub(super) stderr: Option<Output>,
}

/// Makes them for a task that runs as `identity`.
pub(super) fn make(
    stdin: OwnedFd,
    output: OutputSetup,
    identity: &Identity,
) -> Result<(Input, Outputs), SysError> {
    Ok(match output {
        OutputSetup::Split { stdout, stderr } => {
            let (stdout, stderr) = (piped(stdout, identity)?, piped(stderr, identity)?);
            (Input::Given(stdin), Outputs { stdout, stderr: Some(stderr) })
        }
        OutputSetup::Merged { target } => {
            (Input::Given(stdin), Outputs { stdout: piped(target, identity)?, stderr: None })
        }
        OutputSetup::Terminal { master, target, stderr } => {
            fd::set_nonblocking(master.as_fd())?;
            let stderr = stderr.map(|stderr| piped(stderr, identity)).transpose()?;
            (Input::Terminal, Outputs { stdout: Output::new(master, stdin, target), stderr })
        }
    })
}

impl Outputs {
    pub(super) fn each(&self) -> impl Iterator<Item = &Output> {
        std::iter::once(&self.stdout).chain(&self.stderr)
    }

    /// Each with its name.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = (Stream, &mut Output)> {
        let stderr = self.stderr.as_mut().map(|stderr| (Stream::Stderr, stderr));
        std::iter::once((Stream::Stdout, &mut self.stdout)).chain(stderr)
    }
}

/// A stream through a pipe of the task's own. It belongs to the task's user, so that the task can open `/dev/stdout` again.
fn piped(target: OwnedFd, identity: &Identity) -> Result<Output, SysError> {
    let (reader, writer) = fd::pipe(fd::PipeFlags::ReadNonBlocking)?;
    if let Identity::As { uid, gid, .. } = identity {
        match fd::give_to(writer.as_fd(), *uid, *gid) {
            // Who may not do this may not change to that user either: the start says it better.
            Ok(()) | Err(SysError { errno: Errno::EPERM, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Output::new(reader, writer, target))
}
