//! Many at once, one inside another, and real programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use tests::{Finished, Place, Running, binary, skip, wait_until};

fn figure(run: &Finished, name: &str) -> u64 {
    run.report["audit"][name].as_u64().unwrap_or_else(|| panic!("{name}: {:#}", run.report))
}

/// Waits for what the task makes when it has begun.
fn wait_for(path: &Path) {
    wait_until(&format!("{}", path.display()), || fs::metadata(path).ok().map(drop));
}

#[test]
fn twenty_at_once_have_each_their_own_proof() {
    const RUNS: u64 = 20;
    let place = Place::new("twenty");
    let go = place.file("go");
    let runs: Vec<Running> = (0..RUNS)
        .map(|number| {
            // All live at the same time: each says that it is there, and waits for the word.
            let script = format!(
                "touch ready.{number}; until test -e {}; do sleep 0.05; done; \
                 i=0; while test $i -lt {number}; do /bin/true; i=$((i+1)); done; exit {number}",
                go.display()
            );
            let files = place.files().display().to_string();
            let options = ["--cwd", &files, "--name", &format!("t{number}"), "--", "bash", "-c", &script];
            place.start_reported(&binary(), None, &options)
        })
        .collect();
    (0..RUNS).for_each(|number| wait_for(&place.file(&format!("ready.{number}"))));
    fs::write(&go, "").expect("give the word");
    for (number, run) in (0..RUNS).zip(runs) {
        let run = run.finish();
        assert_eq!(run.code() as u64, number, "{}", run.stderr);
        assert_eq!(run.report["task"], format!("t{number}"));
        run.assert_proven();
        assert_eq!(figure(&run, "births"), figure(&run, "exits"));
        // touch, as many as it has numbers, and itself; the sleeps come on top.
        assert!(figure(&run, "births") >= number + 2, "{:#}", run.report["audit"]);
        assert_eq!(figure(&run, "migrations"), 0);
    }
}

/// `proctor run --report OUTER -- proctor run --report INNER -- sh -c SCRIPT`.
fn nested(place: &Place, script: &str) -> (Running, PathBuf) {
    let inner = place.file("inner");
    let proctor = binary().display().to_string();
    let inner_text = inner.display().to_string();
    let files = place.files().display().to_string();
    let options = [
        "--cwd",
        &files,
        "--",
        &proctor,
        "run",
        "--name",
        "in",
        "--report",
        &inner_text,
        "--",
        "sh",
        "-c",
        script,
    ];
    (place.start_reported(&binary(), None, &options), inner)
}

fn statuses(report: &serde_json::Value) -> Vec<&str> {
    let claims = ["stayed_out", "contained", "undisturbed", "ended"];
    claims.map(|claim| report["audit"]["claims"][claim]["status"].as_str().unwrap_or("missing")).to_vec()
}

#[test]
fn one_inside_another_has_a_proof_of_its_own() {
    let place = Place::new("nested");
    let (run, inner) = nested(&place, "echo innermost; exit 5");
    let run = run.finish();
    assert_eq!((run.code(), run.text().as_str()), (5, "innermost\n"), "{}", run.stderr);
    run.assert_proven();
    let inner: serde_json::Value =
        serde_json::from_slice(&fs::read(inner).expect("the inner report")).expect("JSON");
    assert_eq!(statuses(&inner), ["proven"; 4], "{:#}", inner["audit"]);
    assert_eq!(inner["outcome"]["code"], 5);
    // The inner proctor, its keeper, its executor and its task were born in the outer run.
    assert!(figure(&run, "births") >= 4, "{:#}", run.report["audit"]);
    assert_eq!(figure(&run, "births"), figure(&run, "exits"));
}

