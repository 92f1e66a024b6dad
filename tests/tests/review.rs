//! What a hostile look at the core has found: odd surroundings and strangers' deeds that once broke it. Each test names the fault.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use tests::{Place, Running, binary, wait_until};

/// `sh -c SCRIPT` in the place, where `$P` is proctor: for what a caller does before it execs proctor.
fn caller(place: &Place, script: &str) -> Command {
    let mut command = place.command("sh");
    command.arg("-c").arg(script).env("P", binary()).env("FILES", place.files());
    command
}

/// As [`wait_until`], without a pause: for what is over in less than one.
fn wait_closely(what: &str, mut look: impl FnMut() -> Option<()>) {
    let begin = std::time::Instant::now();
    while look().is_none() {
        assert!(begin.elapsed() < tests::PATIENCE, "waited in vain for: {what}");
    }
}

/// Clock ticks that a process has used.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let fields = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// A task of root can leave its leaf, and anybody can remove the empty leaf then. Its `cgroup.events` is ready for ever from there on.
#[test]
fn a_removed_leaf_costs_no_time() {
    let place = Place::new("removed-leaf");
    let script = "own=$(sed -n s/^0:://p /proc/self/cgroup); echo $own >leaf; echo $$ >$CG/cgroup.procs; \
                  while [ ! -e removed ]; do sleep 0.02; done; echo wake up; echo yes >awake; \
                  while [ ! -e go ]; do sleep 0.05; done; exit 3";
    let running = place.shell(&["--name", "t", "--no-audit"], script);
    place.wait_line("leaf");
    let leaf = place.leaf("t");
    wait_until("an empty leaf", || fs::remove_dir(&leaf).ok());
    fs::write(place.file("removed"), "").expect("tell that it is removed");
    place.wait_line("awake");
    let executors = leaf.ancestors().nth(3).expect("the tree").join("executors/cgroup.procs");
    let executor: i32 = fs::read_to_string(executors).expect("executors").trim().parse().expect("one");
    let before = ticks(executor);
    let begin = std::time::Instant::now();
    wait_until("a while", || (begin.elapsed().as_millis() > 500).then_some(()));
    let used = ticks(executor) - before;
    fs::write(place.file("go"), "").expect("let it end");
    running.finish().assert_exited(3);
    assert!(used <= 3, "the executor used {used} ticks in half a second of quiet");
}

/// The signals that a process catches.
fn caught(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or("0");
    u64::from_str_radix(mask, 16).expect("a hexadecimal mask")
}

/// A caller that blocks signals, as programs with threads do, hands that on to what it starts.
#[test]
fn a_signal_that_the_caller_blocks_stops_the_task() {
    let place = Place::new("blocked");
    let mut command = place.command(binary());
    command.args(["run", "--no-audit", "--cwd"]).arg(place.files());
    command.args(["--", "sh", "-c", "echo yes >ready; exec sleep 1000"]);
    // SAFETY: between fork and exec it changes the mask, which allocates nothing.
    unsafe {
        command.pre_exec(|| {
            nix::sys::signal::SigSet::all().thread_block()?;
            Ok(())
        });
    }
    let running = Running::spawn(command);
    place.wait_line("ready");
    running.signal(SIGTERM);
    assert_eq!(running.finish().code(), 143);
}

/// Who reads our lines may take its time: a stop does not wait for it, and once nothing is left of the task a signal ends us.
#[test]
fn a_full_stderr_delays_no_stop() {
    let place = Place::new("full-stderr");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let room = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETPIPE_SZ).expect("its size");
    writer.write_all(&vec![0; room as usize]).expect("fill it");
    let mut command = place.command(binary());
    command.args(["run", "--no-audit", "--cwd"]).arg(place.files());
    command.args(["--", "sh", "-c", "echo yes >ready; exec sleep 1000"]);
    let running = Running::spawn_as_is({
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        command
    });
    place.wait_line("ready");
    let interrupt = 1 << (SIGINT as i32 - 1);
    assert_ne!(caught(running.pid()) & interrupt, 0, "SIGINT stops the task while there is one");
    running.signal(SIGTERM);
    wait_until("the end of the task", || place.groups().is_empty().then_some(()));
    wait_until("the last lines", || (caught(running.pid()) & interrupt == 0).then_some(()));
    running.signal(SIGINT);
    assert_eq!(running.finish().status.signal(), Some(SIGINT as i32));
    drop(reader);
}

