//! A task at a terminal: what it sees of it, and what the keys do.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, SpecialCharacterIndices};
use tests::{Place, Running, Screen, binary, wait_until};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const ESCAPES: &str = "\x1d\x1d\x1d";

/// `proctor run ARGS` in the place.
fn proctor(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(binary());
    command.arg("run").args(args);
    command
}

/// `proctor run --no-audit --report FILE -- sh -c SCRIPT` at the screen.
fn shell_task(place: &Place, screen: &Screen, options: &[&str], script: &str) -> Running {
    let report = place.file("report");
    let mut command = proctor(place, &["--no-audit", "--report"]);
    command.arg(&report).args(options).args(["--", "sh", "-c", script]);
    screen.start(command).with_report(report)
}

/// An interactive bash at the screen, which knows `proctor`.
fn bash(place: &Place, screen: &mut Screen) -> Running {
    let mut command = place.command("bash");
    command.args(["--norc", "--noprofile", "-i"]).env("TERM", "dumb").env("PS1", "outer> ");
    command.env("HISTFILE", "").env("proctor", binary());
    let bash = screen.start(command);
    screen.wait_for("outer> ");
    bash
}

/// Waits for a process of this name in the group and gives its pid.
fn wait_process(group: &Path, name: &str) -> String {
    wait_until(name, || {
        let members = fs::read_to_string(group.join("cgroup.procs")).ok()?;
        members.lines().map(str::to_owned).find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
    })
}

/// The call that a process waits in.
fn call(pid: &str) -> Option<i64> {
    fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?.split(' ').next()?.parse().ok()
}

/// Waits until the task's shell waits for its sleep, so that no signal comes between its commands.
fn wait_for_waiting_shell(place: &Place) {
    let leaf = place.leaf("sh");
    wait_process(&leaf, "sleep");
    let shell = wait_process(&leaf, "sh");
    let waits = [libc::SYS_wait4, libc::SYS_rt_sigsuspend];
    wait_until("a shell that waits", || waits.contains(&call(&shell)?).then_some(()));
}

/// Waits until this shell waits for a key, so that its prompt is not only shown but ready.
fn wait_for_reading_shell(pid: &str) {
    let reads = [libc::SYS_read, libc::SYS_pselect6];
    wait_until("a shell that reads", || reads.contains(&call(pid)?).then_some(()));
}

fn wait_frozen(leaf: &Path, frozen: &str) {
    wait_until(frozen, || {
        fs::read_to_string(leaf.join("cgroup.events")).ok()?.contains(frozen).then_some(())
    });
}

/// Field of `/proc/PID/stat`, counted as proc(5) does.
fn stat_field(pid: &str, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field - 3).map(str::to_owned)
}

#[test]
fn all_three_streams_are_a_terminal_that_can_show_colours() {
    let (place, mut screen) = (Place::new("tty"), Screen::new());
    let before = screen.settings();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; echo to-stderr >&2; ls -d --color=auto /; stty size; exit 7";
    let mut command = proctor(&place, &["--report"]);
    command.arg(place.file("report")).args(["--", "sh", "-c", script]).env("TERM", "xterm");
    let run = screen.start(command).with_report(place.file("report")).finish();
    assert_eq!(run.code(), 7);
    run.assert_proven();
    assert_eq!(run.report["output"]["complete"], true, "{:#}", run.report["output"]);
    assert_eq!(run.report["output"]["held_open_by"], serde_json::json!([]));
    for text in
        ["terminal\r\n", "to-stderr\r\n", "\x1b[01;34m", "/", "24 80\r\n", "proctor: sh: exited with code 7"]
    {
        screen.wait_for(text);
    }
    assert_eq!(screen.settings(), before);
}