#[test]
fn stopping_the_outer_one_leaves_nothing_of_the_inner_one() {
    let place = Place::new("nested-stop");
    let (run, inner) = nested(&place, "touch ready; exec sleep 300");
    wait_for(&place.file("ready"));
    run.signal(Signal::SIGTERM);
    let run = run.finish();
    // The inner proctor was asked to end, and ended its task: it exits with what its task ended by.
    assert_eq!(run.code(), 128 + 15, "{}", run.stderr);
    run.assert_proven();
    let inner: serde_json::Value =
        serde_json::from_slice(&fs::read(inner).expect("the inner report")).expect("JSON");
    assert_eq!(statuses(&inner), ["proven"; 4], "{:#}", inner["audit"]);
    assert_eq!(place.groups(), Vec::<String>::new());
}

#[test]
fn killing_the_outer_one_leaves_nothing_of_the_inner_one() {
    let place = Place::new("nested-kill");
    let (run, _) = nested(&place, "trap '' TERM; touch ready; sleep 300");
    wait_for(&place.file("ready"));
    run.signal(Signal::SIGKILL);
    run.finish();
    place.wait_empty();
}

#[test]
fn in_namespaces_of_its_own_it_runs_and_says_what_it_proves() {
    let place = Place::new("namespaces");
    for (namespaces, is_proven) in [("-mui", true), ("-muip", false)] {
        let report = place.file(&format!("report{namespaces}"));
        let mut command = place.command("unshare");
        command.args([namespaces, "--fork", "--mount-proc", "--"]);
        command.arg(binary()).args(["run", "--report"]).arg(&report).args(["--", "sh", "-c", "exit 4"]);
        if is_proven {
            // Without a pid namespace there is no /proc to be made.
            command = place.command("unshare");
            command.args([namespaces, "--"]);
            command.arg(binary()).args(["run", "--report"]).arg(&report).args(["--", "sh", "-c", "exit 4"]);
        }
        let run = Running::spawn(command).with_report(report).finish();
        assert_eq!(run.code(), 4, "{}", run.stderr);
        let expected = if is_proven { "proven" } else { "unproven" };
        assert_eq!(statuses(&run.report), [expected; 4], "{:#}", run.report["audit"]);
    }
}

/// Where a program is, also in the directories of system commands.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|path| fs::metadata(path).is_ok_and(|file| file.is_file()))
}

/// A web server with workers under another user, ended by its own graceful signal.
#[test]
fn nginx_is_stopped_by_its_own_signal() {
    let Some(nginx) = found("nginx") else {
        return skip("nginx_is_stopped_by_its_own_signal", "nginx is not installed");
    };
    let place = Place::new("nginx");
    let files = place.files().display().to_string();
    let nobody = nix::unistd::User::from_name("nobody").expect("look up").expect("a user nobody");
    let group = nix::unistd::Group::from_gid(nobody.gid).expect("look up").expect("its group").name;
    let config = format!(
        "daemon off; pid {files}/pid; error_log {files}/error.log; user nobody {group}; worker_processes 3;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; client_body_temp_path {files}/body; proxy_temp_path {files}/proxy;\n\
         fastcgi_temp_path {files}/fastcgi; uwsgi_temp_path {files}/uwsgi; scgi_temp_path {files}/scgi;\n\
         server {{ listen unix:{files}/socket; location / {{ return 200 \"served\\n\"; }} }} }}\n"
    );
    fs::write(place.file("nginx.conf"), config).expect("write the configuration");
    let config = place.file("nginx.conf").display().to_string();
    let nginx = nginx.display().to_string();
    let options = ["--name", "web", "--stop-signal", "QUIT", "--", &nginx, "-c", &config, "-p", &files];
    let run = place.start_reported(&binary(), None, &options);
    let leaf = place.leaf("web");
    let answer = wait_until("an answer of nginx", || ask(&place.file("socket")));
    assert!(answer.ends_with("served\n"), "{answer}");
    wait_until("the workers", || (members(&leaf).len() == 4).then_some(()));
    let processes = members(&leaf);
    run.signal(Signal::SIGTERM);
    let run = run.finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert_eq!(run.report["leftovers_killed"], 0, "{}", run.stderr);
    for pid in processes {
        assert!(fs::metadata(format!("/proc/{pid}")).is_err(), "worker {pid} is left");
    }
    run.assert_proven();
    assert_eq!((figure(&run, "births"), figure(&run, "exits")), (4, 4), "{:#}", run.report["audit"]);
}