/// A task of root may nest groups as deep and make as many as it likes: all of them are found, thawed and removed.
#[test]
fn deep_and_many_groups_are_removed() {
    let place = Place::new("deep");
    let script = "own=$(sed -n s/^0:://p /proc/self/cgroup); cd $CG/${own#*/$(basename $CG)/}; \
                  for i in $(seq 500); do mkdir wide-$i; done; \
                  for i in $(seq 300); do mkdir x; cd x; done; \
                  sleep 1000 & echo $! >cgroup.procs; echo 1 >cgroup.freeze; exit 3";
    let run = place.shell(&["--no-audit", "--grace", "10m"], script).finish();
    run.assert_exited(3);
    assert_eq!(run.number("/leftovers_killed"), 1);
    assert_eq!(run.report["left_behind"], serde_json::Value::Null, "{}", run.stderr);
}

/// `/dev/tty` and another user's terminal cannot be opened again by the executor. Nobody reads this one: that holds up no stop.
#[test]
fn a_full_terminal_of_the_callers_holds_up_no_stop() {
    let place = Place::new("dev-tty");
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let script = "exec \"$P\" run --no-audit --cwd \"$FILES\" -- sh -c 'echo yes >ready; exec yes' >/dev/tty";
    let mut command = caller(&place, script);
    let slave = pty.slave.as_raw_fd();
    // SAFETY: setsid and ioctl are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            match libc::setsid() == -1 || libc::ioctl(slave, libc::TIOCSCTTY, 0) == -1 {
                true => Err(std::io::Error::last_os_error()),
                false => Ok(()),
            }
        });
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running::spawn_as_is(command);
    place.wait_line("ready");
    let leaf = place.leaf("sh");
    // The pipe to the executor is full too, so the terminal is.
    wait_until("a task that waits", || {
        let pid = fs::read_to_string(leaf.join("cgroup.procs")).ok()?;
        let place = fs::read_to_string(format!("/proc/{}/wchan", pid.trim())).ok()?;
        place.contains("pipe").then_some(())
    });
    running.signal(SIGTERM);
    let run = running.finish();
    assert_eq!(run.code(), 143, "{}", run.stderr);
    assert!(!run.stderr.contains("does not answer"), "{}", run.stderr);
}

/// Whoever has the master side of a terminal as stdout means that terminal: its file, opened again, would be another one.
#[test]
fn output_to_the_master_side_of_a_terminal_arrives() {
    let place = Place::new("master");
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let mut command = place.command(binary());
    command.args(["run", "--no-audit", "--", "echo", "hello"]);
    command.stdin(Stdio::null()).stdout(pty.master.try_clone().expect("a duplicate")).stderr(Stdio::piped());
    let run = Running::spawn_as_is(command).finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    // So that what does not come fails the test and does not stop it.
    let at_once = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
    nix::fcntl::fcntl(&pty.slave, at_once).expect("set the flags");
    let mut line = [0; 100];
    let length = nix::unistd::read(&pty.slave, &mut line).expect("a line");
    assert_eq!(&line[..length], b"hello\n");
}

/// What cannot be started is named in a message of bounded length, however long its name is.
#[test]
fn a_program_of_any_length_is_not_found_in_one_line() {
    let place = Place::new("long");
    let long = "a".repeat(100_000);
    let odd = std::ffi::OsString::from_vec(vec![0xff; 3000]);
    for (program, code) in [(std::ffi::OsString::from(long), 126), (odd, 126)] {
        let run = place.run_reported(&[OsStr::new("--no-audit"), OsStr::new("--"), &program]);
        assert_eq!(run.code(), code, "{:.300}", run.stderr);
        assert_eq!(run.report["outcome"]["kind"], "not_started");
        assert_eq!(run.stderr.lines().count(), 1, "{:.300}", run.stderr);
    }
}

/// The caller's limits are the task's. Proctor needs more descriptors than such a task, and no signal may end it half-way.
#[test]
fn tight_limits_of_the_caller_bind_the_task_only() {
    let place = Place::new("limits");
    let script = "ulimit -Sn 10; exec \"$P\" run -- sh -c 'ulimit -Sn; exit 3'";
    let run = Running::spawn(caller(&place, script)).finish();
    assert_eq!((run.code(), run.text().as_str()), (3, "10\n"), "{}", run.stderr);

    let script = "ulimit -n 10; exec \"$P\" run --no-audit -- true";
    let run = Running::spawn(caller(&place, script)).finish();
    assert_eq!((run.code(), run.stderr.lines().count()), (125, 1), "{}", run.stderr);

    let script = "ulimit -f 0; exec \"$P\" run --no-audit -- true";
    let run = Running::spawn(caller(&place, script)).finish();
    assert_eq!(run.code(), 125, "{}", run.stderr);
    assert!(run.stderr.contains("File too large"), "{}", run.stderr);
}