#[test]
fn the_size_follows() {
    let (place, mut screen) = (Place::new("size"), Screen::new());
    let script = "trap 'stty size; exit 3' WINCH; echo re''ady; while :; do sleep 100 & wait $!; done";
    let run = shell_task(&place, &screen, &[], script);
    screen.wait_for("ready");
    wait_for_waiting_shell(&place);
    screen.resize(33, 77);
    screen.wait_for("33 77\r\n");
    assert_eq!(run.finish().code(), 3);
}

#[test]
fn ctrl_c_ends_a_plain_program_as_everywhere() {
    let (place, mut screen) = (Place::new("ctrl-c"), Screen::new());
    let before = screen.settings();
    let run = shell_task(&place, &screen, &["--grace", "1h"], "echo ready; exec sleep 100");
    screen.wait_for("ready\r\n");
    screen.keys(CTRL_C);
    let run = run.finish();
    assert_eq!(run.code(), 130);
    assert_eq!(run.report["ended_by"], "requested");
    screen.wait_for("proctor: sh: stopping with SIGINT, kill after 3600s; once more to kill now\r\n");
    screen.wait_for("proctor: sh: ended by SIGINT as asked for");
    assert_eq!(screen.settings(), before);
}

#[test]
fn ctrl_c_reaches_the_whole_foreground_group_once() {
    let (place, mut screen) = (Place::new("ctrl-c-group"), Screen::new());
    // A shell waits for its child before it obeys: if the child were not told, this would last for the grace.
    let run = shell_task(&place, &screen, &["--grace", "1h"], "echo ready; sleep 100; echo wrong");
    screen.wait_for("ready\r\n");
    wait_process(&place.leaf("sh"), "sleep");
    screen.keys(CTRL_C);
    assert_eq!(run.finish().code(), 130);
    assert!(!screen.shown().contains("wrong"));

    let script = "trap 'echo caught' INT; echo ready; sleep 100 & wait; echo after; exit 5";
    let run = shell_task(&place, &screen, &["--grace", "1h"], script);
    screen.wait_for("ready\r\n");
    wait_for_waiting_shell(&place);
    screen.keys(CTRL_C);
    // The sleep, which ignores SIGINT in the background, is ended with the run and not after the grace.
    assert_eq!(run.finish().code(), 5);
    screen.wait_for("after\r\n");
    assert_eq!(screen.shown().matches("caught\r\n").count(), 1);
}

#[test]
fn ctrl_c_sends_the_stop_signal_to_who_ignores_sigint() {
    let (place, mut screen) = (Place::new("ctrl-c-term"), Screen::new());
    let script = "trap '' INT; trap 'echo term; exit 3' TERM; echo ready; sleep 100 & wait";
    let run = shell_task(&place, &screen, &["--grace", "1h"], script);
    screen.wait_for("ready\r\n");
    wait_for_waiting_shell(&place);
    screen.keys(CTRL_C);
    assert_eq!(run.finish().code(), 3);
    screen.wait_for("term\r\n");
}

#[test]
fn ctrl_c_sends_the_stop_signal_that_was_asked_for_and_no_other() {
    let (place, mut screen) = (Place::new("ctrl-c-usr1"), Screen::new());
    let script = "trap 'echo int' INT; trap 'echo usr; exit 4' USR1; echo ready; sleep 100 & wait; exit 1";
    let run = shell_task(&place, &screen, &["--grace", "1h", "--stop-signal", "USR1"], script);
    screen.wait_for("ready\r\n");
    wait_for_waiting_shell(&place);
    screen.keys(CTRL_C);
    assert_eq!(run.finish().code(), 4);
    assert!(screen.wait_for("usr\r\n").find("int\r\n").is_none());
}

#[test]
fn ctrl_c_twice_kills() {
    let (place, mut screen) = (Place::new("ctrl-c-twice"), Screen::new());
    let before = screen.settings();
    let script = "trap '' INT TERM; echo ready; while :; do sleep 100; done";
    let run = shell_task(&place, &screen, &["--grace", "1h"], script);
    screen.wait_for("ready\r\n");
    screen.keys(CTRL_C);
    screen.wait_for("once more to kill now\r\n");
    screen.keys(CTRL_C);
    let run = run.finish();
    assert_eq!((run.code(), &run.report["ended_by"]), (137, &"killed".into()));
    assert_eq!(screen.settings(), before);
}

