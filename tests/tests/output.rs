//! Output and input: byte for byte, in order, whatever is at the other end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal::SIGTERM;
use tests::{Place, Running, binary, wait_until};

/// `proctor run --quiet --report FILE OPTIONS -- sh -c SCRIPT` in the place's directory for files, stdio to be set.
fn proctor(place: &Place, options: &[&str], script: &str) -> Command {
    let mut command = place.command(binary());
    command.args(["run", "--quiet", "--report"]).arg(place.file("report")).args(options);
    command.args(["--", "sh", "-c", script]).current_dir(place.files()).stdin(Stdio::null());
    command
}

fn start(place: &Place, command: Command) -> Running {
    Running::spawn_as_is(command).with_report(place.file("report"))
}

/// Every value of a byte, often, in no simple period, and no newline at the end.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Case 11: 8 MiB in and 8 MiB out.
#[test]
fn input_and_output_are_passed_byte_for_byte() {
    let place = Place::new("bytes");
    let mut command = proctor(&place, &[], "exec cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = start(&place, command);
    let sent = bytes((8 << 20) + 13);
    running.feed(&sent);
    let run = running.finish();
    run.assert_exited(0);
    assert!(run.stdout == sent, "{} of {} bytes", run.stdout.len(), sent.len());
    assert_eq!(run.stderr, "");
    run.assert_complete();
}

/// Case 11: both streams at once, 8 MiB each, apart from each other.
#[test]
fn both_streams_are_complete_and_apart() {
    let place = Place::new("streams");
    let sent = bytes((8 << 20) - 7);
    let mirrored: Vec<u8> = sent.iter().map(|byte| !byte).collect();
    fs::write(place.file("one"), &sent).expect("write");
    fs::write(place.file("two"), &mirrored).expect("write");
    let mut command = proctor(&place, &[], "cat two >&2 & cat one; wait");
    command.stdout(Stdio::piped()).stderr(File::create(place.file("stderr")).expect("create"));
    let run = start(&place, command).finish();
    run.assert_exited(0);
    assert!(run.stdout == sent, "{} bytes of stdout", run.stdout.len());
    assert!(fs::read(place.file("stderr")).expect("read") == mirrored, "other bytes on stderr");
    assert_eq!(run.number("/output/stdout_bytes"), sent.len() as u64);
    assert_eq!(run.number("/output/stderr_bytes"), mirrored.len() as u64);
    run.assert_complete();
}

/// With `2>&1` the order between the two streams can be seen, so it is kept: in a file as in a pipe.
#[test]
fn the_order_of_two_streams_that_go_one_way_is_kept() {
    let script = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let expected: String = (0..2000).map(|i| format!("out {i}\nerr {i}\n")).collect();

    let place = Place::new("order");
    let file = File::create(place.file("both")).expect("create");
    let mut command = proctor(&place, &[], script);
    command.stdout(file.try_clone().expect("dup")).stderr(file);
    let run = start(&place, command).finish();
    run.assert_exited(0);
    assert!(fs::read_to_string(place.file("both")).expect("read") == expected, "another order in the file");
    assert_eq!(run.report["output"]["merged"], true);

    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let mut command = proctor(&place, &[], script);
    command.stdout(writer.try_clone().expect("dup")).stderr(writer);
    let running = start(&place, command);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    running.finish().assert_exited(0);
    assert!(text == expected, "another order in the pipe");
}

/// A full disk neither ends nor blocks the task, and the report does not call it complete.
#[test]
fn a_full_disk_loses_output_and_says_so() {
    let place = Place::new("full");
    let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
    let script = "head -c 300000 /dev/zero; head -c 5000 /dev/zero >&2; echo lives >alive; exit 4";
    let mut command = proctor(&place, &[], script);
    command.stdout(full()).stderr(full());
    let run = start(&place, command).finish();
    run.assert_exited(4);
    assert_eq!(place.wait_line("alive"), "lives\n");
    let output = &run.report["output"];
    assert_eq!(output["complete"], false, "{output:#}");
    assert_eq!(output["lost_bytes"], 305_000, "{output:#}");
}

/// As a plain pipeline: the task is told by SIGPIPE that nobody reads.
#[test]
fn a_reader_that_leaves_ends_a_task_that_writes() {
    let place = Place::new("head");
    let mut command = place.command("bash");
    let script = r#""$0" run --report report -- yes | head -1; exit "${PIPESTATUS[0]}""#;
    command.args(["-c", script]).arg(binary()).current_dir(place.files());
    let run = Running::spawn(command).with_report(place.file("report")).finish();
    assert_eq!((run.code(), run.text().as_str()), (141, "y\n"), "{}", run.stderr);
    run.assert_signaled(13);
    run.assert_proven();
}

/// And one that does not care about SIGPIPE gets its error and goes on.
#[test]
fn a_task_that_ignores_a_closed_output_lives_on() {
    let place = Place::new("epipe");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let mut command = proctor(&place, &[], "trap '' PIPE; while echo x; do :; done 2>/dev/null; exit 8");
    command.stdout(writer).stderr(Stdio::piped());
    let running = start(&place, command);
    reader.read_exact(&mut [0; 2]).expect("the first line");
    drop(reader);
    let run = running.finish();
    run.assert_exited(8);
    assert_eq!(run.report["output"]["complete"], false);
}

/// Case 14: a reader that never reads blocks the task, as a pipe does; it does not block the stop.
#[test]
fn a_reader_that_never_reads_does_not_hold_up_a_stop() {
    let place = Place::new("no-reader");
    let (reader, writer) = std::io::pipe().expect("pipe");
    let mut command = proctor(&place, &["--grace", "10m"], "exec yes");
    command.stdout(writer).stderr(Stdio::piped());
    let running = start(&place, command);
    wait_until("a full pipe", || (available(reader.as_fd()) >= 65_536).then_some(()));
    running.signal(SIGTERM);
    let run = running.finish();
    run.assert_signaled(15);
    assert_eq!(run.report["output"]["complete"], false, "{:#}", run.report["output"]);
    // What the reader left lying, and what was lost, add up to what the task wrote.
    let lost = run.number("/output/lost_bytes");
    let there = available(reader.as_fd()) as u64;
    assert!(lost > 0, "{:#}", run.report["output"]);
    assert_eq!(there + lost, run.number("/output/stdout_bytes"));
    run.assert_proven();
}

/// Without a stop nobody is in a hurry: the reader is so slow that the task's pipe is never read up before the task is dead, and it gets
/// everything all the same. Case 11, in the one order of events in which the rest has to be read afterwards.
#[test]
fn a_slow_reader_gets_everything() {
    let place = Place::new("slow");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let sent = bytes(1_000_000);
    fs::write(place.file("one"), &sent).expect("write");
    let mut command = proctor(&place, &[], "echo $$ >pid; exec cat one");
    command.stdout(writer).stderr(Stdio::piped());
    let running = start(&place, command);
    let pid = place.wait_line("pid");
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    // A little at a time, and only when the pipe behind is full.
    while fs::metadata(format!("/proc/{}", pid.trim())).is_ok() {
        if available(reader.as_fd()) > 60_000 {
            let n = reader.read(&mut piece).expect("read");
            got.extend_from_slice(&piece[..n]);
        }
        std::thread::yield_now();
    }
    assert!(got.len() < sent.len() - 65_536, "the reader was not slow: {}", got.len());
    reader.read_to_end(&mut got).expect("read the rest");
    let run = running.finish();
    run.assert_exited(0);
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    run.assert_complete();
}

/// Whichever of the three is closed at the caller's: the task has three open ones, and no other.
#[test]
fn closed_standard_streams_are_no_obstacle() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let place = Place::new("closed");
        let script = format!(
            r#""$0" run --report report -- sh -c '(ls /proc/$$/fd) >fds; echo out; echo err >&2; cat; exit 3' {closed}"#
        );
        let mut command = place.command("bash");
        command.args(["-c", &script]).arg(binary()).current_dir(place.files());
        let run = Running::spawn(command).with_report(place.file("report")).finish();
        assert_eq!(run.code(), 3, "{closed}: {}", run.stderr);
        assert_eq!(fs::read_to_string(place.file("fds")).expect("read"), "0\n1\n2\n", "{closed}");
        let out = if closed.contains("<&- >") || closed == ">&-" { "" } else { "out\n" };
        assert_eq!(run.text(), out, "{closed}");
        assert_eq!(run.stderr.contains("err\n"), !closed.contains("2>"), "{closed}: {}", run.stderr);
    }
}

