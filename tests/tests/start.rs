//! What cannot be started: one clear line, the documented exit code, and nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use tests::{Finished, Place, Running, binary};

/// `proctor run --report FILE ARGS`, which has to fail with one line that has these words.
#[track_caller]
fn refused(place: &Place, args: &[&str], code: i32, words: &[&str]) -> Finished {
    let run = place.run_reported(args);
    assert_refused(&run, &format!("{args:?}"), code, words);
    run
}

#[track_caller]
fn assert_refused(run: &Finished, what: &str, code: i32, words: &[&str]) {
    let stderr = &run.stderr;
    assert_eq!(run.code(), code, "{what}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "one line for {what}, not: {stderr}");
    assert!(stderr.starts_with("proctor: ") && stderr.ends_with('\n'), "{what}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "`{word}` is missing for {what}: {stderr}");
    }
    assert_eq!(run.text(), "", "{what}");
}

/// The report files in the place.
fn reports(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.files()).expect("list").flatten().map(|e| e.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("report")).collect()
}

/// What can be known before anything is started: exit code 125, and not even a report.
#[test]
fn a_request_that_makes_no_sense_is_refused_before_anything_is_done() {
    let place = Place::new("bad-request");
    fs::write(place.file("plain"), "").expect("write");
    let plain = place.file("plain").display().to_string();
    let long = "x".repeat(129);
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["CMD"]),
        (&["--"], &["CMD"]),
        (&["--nonsense", "--", "true"], &["--nonsense"]),
        (&["--user", "no-such-user", "--", "true"], &["no-such-user", "getent passwd"]),
        (&["--group", "no-such-group", "--", "true"], &["no-such-group", "getent group"]),
        (&["--user", "4294967295", "--", "true"], &["4294967295"]),
        (&["--user", "1234567890", "--", "true"], &["1234567890", "--group"]),
        (&["--cwd", "/no/such/place", "--", "true"], &["--cwd", "/no/such/place"]),
        (&["--cwd", &plain, "--", "true"], &["--cwd", &plain, "no directory"]),
        (&["--cwd", "", "--", "true"], &["--cwd"]),
        (&["--grace", "soon", "--", "true"], &["--grace", "soon", "250ms"]),
        (&["--grace", "-1s", "--", "true"], &["-1"]),
        (&["--timeout", "1 fortnight", "--", "true"], &["--timeout", "fortnight"]),
        (&["--timeout", "99999999999999999999h", "--", "true"], &["--timeout"]),
        (&["--stop-signal", "SIGNONE", "--", "true"], &["--stop-signal", "SIGNONE"]),
        (&["--stop-signal", "0", "--", "true"], &["--stop-signal"]),
        (&["--stop-signal", "65", "--", "true"], &["--stop-signal"]),
        (&["--rlimit", "files=3", "--", "true"], &["--rlimit", "files=3", "nofile"]),
        (&["--rlimit", "nofile=2:1", "--", "true"], &["soft"]),
        (&["--until", "never", "--", "true"], &["--until", "never"]),
        (&["--env", "=x", "--", "true"], &["=x"]),
        (&["--env", "NO_SUCH_VARIABLE_HERE", "--", "true"], &["NO_SUCH_VARIABLE_HERE"]),
        (&["--name", "", "--", "true"], &["empty"]),
        (&["--name", "a\nb", "--", "true"], &["control character"]),
        (&["--name", "a\x1b[2Jb", "--", "true"], &["control character"]),
        (&["--name", &long, "--", "true"], &["129", "128"]),
        (&["--require-audit", "--no-audit", "--", "true"], &["--require-audit", "--no-audit"]),
    ];
    for (args, words) in cases {
        refused(&place, args, 125, words);
        assert_eq!(reports(&place), [""; 0], "a report was left by {args:?}");
        assert_eq!(place.groups(), [""; 0], "{args:?}");
    }
}