#[test]
fn the_interrupt_key_is_the_one_that_is_set() {
    let (place, mut screen) = (Place::new("intr"), Screen::new());
    let mut settings = screen.settings();
    settings.control_chars[SpecialCharacterIndices::VINTR as usize] = 7;
    settings.local_flags.remove(LocalFlags::ECHO);
    screen.set(&settings);
    let run = shell_task(&place, &screen, &["--grace", "1h"], "stty -a; echo ready; exec sleep 100");
    assert!(screen.wait_for("ready\r\n").contains("intr = ^G"));
    screen.keys("\x03\x07");
    assert_eq!(run.finish().code(), 130);
    assert_eq!(screen.settings(), settings);
}

#[test]
fn bash_has_its_job_control() {
    let (place, mut screen) = (Place::new("bash"), Screen::new());
    let before = screen.settings();
    let mut command = proctor(&place, &["--no-audit", "--env", "PS1=in> ", "--env", "HISTFILE=", "--"]);
    command.args(["bash", "--norc", "--noprofile", "-i"]).env("TERM", "dumb");
    let run = screen.start(command);
    screen.wait_for("in> ");
    let leaf = place.leaf("bash");
    let shell = wait_process(&leaf, "bash");
    wait_for_reading_shell(&shell);
    screen.keys(CTRL_C);
    screen.wait_for("in> ");
    screen.keys("sleep 100\n");
    let sleep = wait_process(&leaf, "sleep");
    screen.keys(CTRL_Z);
    screen.wait_for("Stopped");
    screen.wait_for("in> ");
    screen.keys("jobs\n");
    screen.wait_for("Stopped");
    screen.wait_for("in> ");
    screen.keys("fg\n");
    wait_until("sleep goes on", || (stat_field(&sleep, 3)? == "S").then_some(()));
    screen.keys(CTRL_C);
    screen.wait_for("in> ");
    // A command of the shell itself, in the shell's own process group.
    screen.keys("echo be''gin; while :; do :; done\n");
    screen.wait_for("begin\r\n");
    screen.keys(CTRL_C);
    screen.wait_for("in> ");
    screen.keys("exit 9\n");
    assert_eq!(run.finish().code(), 9);
    assert!(!screen.shown().contains("stopping with"), "{}", screen.shown());
    assert_eq!(screen.settings(), before);
}

#[test]
fn ctrl_c_at_the_prompt_of_a_simple_shell_is_the_shells() {
    let (place, mut screen) = (Place::new("dash"), Screen::new());
    let run = screen.start(proctor(&place, &["--no-audit", "--env", "PS1=in> ", "--", "dash", "-i"]));
    screen.wait_for("in> ");
    wait_for_reading_shell(&wait_process(&place.leaf("dash"), "dash"));
    screen.keys(CTRL_C);
    screen.wait_for("in> ");
    screen.keys("exit 6\n");
    assert_eq!(run.finish().code(), 6);
    assert!(!screen.shown().contains("stopping with"), "{}", screen.shown());
}

#[test]
fn who_waits_for_a_line_gets_the_key_alone() {
    let (place, mut screen) = (Place::new("cat"), Screen::new());
    let run = screen.start(proctor(&place, &["--no-audit", "--", "cat"]));
    screen.keys("line\n");
    screen.wait_for("line\r\nline\r\n");
    let cat = wait_process(&place.leaf("cat"), "cat");
    wait_until("cat reads", || (call(&cat)? == libc::SYS_read).then_some(()));
    screen.keys(CTRL_C);
    assert_eq!(run.finish().code(), 130);
    assert!(!screen.shown().contains("stopping with"), "{}", screen.shown());

    let run = screen.start(proctor(&place, &["--no-audit", "--", "cat"]));
    screen.keys("end\n\x04");
    assert_eq!(run.finish().code(), 0);
}