/// The audit takes some twenty descriptors. Where they are too few for both, the task has them and the claims say why they are unproven.
#[test]
fn with_few_open_files_a_task_runs_without_the_audit() {
    let place = Place::new("few-files");
    for limit in [32, 36, 40, 44] {
        let script = format!("ulimit -n {limit}; exec \"$P\" run --json -- sh -c 'ulimit -n; exit 3'");
        let run = Running::spawn(caller(&place, &script)).finish();
        assert_eq!((run.code(), run.text()), (3, format!("{limit}\n")), "{}", run.stderr);
        let report: serde_json::Value = serde_json::from_str(run.stderr.trim_end()).expect("a report");
        assert_eq!(report["audit"]["state"], "off");
        assert!(report["audit"]["reason"].to_string().contains("files may be open"), "{report:#}");

        let script = format!("ulimit -n {limit}; exec \"$P\" run --require-audit -- true");
        let run = Running::spawn(caller(&place, &script)).finish();
        assert_eq!((run.code(), run.stderr.lines().count()), (125, 1), "{}", run.stderr);
    }
}

/// Who hands on much output for long uses cpu time, more than any process of the task may have: no limit of the caller's may end it for that.
#[test]
fn a_limit_on_cpu_time_binds_the_task_only() {
    let place = Place::new("cpu-time");
    let script =
        "ulimit -St 7; exec \"$P\" run --no-audit -- sh -c 'ulimit -St; grep cpu /proc/$PPID/limits'";
    let run = Running::spawn(caller(&place, script)).finish();
    let text = run.text();
    let (task, executor) = text.split_once("Max cpu time").unwrap_or_else(|| panic!("{text} {}", run.stderr));
    assert_eq!(task, "7\n");
    let executor = executor.split_whitespace().next();
    assert_eq!(executor, Some("unlimited"));
}

/// Names of files and processes are shown so that they break no line and command no terminal.
#[test]
fn a_name_with_line_breaks_is_told_in_one_line() {
    let place = Place::new("odd-names");
    for (script, code) in [
        ("exec \"$P\" run --no-audit -- \"$(printf 'a\\nb')\"", 127),
        ("exec \"$P\" run --no-audit --cwd \"$(printf 'a\\nb')\" -- true", 125),
        ("exec \"$P\" run --no-audit -- \"$(printf '/a\\033[31m')\"", 127),
    ] {
        let run = Running::spawn(caller(&place, script)).finish();
        assert_eq!((run.code(), run.stderr.lines().count()), (code, 1), "{script}: {:?}", run.stderr);
        assert!(!run.stderr.trim_end().contains(char::is_control), "{script}: {:?}", run.stderr);
    }
}

/// A Ctrl-C goes to the whole foreground group, and the keeper is in it until it leads a session of its own: the task is stopped and the
/// keeper lives.
#[test]
fn a_ctrl_c_during_the_start_is_a_stop() {
    let place = Place::new("early");
    for attempt in 0..40 {
        let mut command = place.command(binary());
        command.args(["run", "--no-audit", "--", "sleep", "1000"]).process_group(0);
        let running = Running::spawn(command);
        let group = nix::unistd::Pid::from_raw(running.pid());
        wait_closely("the keeper's process", || {
            let members = fs::read_to_string(place.cgroup().join("cgroup.procs")).ok()?;
            (members.lines().count() > 1).then_some(())
        });
        // A different moment each time, from the fork on.
        (0..attempt * 2000).for_each(|step| _ = std::hint::black_box(step));
        nix::sys::signal::killpg(group, SIGINT).expect("signal the group");
        let run = running.finish();
        assert!([143, 137].contains(&run.code()), "attempt {attempt}: {} {}", run.status, run.stderr);
    }
}

/// With the /proc of another pid namespace the numbers there are other processes': who has left the leaf would not be found, and a stranger
/// of the same number taken for it.
#[test]
fn another_namespaces_proc_is_refused() {
    let place = Place::new("proc");
    for (options, code) in [("-pf", 125), ("-pf --mount-proc", 3)] {
        let script = format!("exec unshare {options} \"$P\" run --no-audit -- sh -c 'exit 3'");
        let run = Running::spawn(caller(&place, &script)).finish();
        assert_eq!(run.code(), code, "{}", run.stderr);
        assert_eq!(run.stderr.contains("--mount-proc"), code == 125, "{}", run.stderr);
    }
}