/// The report is opened first: a task whose report cannot be written is not started.
#[test]
fn an_unwritable_report_stops_nothing_half_way() {
    let place = Place::new("bad-report");
    let directory = place.files().display().to_string();
    for (report, word) in [("/no/such/place/report", "No such file"), (&directory, "directory"), ("", "")] {
        let touch = place.file("touched").display().to_string();
        let run = place.run(&["run", "--report", report, "--", "touch", &touch]);
        assert_refused(&run, report, 125, &["--report", report, word]);
        assert!(fs::metadata(&touch).is_err(), "the task ran in spite of {report}");
    }
    // The disk is full at the end: the task has run, and it is told that the report is not there.
    let run = place.run(&["run", "--no-audit", "--quiet", "--report", "/dev/full", "--", "true"]);
    assert_refused(&run, "/dev/full", 125, &["--report", "/dev/full", "No space left"]);
}

/// Exit codes 126 and 127, as people know them from other tools; the report names the step, the object and the errno.
#[test]
fn a_program_that_cannot_be_run_is_named_with_the_reason() {
    let place = Place::new("bad-program");
    let path = |name: &str| place.file(name).display().to_string();
    let make = |name: &str, text: &[u8], mode: u32| {
        fs::write(place.file(name), text).expect("write");
        fs::set_permissions(place.file(name), fs::Permissions::from_mode(mode)).expect("chmod");
        path(name)
    };
    let plain = make("plain", b"#!/bin/sh\n", 0o644);
    let script = make("script", b"echo no first line\n", 0o755);
    let lost = make("lost", b"#!/no/such/interpreter\n", 0o755);
    let empty = make("empty", b"", 0o755);
    let missing = path("missing");
    let below_a_file = format!("{plain}/x");
    let directory = place.files().display().to_string();
    std::os::unix::fs::symlink("loop", place.file("loop")).expect("symlink");
    let around = path("loop");
    // Longer than a path and than a message of ours.
    let endless = "x/".repeat(5000);
    let cases: &[(&str, i32, i32, &[&str])] = &[
        ("", 127, libc::ENOENT, &[]),
        (&missing, 127, libc::ENOENT, &["no such file"]),
        ("no-such-program-anywhere", 127, libc::ENOENT, &["no-such-program-anywhere", "PATH"]),
        (&below_a_file, 127, libc::ENOTDIR, &["no directory"]),
        (&lost, 127, libc::ENOENT, &["interpreter"]),
        (&directory, 126, libc::EACCES, &["directory"]),
        (&plain, 126, libc::EACCES, &["chmod +x"]),
        (&script, 126, libc::ENOEXEC, &["#!/bin/sh"]),
        (&empty, 126, libc::ENOEXEC, &[]),
        (&around, 126, libc::ELOOP, &[]),
        (&endless, 126, libc::ENAMETOOLONG, &["too long"]),
    ];
    for (program, code, errno, words) in cases {
        let run = refused(&place, &["--", program], *code, words);
        let start = &program[..program.len().min(1000)];
        assert!(run.stderr.contains(start), "{program}: {}", run.stderr);
        assert_eq!(run.report["outcome"]["kind"], "not_started", "{:#}", run.report);
        assert_eq!(run.report["outcome"]["step"], "exec", "{:#}", run.report);
        assert_eq!(run.report["outcome"]["errno"], *errno, "{program}: {:#}", run.report);
        assert_eq!(place.groups(), [""; 0], "{program}");
    }
}

