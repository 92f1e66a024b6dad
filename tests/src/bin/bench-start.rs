//! `cargo xtask bench start`: the time from the request to the exec of the task, beside bare clone3 and exec into a cgroup, as a ratio.
#![allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use supervisor::cgroup::{Cgroup, Hierarchy};
use supervisor::keeper::{SUBCOMMAND, TITLE_ROOM};
use supervisor::sys::exec::{self, Image, Program, Terminal};
use supervisor::sys::poll::{Interest, Poll};
use supervisor::sys::{clock, dir, fd, socket, wait};
use supervisor::task::restart::RestartPolicy;
use supervisor::task::{Identity, Signal, StopPolicy, TaskId, TaskSpec, Until};
use supervisor::wire::{FromExecutor, FromKeeper, KeeperSetup, OutputPlan, Timings, ToKeeper, encode_spec};

/// What design and issue allow.
const BUDGET: f64 = 1.6;
const ROUNDS: usize = 400;
const PROGRAM: &str = "/bin/true";

/// What lies between two starts.
#[derive(Clone, Copy)]
enum Pace {
    /// Nothing, as the budget was set: the ratio to hold against it.
    BackToBack,
    /// The kernel's work on removed groups, slept through: both begin on an idle machine, and the waking of cpus is most of either figure.
    FromIdle,
}

fn main() {
    let place = tests::Place::new("bench-start");
    let mut bench = Bench::new(&place);
    println!("start until the exec succeeded, {ROUNDS} rounds each in turn, p50 / p90 / p99 in us");
    for pace in [Pace::BackToBack, Pace::FromIdle] {
        bench.series(pace);
    }
    bench.finish();
}

struct Bench {
    /// Starts so far: each task has a name of its own.
    started: usize,
    stat: std::path::PathBuf,
    root: Cgroup,
    keeper: Child,
    socket: OwnedFd,
    null: OwnedFd,
    image: Image,
    spec: OwnedFd,
    /// Of each start: to the executor's beginning, to the clone, to the exec, to us.
    steps: Vec<[Duration; 4]>,
}

impl Bench {
    fn new(place: &tests::Place) -> Self {
        let hierarchy = Hierarchy::find().expect("cgroup2");
        assert!(place.cgroup().starts_with(hierarchy.mount_point()));
        let open = || dir::open(place.cgroup()).expect("open the place");
        let root = Cgroup::from_dir(open(), "bench").expect("a cgroup");
        let (socket, theirs) = socket::pair().expect("a socket");
        let keeper = Command::new(tests::binary())
            .arg0("proctor")
            .args([SUBCOMMAND, &" ".repeat(TITLE_ROOM)])
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .expect("start a keeper");
        let setup = KeeperSetup { root: String::from("tree"), parent: String::from("bench") };
        let parent = open();
        socket::send(socket.as_fd(), &ToKeeper::Setup(setup).encode(), &[parent.as_fd()]).expect("set up");
        let bench = Self {
            started: 0,
            stat: place.cgroup().join("cgroup.stat"),
            root,
            keeper,
            socket,
            null: fd::null().expect("/dev/null"),
            image: image(),
            spec: fd::sealed("spec", &encode_spec(&spec("unused"))).expect("a spec"),
            steps: Vec::new(),
        };
        assert!(matches!(receive(bench.socket.as_fd()), Received::Keeper(FromKeeper::Ready { .. })));
        bench
    }

    /// Measures in turn, at this pace, and prints.
    fn series(&mut self, pace: Pace) {
        self.steps.clear();
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 20 {
            let times = [self.bare(round), self.between(pace).ours()];
            self.between(pace);
            // The first rounds warm the caches.
            if round >= 20 {
                bare.push(times[0]);
                ours.push(times[1]);
            }
        }
        let [bare, ours] = [bare, ours].map(|mut times| {
            times.sort_unstable();
            [times[times.len() / 2], times[times.len() * 9 / 10], times[times.len() * 99 / 100]]
        });
        let micros = |times: [Duration; 3]| times.map(|time| time.as_micros());
        let ratio = ours[0].as_secs_f64() / bare[0].as_secs_f64();
        let steps = self.steps();
        let (pace, budget) = match pace {
            Pace::BackToBack if ratio <= BUDGET => ("back to back", format!("budget {BUDGET}: met")),
            Pace::BackToBack => ("back to back", format!("budget {BUDGET}: NOT met")),
            Pace::FromIdle => ("from an idle machine", String::from("no budget: wake-ups hide the work")),
        };
        println!("{pace}");
        println!("  bare clone3 + exec   {:?}", micros(bare));
        println!("  request to a keeper  {:?}", micros(ours));
        println!(
            "    of that: keeper and fork {}, executor {}, child {}, back {}",
            steps[0], steps[1], steps[2], steps[3]
        );
        println!("  ratio of p50         {ratio:.2} ({budget})");
    }

    fn between(&mut self, pace: Pace) -> &mut Self {
        match pace {
            Pace::BackToBack => {}
            Pace::FromIdle => tests::wait_until("the end of removed groups", || {
                fs::read_to_string(&self.stat).ok()?.contains("nr_dying_descendants 0\n").then_some(())
            }),
        }
        self
    }

