//! The course of one foreground run.

use std::os::fd::{AsFd, OwnedFd};

use tokio::time::Instant;

use super::channel::Channel;
use super::keeper::{Keeper, News};
use super::patience::{Patience, is_left_alone, obey, overdue, passed, shown, typed};
use super::proof::Proof;
use super::report::{Ending, Report};
use super::salvage::{self, Unborn};
use super::signals::{Signals, Wish};
use super::stdio::{self, Stdio};
use super::{Request, RunError, holders};
use crate::audit::ExecutorLife;
use crate::cgroup::Hierarchy;
use crate::sys::{clock, fd, process, socket};
use crate::task::{Outcome, TaskSpec};
use crate::wire::{FromExecutor, FromKeeper, KeeperSetup, RunReport, StuckProcess, encode_spec};

/// The run as we have heard of it.
#[derive(Debug, Default)]
struct Heard {
    leaf: Option<u64>,
    main: Option<i32>,
    runs: bool,
    report: Option<Box<RunReport>>,
    executor_ended: Option<u32>,
    main_reaped_by_keeper: Option<u32>,
    keeper_gone: bool,
}

pub(super) async fn run(request: Request, notice: &mut dyn FnMut(&str)) -> Result<Report, RunError> {
    let Request { spec, audit: wish, stdio: given, interrupt } = request;
    let started_wall = clock::wall();
    let mut signals = Signals::new()?;
    if !process::is_proc_ours() {
        return Err(RunError::Proc);
    }
    let mut proof = Proof::begin(wish)?;
    let hierarchy = Hierarchy::find().map_err(RunError::Hierarchy)?;
    let parent = hierarchy.open_own().map_err(RunError::Hierarchy)?;
    let parent_again = fd::duplicate(parent.as_fd()).map_err(RunError::sys("hold the own cgroup"))?;
    // If the keeper is killed, what it held comes to us.
    process::become_subreaper().map_err(RunError::sys("become a subreaper"))?;

    let (stdio, mut terminal) = stdio::arrange(given, &spec, interrupt)?;
    let mut keeper = Keeper::spawn()?;
    let setup = KeeperSetup {
        root: format!("proctor.run-{}", process::id()),
        parent: hierarchy.own_cgroup().to_string(),
    };
    let unborn = Unborn::look(parent_again.as_fd(), &setup.root);
    let mut root = None;
    let begun = begin(&keeper, setup, parent, &mut root, &mut proof, wish, &spec, &stdio).await;
    let (Begun { link, executor }, root) = match (begun, root) {
        (Ok(begun), Some(root)) => (begun, root),
        (Ok(_), None) => return Err(RunError::KeeperDied),
        (Err(error), root) => {
            drop(terminal);
            let left = give_up(&mut keeper, unborn, parent_again, root).await;
            left.into_iter().for_each(|left| notice(&format!("left behind: {left}")));
            return Err(error);
        }
    };
    // The executor has them; ours would keep a pipe open after it.
    drop(stdio);

    let mut heard = Heard::default();
    let mut patience = Patience::Running;
    let mut link_open = true;
    let mut answer_until: Option<Instant> = None;
    // From now on already: an executor can be stopped before it has told of a birth.
    let mut over_by: Option<Instant> = overdue(&spec);
    while heard.executor_ended.is_none() && (link_open || !heard.keeper_gone) {
        // In this order: what came while we were stopped ourselves is heard before the time counts that passed.
        tokio::select! {
            biased;
            message = link.receive(), if link_open => match message.map_err(RunError::sys("hear from the executor"))? {
                Some(message) => match FromExecutor::decode(&message.bytes).map_err(RunError::Wire)? {
                    FromExecutor::Born { leaf, pid, .. } => {
                        (heard.leaf, heard.main) = (Some(leaf), Some(pid));
                        over_by = overdue(&spec);
                    }
                    FromExecutor::Running => (heard.runs, over_by) = (true, overdue(&spec)),
                    FromExecutor::Closed(_) | FromExecutor::Over => {}
                    FromExecutor::Stuck(processes) => {
                        // It does what it can, and the kernel takes its time.
                        (answer_until, over_by) = (None, None);
                        notice(&shown(&terminal, &stuck(&spec, &processes)));
                    }
                    FromExecutor::Ended(report) => heard.report = Some(report),
                },
                None => {
                    link_open = false;
                    keeper.wake();
                }
            },
            news = keeper.next(), if !heard.keeper_gone => match news? {
                News::Message(FromKeeper::ExecutorEnded { pid, status }) if pid == executor => {
                    heard.executor_ended = Some(status);
                }
                News::Message(FromKeeper::OrphanEnded { pid, status }) if Some(pid) == heard.main => {
                    heard.main_reaped_by_keeper = Some(status);
                }
                News::Message(_) => {}
                News::Gone => {
                    heard.keeper_gone = true;
                    notice(&shown(&terminal, "the keeper was killed; the executor guards the task without it"));
                }
            },
            wish = signals.next() => {
                let before = patience;
                patience = obey(wish.into(), patience, &spec, &link, &mut terminal, notice);
                answer_until = patience.answer_until(before, spec.stop, answer_until);
            }
            asked = typed(&mut terminal) => {
                let before = patience;
                patience = obey(asked, patience, &spec, &link, &mut terminal, notice);
                answer_until = patience.answer_until(before, spec.stop, answer_until);
            }
            () = passed(answer_until), if heard.report.is_none() => {
                notice(&shown(&terminal, NO_ANSWER));
                link_open = false;
                break;
            }
            () = passed(over_by), if heard.report.is_none() => {
                over_by = None;
                // Else it waits for the reader of the output, which has all the time.
                if is_left_alone(heard.main, executor, heard.runs) {
                    notice(&shown(&terminal, NO_ANSWER));
                    link_open = false;
                    break;
                }
            }
        }
    }
    // All output is shown: the rest is the caller's terminal again.
    drop(terminal);
    while link_open && let Ok(Some(message)) = link.receive().await {
        // What the executor said last, if its end was heard of first.
        match FromExecutor::decode(&message.bytes).map_err(RunError::Wire)? {
            FromExecutor::Ended(report) => heard.report = Some(report),
            FromExecutor::Born { leaf, pid, .. } => (heard.leaf, heard.main) = (Some(leaf), Some(pid)),
            FromExecutor::Running | FromExecutor::Closed(_) | FromExecutor::Stuck(_) | FromExecutor::Over => {
            }
        }
    }
    // Cgroups that events name have their paths until the tree is removed.
    proof.drain();
    let held_open_by = held_open(heard.report.as_deref());
    let clean = clean_up(&mut keeper, executor, &mut heard, parent_again, &root, &mut signals, notice).await;
    // Judged when everything is over, the executor's own life and the removal of the leaf included.
    let life = if heard.executor_ended.is_some() || heard.keeper_gone {
        ExecutorLife::Exited
    } else {
        ExecutorLife::Alive
    };
    let verdict = proof.verdict(heard.leaf, heard.main, life);
    let ending = match heard.report {
        Some(report) => Ending::Reported(report),
        None => Ending::ExecutorDied {
            status: heard.executor_ended,
            outcome: orphan_outcome(heard.main_reaped_by_keeper),
        },
    };
    Ok(Report { spec, ending, executor, main: heard.main, verdict, held_open_by, started_wall, left: clean })
}