/// What only the child can find out is a start error of proctor's, not the program's: 125. INV-7: a limit that cannot be set is one.
#[test]
fn a_step_before_the_program_that_fails_is_a_start_error() {
    let place = Place::new("bad-step");
    let closed = place.file("closed");
    fs::create_dir(&closed).expect("mkdir");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("chmod");
    let closed = closed.display().to_string();
    let words: &[&str] = &["chdir", &closed, "may not enter"];
    let run = refused(&place, &["--user", "nobody", "--cwd", &closed, "--", "true"], 125, words);
    assert_eq!(run.report["outcome"]["step"], "chdir", "{:#}", run.report);

    // More than fs.nr_open, which binds root too.
    let run = refused(&place, &["--rlimit", "nofile=99999999999", "--", "true"], 125, &["setrlimit"]);
    assert_eq!(run.report["outcome"]["kind"], "not_started", "{:#}", run.report);
    assert_eq!(run.report["outcome"]["errno"], libc::EPERM, "{:#}", run.report);
}

/// 3 MiB of arguments are too long for a stack of 8 MiB, and no trouble where the limit is higher. Each is told by the kernel, so what the
/// task's own limit allows is what counts. (A NUL cannot get here: an argument ends at it.)
#[test]
fn arguments_may_be_as_long_as_the_kernel_allows() {
    let place = Place::new("long");
    let proctor = |options: &str| {
        let mut command = place.command("bash");
        // 32 times 96 KiB.
        let script = format!(
            r#"ulimit -s unlimited; part=$(head -c 98304 /dev/zero | tr '\0' x); args=(); for i in {{1..32}}; do args+=($part); done
               exec "$0" run --report report --no-audit {options} -- sh -c 'for a; do echo ${{#a}}; done' sh "${{args[@]}}""#
        );
        command.args(["-c", &script]).arg(binary()).current_dir(place.files());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::spawn_as_is(command).with_report(place.file("report")).finish()
    };
    let run = proctor("--rlimit stack=8388608");
    assert_refused(&run, "3 MiB", 126, &["too long", "ulimit -s"]);
    assert!(run.stderr.len() < 1000, "the arguments are not repeated");
    assert_eq!(run.report["outcome"]["errno"], libc::E2BIG, "{:#}", run.report);

    let run = proctor("");
    assert_eq!((run.code(), run.text()), (0, "98304\n".repeat(32)), "{}", run.stderr);
}

/// A file that was there before the report is not removed by a refusal, nor emptied.
#[test]
fn a_file_that_was_there_before_is_kept() {
    let place = Place::new("kept");
    let report = place.file("old");
    fs::write(&report, "old report\n").expect("write");
    let path = report.display().to_string();
    let run = place.run(&["run", "--report", &path, "--cwd", "/no/such/place", "--", "true"]);
    assert_refused(&run, "a bad cwd", 125, &["--cwd"]);
    assert_eq!(fs::read_to_string(&report).expect("read"), "old report\n");

    // A shorter report over a longer file leaves nothing of it.
    fs::write(&report, "x".repeat(1 << 20)).expect("write");
    let run = place.run(&["run", "--quiet", "--no-audit", "--report", &path, "--", "true"]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let text = fs::read_to_string(&report).expect("read");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{} bytes", text.len());
}

/// A name is a name and no path: it can neither leave the tree nor be taken for one of the files in a cgroup.
#[test]
fn odd_names_are_no_obstacle() {
    let place = Place::new("names");
    let long = "x".repeat(128);
    let names = [
        ("a/b", "a%2fb"),
        ("..", "%2e."),
        (".", "%2e"),
        ("cgroup.procs", "cgroup%2eprocs"),
        ("%", "%25"),
        ("-x", "-x"),
        ("two words", "two%20words"),
        ("Größe", "Größe"),
        (&long, &long),
    ];
    for (name, directory) in names {
        let option = format!("--name={name}");
        let run = place.run_reported(&[&option, "--no-audit", "--", "cat", "/proc/self/cgroup"]);
        assert_eq!(run.code(), 0, "{name}: {}", run.stderr);
        let leaf = format!("/tasks/{directory}/run-1\n");
        assert!(run.text().contains(&leaf), "{name}: {}", run.text());
        assert_eq!(run.report["task"], name);
    }
}