    /// The floor: a cgroup that is there, clone3 into it, exec.
    fn bare(&self, round: usize) -> Duration {
        let name = CString::new(format!("bare-{round}")).expect("no NUL");
        let leaf = self.root.create(&name).expect("a leaf");
        let stdio = [self.null.as_fd(); 3];
        let begin = Instant::now();
        let spawned = exec::spawn(&self.image, leaf.as_fd(), stdio).expect("spawn");
        wait_for(spawned.report.as_fd());
        let time = begin.elapsed();
        assert_eq!(exec::outcome(spawned.report.as_fd()), Ok(Some(Ok(()))));
        wait_for(spawned.child.pidfd.as_fd());
        wait::reap(spawned.child.pidfd.as_fd()).expect("reap").expect("it has ended");
        self.root.remove_child(&name).expect("remove the leaf");
        time
    }

    /// The product: a request to a keeper, until its executor says that the exec succeeded.
    fn ours(&mut self) -> Duration {
        self.started += 1;
        let round = self.started;
        self.spec = fd::sealed("spec", &encode_spec(&spec(&format!("task-{round}")))).expect("a spec");
        let task = TaskId::new(format!("task-{round}")).expect("an id");
        let (link, theirs) = socket::pair().expect("a socket");
        let request = ToKeeper::Start { task, output: OutputPlan::Split }.encode();
        let null = self.null.as_fd();
        let (begin, sent) = (Instant::now(), clock::monotonic());
        socket::send(self.socket.as_fd(), &request, &[self.spec.as_fd(), theirs.as_fd(), null, null, null])
            .expect("start");
        drop(theirs);
        loop {
            match receive_executor(link.as_fd()) {
                FromExecutor::Running => break,
                FromExecutor::Born { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        let time = begin.elapsed();
        loop {
            match receive_executor(link.as_fd()) {
                FromExecutor::Ended(report) => {
                    let Timings { asked, born, running, .. } = report.timings;
                    let [born, running] = [born, running].map(|at| at.expect("it ran"));
                    self.steps.push([asked - sent, born - asked, running - born, (sent + time) - running]);
                }
                FromExecutor::Over => break,
                other => panic!("unexpected: {other:?}"),
            }
        }
        loop {
            if let Received::Keeper(FromKeeper::ExecutorEnded { .. }) = receive(self.socket.as_fd()) {
                break;
            }
        }
        time
    }

    /// Medians of the steps in microseconds.
    fn steps(&self) -> [u128; 4] {
        [0, 1, 2, 3].map(|step| {
            let mut times: Vec<Duration> = self.steps.iter().map(|steps| steps[step]).collect();
            times.sort_unstable();
            times[times.len() / 2].as_micros()
        })
    }

    fn finish(mut self) {
        socket::send(self.socket.as_fd(), &ToKeeper::Finish.encode(), &[]).expect("finish");
        self.keeper.wait().expect("reap the keeper");
    }
}

enum Received {
    Keeper(FromKeeper),
}

fn receive(socket: std::os::fd::BorrowedFd<'_>) -> Received {
    Received::Keeper(FromKeeper::decode(&message(socket)).expect("a message of the keeper"))
}

fn receive_executor(socket: std::os::fd::BorrowedFd<'_>) -> FromExecutor {
    FromExecutor::decode(&message(socket)).expect("a message of the executor")
}

fn message(socket: std::os::fd::BorrowedFd<'_>) -> Vec<u8> {
    loop {
        match socket::receive(socket).expect("receive") {
            socket::Received::Message(message) => return message.bytes,
            socket::Received::Empty => wait_for(socket),
            socket::Received::Closed => panic!("closed"),
        }
    }
}

fn wait_for(fd: std::os::fd::BorrowedFd<'_>) {
    let mut poll = Poll::<1>::new();
    poll.add(fd, Interest::Read);
    poll.wait(None).expect("poll");
}

fn image() -> Image {
    Image::new(Program {
        candidates: vec![CString::new(PROGRAM).expect("no NUL")],
        arguments: vec![CString::new(PROGRAM).expect("no NUL")],
        environment: Vec::new(),
        directory: c"/".to_owned(),
        umask: 0o022,
        limits: Vec::new(),
        oom_score_adj: exec::OomScore::Keep,
        credentials: None,
        terminal: Terminal::None,
    })
}

fn spec(id: &str) -> TaskSpec {
    let _ = fs::metadata(PROGRAM).expect("there is /bin/true");
    TaskSpec {
        id: TaskId::new(id).expect("an id"),
        arguments: vec![CString::new(PROGRAM).expect("no NUL")],
        environment: Vec::new(),
        directory: c"/".to_owned(),
        umask: 0o022,
        limits: Vec::new(),
        oom_score_adj: None,
        identity: Identity::Inherit,
        stop: StopPolicy { signal: Signal::TERM, grace: Duration::from_secs(10) },
        until: Until::Main,
        timeout: None,
        restart: RestartPolicy::Never,
    }
}