/// Somebody has stopped it, say.
const NO_ANSWER: &str = "the executor does not answer; it is ended with the task";

struct Begun {
    link: Channel,
    executor: i32,
}

/// Has the tree made (`made` is its name then), the audit told, the executor started.
#[expect(clippy::too_many_arguments, reason = "each is used once, in one place")]
async fn begin(
    keeper: &Keeper,
    setup: KeeperSetup,
    parent: OwnedFd,
    made: &mut Option<String>,
    proof: &mut Proof,
    wish: super::AuditWish,
    spec: &TaskSpec,
    stdio: &Stdio,
) -> Result<Begun, RunError> {
    let (executors, tasks, root) = keeper.set_up(setup, parent).await?;
    *made = Some(root);
    proof.watch(wish, executors, tasks)?;
    proof.break_on_fault();
    let sealed =
        fd::sealed("proctor-spec", &encode_spec(spec)).map_err(RunError::sys("write the task's spec"))?;
    let (ours, theirs) = socket::pair().map_err(RunError::sys("make a socket for the executor"))?;
    let link = Channel::new(ours).map_err(RunError::sys("wait for the executor"))?;
    let fds: Vec<_> =
        [sealed.as_fd(), theirs.as_fd()].into_iter().chain(stdio.fds.iter().map(AsFd::as_fd)).collect();
    let executor = keeper.start(spec.id.clone(), stdio.plan, &fds).await?;
    proof.note_executor(executor);
    Ok(Begun { link, executor })
}