#[test]
fn ctrl_z_stops_the_run_as_a_job() {
    let (place, mut screen) = (Place::new("ctrl-z"), Screen::new());
    let bash = bash(&place, &mut screen);
    screen.keys("$proctor run --no-audit --grace 1h -- sleep 100\n");
    let leaf = place.leaf("sleep");
    wait_process(&leaf, "sleep");
    for _ in 0..3 {
        screen.keys(CTRL_Z);
        screen.wait_for("Stopped");
        screen.wait_for("outer> ");
        wait_frozen(&leaf, "frozen 1");
        screen.keys("fg\n");
        screen.wait_for("-- sleep 100\r\n");
        wait_frozen(&leaf, "frozen 0");
    }
    screen.keys(CTRL_C);
    screen.wait_for("ended by SIGINT");
    screen.keys("echo co''de $?\n");
    screen.wait_for("code 130\r\n");
    screen.keys("exit\n");
    bash.finish();
}

#[test]
fn ctrl_z_reaches_the_caller_through_a_script() {
    let (place, mut screen) = (Place::new("ctrl-z-script"), Screen::new());
    let bash = bash(&place, &mut screen);
    screen.keys("sh -c '$proctor run --no-audit -- sleep 100; exit $?'\n");
    let leaf = place.leaf("sleep");
    wait_process(&leaf, "sleep");
    screen.keys(CTRL_Z);
    screen.wait_for("Stopped");
    screen.wait_for("outer> ");
    wait_frozen(&leaf, "frozen 1");
    screen.keys("bg\n");
    wait_frozen(&leaf, "frozen 0");
    screen.wait_for("outer> ");
    // In the background its keys are not for the task, and the shell's terminal is not touched.
    screen.keys("echo mi''ne\n");
    screen.wait_for("mine\r\n");
    screen.keys("kill -TERM %1; wait; echo do''ne\n");
    screen.wait_for("done\r\n");
    screen.keys("exit\n");
    bash.finish();
    // The signal went to the script too, which has not waited for proctor.
    place.wait_empty();
}

#[test]
fn ctrl_z_without_a_shell_stops_nothing_for_good() {
    let (place, mut screen) = (Place::new("ctrl-z-alone"), Screen::new());
    let run = shell_task(&place, &screen, &[], "echo ready; exec sleep 100");
    screen.wait_for("ready\r\n");
    // In one: no key that follows another is lost.
    screen.keys(&format!("{CTRL_Z}{CTRL_C}"));
    // If it comes while the terminal is the caller's, Ctrl-C is a signal to proctor.
    assert!([130, 143].contains(&run.finish().code()), "{}", screen.shown());
}

#[test]
fn what_the_caller_ignores_is_not_done() {
    let (place, mut screen) = (Place::new("ignored"), Screen::new());
    let script = "trap '' TSTP HUP; exec \"$proctor\" run --no-audit -- sh -c 'echo ready; exec sleep 100'";
    let mut command = place.command("sh");
    command.args(["-c", script]).env("proctor", binary());
    let run = screen.start(command);
    screen.wait_for("ready\r\n");
    screen.keys(CTRL_Z);
    let leaf = place.leaf("sh");
    wait_process(&leaf, "sleep");
    screen.hang_up();
    run.signal(Signal::SIGTERM);
    // Asked to end by the hang-up too, it would be killed.
    assert_eq!(run.finish().code(), 143);
}

#[test]
fn three_escapes_kill_whatever_it_is() {
    let (place, mut screen) = (Place::new("escape"), Screen::new());
    let before = screen.settings();
    let script = "trap '' INT TERM HUP TSTP; stty raw -echo; echo ready; while :; do sleep 100; done";
    let run = shell_task(&place, &screen, &["--grace", "1h"], script);
    screen.wait_for("ready");
    screen.keys(CTRL_C);
    screen.keys(ESCAPES);
    let run = run.finish();
    assert_eq!((run.code(), &run.report["ended_by"]), (137, &"killed".into()));
    assert_eq!(screen.settings(), before);
}