/// A socket has no second open file of its own, and yet its flags stay the caller's.
#[test]
fn output_may_be_a_socket() {
    let place = Place::new("socket");
    let (mut ours, theirs) = UnixStream::pair().expect("pair");
    let sent = bytes(1 << 20);
    fs::write(place.file("one"), &sent).expect("write");
    let mut command = proctor(&place, &[], "cat one");
    command.stdout(OwnedFd::from(theirs)).stderr(Stdio::piped());
    let running = start(&place, command);
    let mut got = Vec::new();
    ours.read_to_end(&mut got).expect("read");
    let run = running.finish();
    run.assert_exited(0);
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    run.assert_complete();

    // And a peer that goes away is a reader that left.
    let (ours, theirs) = UnixStream::pair().expect("pair");
    let mut command = proctor(&place, &[], "exec yes");
    command.stdout(OwnedFd::from(theirs)).stderr(Stdio::piped());
    let running = start(&place, command);
    (&ours).read_exact(&mut [0; 2]).expect("the first line");
    drop(ours);
    running.finish().assert_signaled(13);
}

/// A file that is appended to stays one: what others append meanwhile is not written over.
#[test]
fn a_file_in_append_mode_is_appended_to() {
    let place = Place::new("append");
    let path = place.file("log");
    fs::write(&path, "before\n").expect("write");
    let append = || File::options().append(true).open(&path).expect("open");
    let script = "echo one; echo yes >ready; while [ ! -e go ]; do sleep 0.01; done; echo two";
    let mut command = proctor(&place, &[], script);
    command.stdout(append()).stderr(Stdio::piped());
    let running = start(&place, command);
    wait_until("the first line", || fs::read_to_string(&path).ok()?.contains("one").then_some(()));
    append().write_all(b"meanwhile\n").expect("append");
    fs::write(place.file("go"), "").expect("let it go on");
    running.finish().assert_exited(0);
    assert_eq!(fs::read_to_string(&path).expect("read"), "before\none\nmeanwhile\ntwo\n");
}