fn stuck(spec: &TaskSpec, processes: &[StuckProcess]) -> String {
    let list: Vec<String> = processes
        .iter()
        .map(|StuckProcess { pid, state, comm, wchan }| match wchan.as_str() {
            "" | "0" => format!("{pid} ({comm}, state {state})"),
            wchan => format!("{pid} ({comm}, state {state}, in {wchan})"),
        })
        .collect();
    format!("{}: cannot be ended for now, waiting for the kernel to let go of: {}", spec.id, list.join(", "))
}

/// Who holds which stream open after the end.
fn held_open(report: Option<&RunReport>) -> Vec<holders::Holder> {
    let streams = report.map(|report| report.streams).unwrap_or_default();
    let mut found: Vec<holders::Holder> = Vec::new();
    for stream in streams.iter().filter(|stream| stream.held_open == 1) {
        found.extend(holders::find(stream.inode));
    }
    found.sort_by_key(|holder| holder.pid);
    found.dedup();
    found
}

/// Has the tree removed. Gives what is left and why.
async fn clean_up(
    keeper: &mut Keeper,
    executor: i32,
    heard: &mut Heard,
    parent: OwnedFd,
    root: &str,
    signals: &mut Signals,
    notice: &mut dyn FnMut(&str),
) -> Option<String> {
    let mut left = None;
    if !heard.keeper_gone {
        // A keeper that cannot be told is gone, which the next message shows.
        let _ = keeper.finish();
        keeper.wake();
        let mut impatient = 0;
        loop {
            let news = tokio::select! {
                news = keeper.next() => news,
                wish = signals.next() => {
                    impatient += usize::from(wish == Wish::End);
                    if impatient >= 2 {
                        notice("not waiting any more; the keeper stays and ends what is left");
                        return Some(format!("processes in {root}"));
                    }
                    continue;
                }
            };
            match news {
                Ok(News::Message(FromKeeper::Finished)) => break,
                Ok(News::Message(FromKeeper::Left { why })) => {
                    left = Some(why);
                    break;
                }
                Ok(News::Message(FromKeeper::OrphanEnded { pid, status })) if Some(pid) == heard.main => {
                    heard.main_reaped_by_keeper = Some(status);
                }
                Ok(News::Message(FromKeeper::ExecutorEnded { pid, status })) if pid == executor => {
                    heard.executor_ended = Some(status);
                }
                Ok(News::Message(_)) => {}
                Ok(News::Gone) | Err(_) => {
                    heard.keeper_gone = true;
                    break;
                }
            }
        }
        keeper.reap();
    }
    if heard.keeper_gone {
        left = salvage::remove(parent, root).err().map(|error| format!("{error}: {}", error.source));
    }
    left
}

/// Ends a start that failed. The keeper leaves nothing; what one that was killed had made is removed here. Gives what is left and why.
async fn give_up(
    keeper: &mut Keeper,
    unborn: Unborn,
    parent: OwnedFd,
    root: Option<String>,
) -> Option<String> {
    let mut left = None;
    let mut is_gone = keeper.finish().is_err();
    keeper.wake();
    while !is_gone {
        match keeper.next().await {
            Ok(News::Message(FromKeeper::Finished)) => break,
            Ok(News::Message(FromKeeper::Left { why })) => {
                left = Some(why);
                break;
            }
            Ok(News::Message(_)) => {}
            Ok(News::Gone) | Err(_) => is_gone = true,
        }
    }
    keeper.reap();
    if is_gone {
        let removed = match root {
            Some(root) => salvage::remove(parent, &root),
            None => unborn.remove(parent),
        };
        left = removed.err().map(|error| format!("{error}: {}", error.source));
    }
    left
}

fn orphan_outcome(status: Option<u32>) -> Outcome {
    match status {
        Some(status @ 0..256) => Outcome::Exited(status as u8),
        Some(status) => u8::try_from(status - 256)
            .ok()
            .and_then(crate::task::Signal::from_number)
            .map_or(Outcome::Unknown, Outcome::Signaled),
        None => Outcome::Unknown,
    }
}