#[test]
fn the_settings_come_back_whatever_happens() {
    let (place, mut screen) = (Place::new("restored"), Screen::new());
    let before = screen.settings();
    let sleep = "echo ready; exec sleep 100";
    let raw = |screen: &Screen| assert!(!screen.settings().local_flags.contains(LocalFlags::ICANON));

    let run = shell_task(&place, &screen, &[], sleep);
    screen.wait_for("ready\r\n");
    raw(&screen);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().code(), 143);
    assert_eq!(screen.settings(), before, "after SIGTERM");

    let run = shell_task(&place, &screen, &[], sleep);
    screen.wait_for("ready\r\n");
    raw(&screen);
    let executors = place.leaf("sh").ancestors().nth(3).map(|root| root.join("executors"));
    let executor = wait_process(&executors.expect("the tree"), "proctor-exec");
    let executor = nix::unistd::Pid::from_raw(executor.parse().expect("a pid"));
    nix::sys::signal::kill(executor, Signal::SIGKILL).expect("kill the executor");
    assert_eq!(run.finish().code(), 125);
    assert_eq!(screen.settings(), before, "after the executor's death");

    let run = screen.start(proctor(&place, &["--", "/no/such/program"])).finish();
    assert_eq!((run.code(), screen.settings()), (127, before), "after a failed start");
    screen.wait_for("proctor: program: cannot exec `/no/such/program`");
}

#[test]
fn a_megabyte_is_shown_whole() {
    let (place, screen) = (Place::new("megabyte"), Screen::new());
    let mut command = proctor(&place, &["--no-audit", "--quiet", "--"]);
    command.args(["seq", "-f", "%015.0f", "65536"]);
    let run = screen.start(command).finish();
    assert_eq!(run.code(), 0);
    let expected: String = (1..=65536).map(|n| format!("{n:015}\r\n")).collect();
    let shown = screen.end();
    assert!(shown == expected.as_bytes(), "{} of {} bytes", shown.len(), expected.len());
}

#[test]
fn the_last_output_is_never_lost() {
    let place = Place::new("last");
    for round in 0..200 {
        let screen = Screen::new();
        let run = screen.start(proctor(&place, &["--no-audit", "--quiet", "--", "printf", "end"])).finish();
        assert_eq!((run.code(), screen.end().as_slice()), (0, b"end".as_slice()), "round {round}");
    }
}