/// A file that is not appended to: the offset is the caller's, so commands that follow each other write one after the other.
#[test]
fn a_files_offset_is_shared_with_the_caller() {
    let place = Place::new("offset");
    let script = r#"{ echo a; "$0" run --quiet -- echo b; echo c; "$0" run --quiet -- sh -c 'echo d >&2' 2>&1; echo e; } >all"#;
    let mut command = place.command("sh");
    command.args(["-c", script]).arg(binary()).current_dir(place.files());
    let run = Running::spawn(command).finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert_eq!(fs::read_to_string(place.file("all")).expect("read"), "a\nb\nc\nd\ne\n");
    let file = File::open(place.file("all")).expect("open");
    assert_eq!(file.read_at(&mut [0], 10).expect("read"), 0, "nothing behind the end");
}

/// The caller shares its descriptors with its shell: their flags are not proctor's to change, before, during or after.
#[test]
fn the_callers_flags_stay_as_they_are() {
    for flags in [OFlag::empty(), OFlag::O_NONBLOCK] {
        let place = Place::new("flags");
        let (pipe_reader, pipe) = std::io::pipe().expect("pipe");
        let (socket, _peer) = UnixStream::pair().expect("pair");
        let (input, _input_writer) = std::io::pipe().expect("pipe");
        let ours: [OwnedFd; 3] = [input.into(), pipe.into(), socket.into()];
        for fd in &ours {
            let now = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).expect("flags"));
            fcntl(fd, FcntlArg::F_SETFL((now & !OFlag::O_NONBLOCK) | flags)).expect("set flags");
        }
        let show = || ours.each_ref().map(|fd| fcntl(fd, FcntlArg::F_GETFL).expect("flags"));
        let before = show();
        let script = "echo out; echo err >&2; echo yes >ready; while [ ! -e go ]; do sleep 0.01; done";
        let mut command = proctor(&place, &[], script);
        let [stdin, stdout, stderr] = ours.each_ref().map(|fd| fd.try_clone().expect("dup"));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let running = start(&place, command);
        place.wait_line("ready");
        wait_until("the first bytes", || (available(pipe_reader.as_fd()) > 0).then_some(()));
        assert_eq!(show(), before, "during the run");
        fs::write(place.file("go"), "").expect("let it go on");
        running.finish().assert_exited(0);
        assert_eq!(show(), before, "after the run");
    }
}

/// Case 45's neighbour: programs open /dev/stdout again, also as a user who could not open root's pipe.
#[test]
fn a_user_may_open_its_streams_again() {
    let script = "echo one; echo two >/dev/stdout; echo three >>/dev/stdout; echo err >/dev/stderr";
    let place = Place::new("reopen");
    let run = place.shell(&["--user", "nobody", "--quiet"], script).finish();
    run.assert_exited(0);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("one\ntwo\nthree\n", "err\n"));

    // Where both go into one file, through one pipe.
    let file = File::create(place.file("both")).expect("create");
    let mut command = proctor(&place, &["--user", "nobody"], script);
    command.stdout(file.try_clone().expect("dup")).stderr(file);
    start(&place, command).finish().assert_exited(0);
    assert_eq!(fs::read_to_string(place.file("both")).expect("read"), "one\ntwo\nthree\nerr\n");
}

/// Input that the task does not read stays for whoever comes next.
#[test]
fn input_that_is_not_read_is_left_for_others() {
    let place = Place::new("input");
    let mut command = place.command("bash");
    let script = r#"printf 'a\nb\nc\n' | { "$0" run --quiet -- sh -c 'read line; echo "task $line"'; cat; }"#;
    command.args(["-c", script]).arg(binary());
    let run = Running::spawn(command).finish();
    assert_eq!((run.code(), run.text().as_str()), (0, "task a\nb\nc\n"), "{}", run.stderr);
}

/// How many bytes a pipe holds.
fn available(pipe: std::os::fd::BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD stores one int.
    let result =
        unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&pipe), libc::FIONREAD, &raw mut bytes) };
    assert_eq!(result, 0, "FIONREAD: {}", std::io::Error::last_os_error());
    bytes as usize
}

/// Where the report goes is not where output goes: `/dev/stdout` and the like are written as they are.
#[test]
fn the_report_may_go_to_a_device() {
    let place = Place::new("report-device");
    let run = place.run(&["run", "--no-audit", "--quiet", "--report", "/dev/stdout", "--", "echo", "out"]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let text = run.text();
    let json = text.strip_prefix("out\n").expect("the task's line comes first");
    let report: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(report["output"]["stdout_bytes"], 4);
    assert!(fs::metadata(Path::new("/dev/stdout")).is_ok());
}