/// Asks a web server on a Unix socket; none while nobody answers.
fn ask(socket: &Path) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn members(leaf: &Path) -> Vec<u32> {
    let pids = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
    pids.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// The directory of the newest PostgreSQL server's programs.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|bin| fs::metadata(bin.join("initdb")).is_ok());
    found.sort();
    found.pop()
}

/// A database with half a dozen children, under another user, ended by its fast shutdown.
#[test]
fn postgres_is_stopped_by_its_own_signal() {
    let Some(bin) = postgres() else {
        return skip("postgres_is_stopped_by_its_own_signal", "no PostgreSQL server is installed");
    };
    let place = Place::new("postgres");
    // Socket paths are short by the kernel's rule, and the database's directory belongs to its user.
    let data = place.file("d");
    fs::create_dir(&data).expect("make the directory");
    std::os::unix::fs::chown(&data, Some(65534), Some(65534)).expect("give it to nobody");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("close it to others");
    let (data, program) = (data.display().to_string(), bin.join("postgres").display().to_string());
    let mut init = place.command("setpriv");
    init.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(bin.join("initdb"));
    init.args(["-D", &data, "-A", "trust", "-U", "test", "-N", "--no-instructions", "--locale=C"]);
    let made = init.current_dir("/").output().expect("run initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let options = [
        "--name",
        "db",
        "--user",
        "nobody",
        "--stop-signal",
        "INT",
        "--cwd",
        &data,
        "--",
        &program,
        "-D",
        &data,
        "-k",
        &data,
        "-h",
        "",
        "-c",
        "fsync=off",
    ];
    let run = place.start_reported(&binary(), None, &options);
    let leaf = place.leaf("db");
    let answer = wait_until("an answer of the database", || {
        let mut ask = Command::new(bin.join("psql"));
        ask.args(["-h", &data, "-U", "test", "-d", "postgres", "-Atc", "select 6 * 7"]);
        ask.output().ok().filter(|answer| answer.status.success())
    });
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "42\n");
    let processes = members(&leaf);
    assert!(processes.len() >= 4, "a server has children: {processes:?}");
    run.signal(Signal::SIGTERM);
    let run = run.finish();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert_eq!(run.report["leftovers_killed"], 0, "{}", run.stderr);
    run.assert_proven();
    assert_eq!(figure(&run, "births"), figure(&run, "exits"), "{:#}", run.report["audit"]);
}

/// A build with thousands of short processes.
#[test]
fn a_build_with_a_thousand_births_is_accounted_for() {
    const FILES: usize = 300;
    if let Some(missing) = ["make", "cc"].into_iter().find(|tool| found(tool).is_none()) {
        return skip(
            "a_build_with_a_thousand_births_is_accounted_for",
            &format!("{missing} is not installed"),
        );
    }
    let place = Place::new("build");
    for number in 0..FILES {
        fs::write(
            place.file(&format!("f{number}.c")),
            format!("int f{number}(void) {{ return {number}; }}\n"),
        )
        .expect("write a source");
    }
    let objects: Vec<String> = (0..FILES).map(|number| format!("f{number}.o")).collect();
    // Each object takes a shell, a compiler with its parts, and an echo.
    let makefile =
        format!("all: {}\n%.o: %.c\n\t@cc -O0 -c $< -o $@ && /bin/echo $@ > /dev/null\n", objects.join(" "));
    fs::write(place.file("Makefile"), makefile).expect("write the Makefile");
    let files = place.files().display().to_string();
    let run = place.run_reported(&["--cwd", &files, "--", "make", "-s", "-j4"]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    assert!(objects.iter().all(|object| fs::metadata(place.file(object)).is_ok()), "an object is missing");
    run.assert_proven();
    let (births, exits) = (figure(&run, "births"), figure(&run, "exits"));
    assert_eq!(births, exits);
    assert!(births > 1000, "{births} births");
    assert_eq!((figure(&run, "lost_events"), figure(&run, "migrations")), (0, 0));
}