#[test]
fn streams_that_are_redirected_are_no_terminal() {
    let (place, mut screen) = (Place::new("redirected"), Screen::new());
    let (out, err) = (place.file("out"), place.file("err"));
    let create = |path: &Path| fs::File::create(path).expect("a file");
    let script = "test -t 0 && echo in; test -t 1 && echo out; test -t 2 && echo err; echo to-stderr >&2";

    let mut command = proctor(&place, &["--no-audit", "--quiet", "--", "sh", "-c", script]);
    command.stdout(create(&out)).stderr(screen.stream());
    assert_eq!(screen.start_as_is(command).finish().code(), 0);
    assert_eq!(fs::read_to_string(&out).expect("out"), "in\n");
    screen.wait_for("to-stderr\r\n");

    let mut command = proctor(&place, &["--no-audit", "--", "sh", "-c", script]);
    command.stdout(screen.stream()).stderr(create(&err));
    assert_eq!(screen.start_as_is(command).finish().code(), 0);
    screen.wait_for("in\r\nout\r\n");
    let err = fs::read_to_string(&err).expect("err");
    assert!(err.starts_with("to-stderr\nproctor: sh: exited with code 0"), "{err}");
    assert!(!err.contains('\r') && !screen.shown().contains("proctor:"), "{err}");

    // No terminal to type at: none for the output either, so that no key is waited for that cannot come.
    let mut command = proctor(&place, &["--no-audit", "--quiet", "--", "sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(screen.stream()).stderr(screen.stream());
    assert_eq!(Running::spawn_as_is(command).finish().code(), 0);
    assert!(!screen.wait_for("to-stderr").contains("out"));
}

#[test]
fn a_background_job_takes_no_keys() {
    let (place, mut screen) = (Place::new("background"), Screen::new());
    let bash = bash(&place, &mut screen);
    screen.keys("$proctor run --no-audit --quiet -- readlink /proc/self/fd/0 | cat & wait\n");
    screen.wait_for("/dev/null\r\n");
    screen.wait_for("outer> ");
    screen.keys("$proctor run --no-audit --quiet -- readlink /proc/self/fd/0 | cat\n");
    screen.wait_for("/dev/pts/");
    screen.wait_for("outer> ");
    // With the output on the terminal too the task has one of its own, and the keys stay with the shell.
    screen.keys("$proctor run --no-audit --quiet -- sh -c 'test -t 0 && echo o''wn; read x' &\n");
    screen.wait_for("own");
    screen.keys("echo mi''ne\n");
    screen.wait_for("mine\r\n");
    screen.keys("fg\n");
    screen.wait_for("fg\r\n");
    screen.keys("x\n");
    screen.wait_for("outer> ");
    screen.keys("exit\n");
    bash.finish();
}

#[test]
fn a_hang_up_stops_the_task() {
    let (place, mut screen) = (Place::new("hang-up"), Screen::new());
    let script = "trap 'echo stopped > $OUT; exit 2' TERM; echo ready; sleep 100 & wait";
    let out = format!("OUT={}", place.file("out").display());
    let run = shell_task(&place, &screen, &["--grace", "1h", "--env", &out], script);
    screen.wait_for("ready\r\n");
    wait_for_waiting_shell(&place);
    screen.hang_up();
    assert_eq!(run.finish().code(), 2);
    assert_eq!(fs::read_to_string(place.file("out")).expect("out"), "stopped\n");
}

#[test]
fn the_terminal_belongs_to_the_tasks_user_and_no_one_else_has_it() {
    let (place, mut screen) = (Place::new("owner"), Screen::new());
    let run = shell_task(
        &place,
        &screen,
        &["--user", "nobody"],
        "stat -Lc owner=%u /dev/stdin; echo again > $(tty); read x",
    );
    let owner = fs::metadata("/").expect("root").uid() + 65534;
    screen.wait_for(&format!("owner={owner}\r\n"));
    screen.wait_for("again\r\n");
    let root = place.leaf("sh").ancestors().nth(3).map(Path::to_owned).expect("the tree");
    let executor = wait_process(&root.join("executors"), "proctor-exec");
    let keeper = stat_field(&executor, 4).expect("the executor's parent");
    for pid in [executor, keeper] {
        assert_eq!(stat_field(&pid, 7).as_deref(), Some("0"), "controlling terminal of {pid}");
    }
    screen.keys("\n");
    assert_eq!(run.finish().code(), 0);
}

#[test]
fn one_run_inside_another_has_a_terminal_too() {
    let (place, mut screen) = (Place::new("nested"), Screen::new());
    let before = screen.settings();
    let mut command = proctor(&place, &["--no-audit", "--quiet", "--grace", "1h", "--"]);
    command.arg(binary()).args(["run", "--no-audit", "--quiet", "--grace", "1h", "--"]);
    command.args(["sh", "-c", "test -t 0 && test -t 1 && echo ready; exec sleep 100"]);
    let run = screen.start(command);
    screen.wait_for("ready\r\n");
    screen.keys(CTRL_C);
    assert_eq!(run.finish().code(), 130);
    assert_eq!(screen.settings(), before);
}