/// A cgroup's path may hold any bytes, and each that is no text is shown as three: the message to the keeper has room for it.
#[test]
fn a_callers_cgroup_may_have_any_name() {
    let place = Place::new("bytes");
    let script = "for i in $(seq 15); do mkdir -p \"$NAME\"; cd \"$NAME\"; done; echo $$ >cgroup.procs; cd /; \
                  exec \"$P\" run --no-audit -- sh -c 'exit 3'";
    let name = std::ffi::OsString::from_vec(vec![0xff; 200]);
    let mut command = caller(&place, script);
    command.env("NAME", &name).current_dir(place.cgroup());
    let run = Running::spawn(command).finish();
    // What the caller made is the caller's to remove.
    let mut groups: Vec<_> = (1..=15)
        .scan(place.cgroup().to_owned(), |dir, _| {
            dir.push(&name);
            Some(dir.clone())
        })
        .collect();
    while let Some(group) = groups.pop() {
        fs::remove_dir(group).expect("an empty group");
    }
    assert_eq!(run.code(), 3, "{}", run.stderr);
}

/// An executor that somebody has stopped sees no end of the task and heeds no request: what it was given of time passes, and then the keeper
/// ends both.
#[test]
fn a_stopped_executor_delays_no_end_for_ever() {
    let (by_signal, by_time) = (Place::new("stopped-1"), Place::new("stopped-2"));
    let script = "kill -STOP $PPID; echo yes >ready; sleep 1000";
    let asked = by_signal.shell(&["--grace", "100ms"], script);
    let timed = by_time.shell(&["--grace", "100ms", "--timeout", "100ms"], script);
    by_signal.wait_line("ready");
    asked.signal(SIGTERM);
    for running in [asked, timed] {
        let run = running.finish();
        assert_eq!(run.code(), 125, "{}", run.stderr);
        assert!(run.stderr.contains("does not answer"), "{}", run.stderr);
        assert_eq!(run.report["left_behind"], serde_json::Value::Null);
    }
}

/// A keeper that somebody has stopped is continued when its work is due.
#[test]
fn a_stopped_keeper_removes_the_tree_all_the_same() {
    let place = Place::new("stopped-keeper");
    let script = "keeper=$(sed 's/.*) //' /proc/$PPID/stat | cut -d ' ' -f 2); kill -STOP $keeper; exit 3";
    let run = place.shell(&[], script).finish();
    run.assert_exited(3);
    run.assert_proven();
    assert_eq!(run.report["left_behind"], serde_json::Value::Null);
}

/// In a cgroup that is delegated to a user it can run tasks, but not as somebody else: that is told as what it is.
#[test]
fn another_user_without_the_right_to_it_is_one_line() {
    let place = Place::new("delegated");
    let nobody = Some(nix::unistd::Uid::from_raw(65_534));
    for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
        nix::unistd::chown(&place.cgroup().join(file), nobody, None).expect("chown");
    }
    fs::copy(binary(), place.file("proctor")).expect("a proctor that everybody may run");
    let script = "cd $FILES; exec setpriv --reuid 65534 --regid 65534 --clear-groups ./proctor run --user daemon -- true";
    let run = Running::spawn(caller(&place, script)).finish();
    assert_eq!((run.code(), run.stderr.lines().count()), (125, 1), "{}", run.stderr);
    assert!(run.stderr.contains("run as root to run tasks as another user"), "{}", run.stderr);
}

/// Below a threaded cgroup no process can be born into a new group: the line says what to do.
#[test]
fn a_threaded_cgroup_of_the_callers_is_told() {
    let place = Place::new("threaded");
    let threaded = place.cgroup().join("t");
    fs::create_dir(&threaded).expect("a cgroup");
    fs::write(threaded.join("cgroup.type"), "threaded").expect("make it threaded");
    let script = format!("echo $$ >{}/cgroup.procs; exec \"$P\" run --no-audit -- true", threaded.display());
    let run = Running::spawn(caller(&place, &script)).finish();
    fs::remove_dir(&threaded).expect("nothing is left");
    assert_eq!((run.code(), run.stderr.lines().count()), (125, 1), "{}", run.stderr);
    assert!(run.stderr.contains("threaded"), "{}", run.stderr);
}
