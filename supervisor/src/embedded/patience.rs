//! What is done when somebody wants something of a run: by a signal to us, or by a key at its terminal.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::channel::Channel;
use super::signals::{TSTP, Wish};
use super::terminal::{Asked, Suspend, Terminal};
use crate::cgroup::parse::{self, ProcessState};
use crate::sys::signal;
use crate::task::life::STUCK_AFTER;
use crate::task::{Signal, StopPolicy, TaskSpec};
use crate::wire::ToExecutor;

/// What was asked for so far: the first wish to end the task is graceful, the second one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Nobody asked for an end yet.
    Running,
    /// A graceful stop was asked for.
    Stopping,
    /// The kill was asked for.
    Killing,
}

/// How long an executor may be silent after a kill: what it cannot end it names before.
const ANSWER_WITHIN: Duration = STUCK_AFTER.saturating_add(Duration::from_secs(1));

impl Patience {
    /// Until when the executor has to answer, if this is the moment in which the stop or the kill was asked for.
    pub(super) fn answer_until(
        self,
        before: Self,
        StopPolicy { grace, .. }: StopPolicy,
        until: Option<Instant>,
    ) -> Option<Instant> {
        let within = match (before, self) {
            (Self::Running, Self::Stopping) => grace.saturating_add(ANSWER_WITHIN),
            (Self::Running | Self::Stopping, Self::Killing) => ANSWER_WITHIN,
            (_, Self::Running | Self::Stopping | Self::Killing) => return until,
        };
        Instant::now().checked_add(within)
    }
}

/// When a task that runs from now on is over with its time and its grace, and its executor has told of it or of what it cannot end.
pub(super) fn overdue(spec: &TaskSpec) -> Option<Instant> {
    let within = spec.timeout?.saturating_add(spec.stop.grace).saturating_add(ANSWER_WITHIN);
    Instant::now().checked_add(within)
}

/// Whether nobody looks after the task: its main process is still a child of the executor, be it dead, so nobody has reaped it and nobody
/// ended it in time. The time may not have begun where nobody heard that it `runs`, or was even born, unless the executor was stopped before
/// it could say so.
pub(super) fn is_left_alone(main: Option<i32>, executor: i32, runs: bool) -> bool {
    let stat = |pid: i32| parse::stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?).ok();
    let is_stopped = || stat(executor).is_some_and(|stat| stat.state == ProcessState::Stopped);
    match main.map(stat) {
        Some(Some(main)) => main.ppid == executor && (runs || is_stopped()),
        Some(None) => false,
        None => is_stopped(),
    }
}

/// Ends at this time; never without one. Can be cancelled.
pub(super) async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => drop(timeout_at(until, std::future::pending::<()>()).await),
        None => std::future::pending().await,
    }
}

/// What is typed at the task's terminal, if it has one. Can be cancelled.
pub(super) async fn typed(terminal: &mut Option<Terminal>) -> Asked {
    match terminal {
        Some(terminal) => terminal.next().await,
        None => std::future::pending().await,
    }
}

/// A line for people, as it must be while the terminal is as it is now.
pub(super) fn shown<'l>(terminal: &Option<Terminal>, line: &'l str) -> Cow<'l, str> {
    terminal.as_ref().map_or(Cow::Borrowed(line), |terminal| terminal.shown(line))
}

impl From<Wish> for Asked {
    fn from(wish: Wish) -> Self {
        match wish {
            Wish::End => Self::Stop,
            Wish::HangUp => Self::HangUp,
            Wish::Suspend => Self::Suspend(Suspend::Us),
        }
    }
}

/// Does what is asked for.
pub(super) fn obey(
    asked: Asked,
    patience: Patience,
    spec: &TaskSpec,
    link: &Channel,
    terminal: &mut Option<Terminal>,
    notice: &mut dyn FnMut(&str),
) -> Patience {
    // If the executor is gone there is nobody to tell; its end is heard of at once.
    let tell = |request: ToExecutor| link.send(&request.encode(), &[]).unwrap_or(());
    let StopPolicy { signal, grace } = spec.stop;
    let (signal, request) = match asked {
        Asked::Interrupt => (Signal::INT, ToExecutor::Interrupted(spec.stop)),
        Asked::Stop | Asked::HangUp => (signal, ToExecutor::Stop(spec.stop)),
        Asked::Kill => {
            tell(ToExecutor::Kill);
            return Patience::Killing;
        }
        // Who has us ignore the signal, no job control of his, would wait for ever.
        Asked::Suspend(Suspend::Group) if signal::is_ignored(TSTP) => return patience,
        Asked::Suspend(whom) => {
            terminal.iter_mut().for_each(Terminal::restore);
            tell(ToExecutor::Pause);
            // Comes back when somebody continues us (fg, bg). It cannot fail for oneself.
            let _ = match whom {
                Suspend::Group => signal::suspend_group(),
                Suspend::Us => signal::stop_self(),
            };
            terminal.iter_mut().for_each(Terminal::resume);
            tell(ToExecutor::Resume);
            return patience;
        }
    };
    match (patience, asked) {
        (Patience::Running, _) => {
            let id = &spec.id;
            let line = format!("{id}: stopping with {signal}, kill after {grace:?}; once more to kill now");
            // First the deed: whoever reads the line may take its time.
            tell(request);
            if asked == Asked::Interrupt {
                // Afterwards: so the executor knows of the request when it hears of a death that the signal caused.
                terminal.iter().for_each(Terminal::interrupt);
            }
            notice(&shown(terminal, &line));
            Patience::Stopping
        }
        // The terminal's end is told in two ways, by a signal and by its descriptor.
        (Patience::Stopping | Patience::Killing, Asked::HangUp) => patience,
        (Patience::Stopping | Patience::Killing, _) => {
            tell(ToExecutor::Kill);
            Patience::Killing
        }
    }
}
