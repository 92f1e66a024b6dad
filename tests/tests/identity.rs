//! With what a task starts: exactly the user, groups, capabilities, limits, environment, signals and descriptors that were asked for, and
//! nothing of the caller's by accident (cases 2, 42, 43 and 45, INV-13).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tests::{Finished, Place, Running, binary, skip, wait_until};

/// The lines of a `/proc/<pid>/status`, by name.
fn status(text: &str) -> BTreeMap<&str, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name, value.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

/// `proctor run OPTIONS -- COMMAND` without audit and lines, to its end; it has to succeed.
#[track_caller]
fn ask(place: &Place, options: &[&str], command: &[&str]) -> String {
    let options = [&["--no-audit", "--quiet"], options].concat();
    text(&place.program(&options, command).finish())
}

#[track_caller]
fn text(run: &Finished) -> String {
    assert_eq!(run.code(), 0, "{}", run.stderr);
    run.text()
}

/// A proctor whose caller can be made odd.
fn caller(place: &Place, options: &[&str], command: &[&str]) -> Command {
    let mut caller = place.command(binary());
    caller.args(["run", "--no-audit", "--quiet"]).args(options).arg("--").args(command);
    caller.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    caller
}

#[track_caller]
fn answer(command: Command) -> String {
    text(&Running::spawn_as_is(command).finish())
}

/// Case 45, and no group of root's by accident.
#[test]
fn another_user_has_its_own_groups_and_no_capability() {
    let place = Place::new("nobody");
    let told = ask(&place, &["--user", "nobody"], &["cat", "/proc/self/status"]);
    let status = status(&told);
    let nobody = "65534 65534 65534 65534";
    assert_eq!((status["Uid"].as_str(), status["Gid"].as_str()), (nobody, nobody));
    let groups = Command::new("id").args(["-G", "nobody"]).output().expect("id");
    assert_eq!(sorted(&status["Groups"]), sorted(&String::from_utf8_lossy(&groups.stdout)));
    assert!(!status["Groups"].split(' ').any(|group| group == "0"), "{}", status["Groups"]);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!(status["NoNewPrivs"], "1");
    assert_eq!(sorted(&ask(&place, &["--user", "nobody"], &["id", "-G"])), sorted(&status["Groups"]));
}

/// Numbers of no account; the caller's inheritable and ambient capabilities do not come along.
#[test]
fn numbers_are_users_and_groups_as_well() {
    let place = Place::new("numbers");
    let mut command = place.command("setpriv");
    let some = "+chown,+kill,+setpcap";
    command.args(["--inh-caps", some, "--ambient-caps", some, "--groups", "0,4,20"]).arg(binary());
    command.args(["run", "--no-audit", "--quiet", "--user", "12345", "--group", "54321"]);
    let told = answer_of(command, &["cat", "/proc/self/status"]);
    let status = status(&told);
    assert_eq!(status["Uid"], "12345 12345 12345 12345");
    assert_eq!(status["Gid"], "54321 54321 54321 54321");
    assert_eq!(status["Groups"], "54321");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
}

/// Case 43: all groups of the user, as the user database has them.
#[test]
fn supplementary_groups_are_the_users() {
    const NAME: &str = "supplementary_groups_are_the_users";
    let groups = fs::read_to_string("/etc/group").expect("/etc/group");
    let members = groups.lines().filter_map(|line| line.rsplit(':').next()?.split(',').next());
    let user = members.filter(|name| !name.is_empty() && *name != "root").find(|name| {
        Command::new("id")
            .args(["-u", name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    });
    let Some(user) = user else { return skip(NAME, "no user here has a supplementary group") };
    let place = Place::new("groups");
    let told = ask(&place, &["--user", user], &["cat", "/proc/self/status"]);
    let expected = Command::new("id").args(["-G", user]).output().expect("id");
    let expected = sorted(&String::from_utf8_lossy(&expected.stdout));
    assert!(expected.len() > 1, "{user}: {expected:?}");
    assert_eq!(sorted(&status(&told)["Groups"]), expected, "{user}");
}

/// Without --user nothing is taken away: root's task is root's.
#[test]
fn without_a_user_the_task_is_the_callers() {
    let place = Place::new("same-user");
    let told = ask(&place, &[], &["cat", "/proc/self/status"]);
    let own = fs::read_to_string("/proc/self/status").expect("status");
    let (told, own) = (status(&told), status(&own));
    for field in ["Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"] {
        assert_eq!(told[field], own[field], "{field}");
    }
}

/// Case 43: the documented minimum, and no secret of the caller's.
#[test]
fn the_environment_is_what_was_asked_for() {
    let place = Place::new("environment");
    let env = |options: &[&str]| {
        let mut command = caller(&place, options, &["/usr/bin/env"]);
        command.env_clear().envs([
            ("AGENT_TOKEN", "s3"),
            ("PATH", "/usr/bin:/bin"),
            ("TERM", "xterm"),
            ("LANG", "C"),
        ]);
        command.envs([
            ("HOME", "/caller"),
            ("USER", "caller"),
            ("LOGNAME", "caller"),
            ("SHELL", "/bin/caller"),
        ]);
        command.envs([
            ("LD_PRELOAD", ""),
            ("NOTIFY_SOCKET", "/nowhere"),
            ("PROCTOR_LOG", "off"),
            ("https_proxy", "x"),
        ]);
        let mut lines: Vec<String> = answer(command).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let minimum = [
        "HOME=/caller",
        "LOGNAME=caller",
        "PATH=/usr/bin:/bin",
        "SHELL=/bin/caller",
        "TERM=xterm",
        "USER=caller",
    ];
    assert_eq!(env(&[]), minimum);

    let account = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let account: Vec<&str> =
        account.lines().find(|l| l.starts_with("nobody:")).expect("nobody").split(':').collect();
    let (home, shell) = (format!("HOME={}", account[5]), format!("SHELL={}", account[6]));
    let nobodys = [&home, "LOGNAME=nobody", "PATH=/usr/bin:/bin", &shell, "TERM=xterm", "USER=nobody"];
    assert_eq!(env(&["--user", "nobody"]), nobodys);

    assert_eq!(env(&["--clear-env"]), [""; 0]);
    assert_eq!(
        env(&["--clear-env", "--env", "AGENT_TOKEN", "--env", "A=b=c", "--env", "EMPTY="]),
        ["A=b=c", "AGENT_TOKEN=s3", "EMPTY="]
    );
}

/// Case 43: the limits are the caller's or those that were asked for, never some of proctor's own.
#[test]
fn limits_are_the_callers_or_the_chosen_ones() {
    let place = Place::new("limits");
    let limits = |options: &[&str]| {
        let mut command = place.command("prlimit");
        command.args(["--nofile=256:", "--core=0:"]).arg(binary()).args(["run", "--no-audit", "--quiet"]);
        answer_of_with(command, options, &["cat", "/proc/self/limits"])
    };
    let limit = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
        let values: Vec<String> = line[name.len()..].split_whitespace().take(2).map(str::to_owned).collect();
        (values[0].clone(), values[1].clone())
    };
    let pair = |soft: &str, hard: &str| (soft.to_owned(), hard.to_owned());
    // Hard limits are as they are here: whether they may be raised depends on CAP_SYS_RESOURCE, which a container may lack.
    let own = fs::read_to_string("/proc/self/limits").expect("limits");
    let (files, cores) = (limit(&own, "Max open files").1, limit(&own, "Max core file size").1);
    let text = limits(&[]);
    assert_eq!(limit(&text, "Max open files"), pair("256", &files));
    assert_eq!(limit(&text, "Max core file size"), pair("0", &cores));
    for line in own.lines().skip(1).filter(|line| !line.contains("open files") && !line.contains("core file"))
    {
        let name = line[..26].trim_end();
        assert_eq!(limit(&text, name), limit(&own, name), "{name}");
    }

    let all = format!("nofile={files}");
    let text = limits(&["--rlimit", &all, "--rlimit", "nproc=100:200", "--rlimit", "fsize=1000000"]);
    assert_eq!(limit(&text, "Max open files"), pair(&files, &files));
    assert_eq!(limit(&text, "Max processes"), pair("100", "200"));
    assert_eq!(limit(&text, "Max file size"), pair("1000000", "1000000"));
    assert_eq!(limit(&text, "Max core file size"), pair("0", &cores));
    // Another user's task may have more than the caller's soft limit, too.
    let text = limits(&["--user", "nobody", "--rlimit", &all]);
    assert_eq!(limit(&text, "Max open files"), pair(&files, &files));
}

/// Case 43: signals are at their defaults, whatever the caller ignores or blocks.
#[test]
fn signals_are_at_their_defaults() {
    let place = Place::new("signals");
    let mut command = caller(&place, &[], &["cat", "/proc/self/status"]);
    // SAFETY: signal and sigprocmask are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGPIPE, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD, libc::SIGRTMIN()] {
                libc::signal(signal, libc::SIG_IGN);
            }
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGRTMAX()] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Ok(())
        });
    }
    let told = answer(command);
    let status = status(&told);
    for field in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
        assert_eq!(status[field], "0000000000000000", "{field}");
    }
}

/// Case 43: exactly three descriptors, whatever the caller leaked into proctor.
#[test]
fn exactly_three_descriptors() {
    let place = Place::new("descriptors");
    for options in [&[][..], &["--user", "nobody"]] {
        let mut command = caller(&place, options, &["sh", "-c", "(ls /proc/$$/fd); :"]);
        // SAFETY: dup2 is async-signal-safe; what is duplicated is open, and without close-on-exec afterwards.
        unsafe {
            command.pre_exec(|| {
                for fd in (100..120).chain([3, 4, 5, 200]) {
                    if libc::dup2(2, fd) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        assert_eq!(answer(command), "0\n1\n2\n", "{options:?}");
    }
}

/// The rest of what a process inherits: umask, OOM score, session, working directory.
#[test]
fn umask_oom_score_session_and_directory() {
    let place = Place::new("rest");
    let directory = place.files().display().to_string();
    let script = "umask; cat /proc/self/oom_score_adj; pwd; cat /proc/$$/stat; echo $$";
    let mut command = place.command("sh");
    let outer = "umask 027; echo 500 >/proc/self/oom_score_adj; exec \"$@\"";
    command.args(["-c", outer, "sh"]).arg(binary()).args([
        "run",
        "--no-audit",
        "--quiet",
        "--cwd",
        &directory,
    ]);
    let told = answer_of(command, &["sh", "-c", script]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[..3], ["0027", "0", &directory], "{told}");
    // proc(5): after the name come state, parent, group, session, terminal.
    let fields: Vec<&str> = lines[3].rsplit_once(") ").expect("a stat").1.split(' ').collect();
    let pid = lines[4];
    assert_eq!(
        [fields[2], fields[3], fields[4]],
        [pid, pid, "0"],
        "a session of its own without a terminal: {told}"
    );
}

/// Cases 1 to 3 and INV-12: `ps` tells who is who; the guardian is not in the task's cgroup, which holds the task's processes only.
#[test]
fn the_guardians_are_named_and_stay_in_their_own_cgroup() {
    let place = Place::new("guardians");
    let running = place.shell(&["--name", "my task"], "echo $$ >pid; while [ ! -e go ]; do (:); done");
    let main = place.wait_line("pid").trim().to_owned();
    let keeper = child_named(running.pid(), "proctor-keeper");
    let executor = child_named(keeper, "proctor-exec");
    assert!(cmdline(executor).contains("my task"), "{}", cmdline(executor));
    assert!(cmdline(keeper).contains(&format!("proctor.run-{}", running.pid())), "{}", cmdline(keeper));
    let v2 = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
        text.lines().find_map(|line| line.strip_prefix("0::")).expect("a v2 line").to_owned()
    };
    assert!(v2(&executor.to_string()).ends_with("/executors"), "{}", v2(&executor.to_string()));
    assert!(v2(&main).ends_with("/tasks/my%20task/run-1"), "{}", v2(&main));
    assert_eq!(parent(main.parse().expect("a pid")), executor, "the executor is the task's parent");

    // Looked at without a pause while the task forks all the time: no member is one of ours, nor a thread of one.
    let leaf = place.leaf("my%20task");
    let ours = [running.pid(), keeper, executor];
    let mut seen = 0;
    for round in 0..3000 {
        for file in ["cgroup.procs", "cgroup.threads"] {
            let members = fs::read_to_string(leaf.join(file)).expect("members");
            for member in members.lines() {
                let member: i32 = member.parse().expect("a pid");
                assert!(!ours.contains(&member), "pid {member} of proctor's is in {file} in round {round}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 6000, "the task was there all the time: {seen}");
    fs::write(place.file("go"), "").expect("let it end");
    let run = running.finish();
    run.assert_exited(0);
    assert_eq!(run.number("/executor/pid"), executor as u64);
    assert_eq!(run.report["main"]["pid"].to_string(), main);
    run.assert_proven();
}

/// INV-1 and case 42: the task is born in its leaf of cgroup2, wherever that is mounted, and in no other hierarchy is anything moved.
#[test]
fn the_task_is_born_in_its_leaf_and_v1_is_not_touched() {
    let place = Place::new("leaf");
    let run = place.program(&[], &["cat", "/proc/self/cgroup"]).finish();
    run.assert_exited(0);
    let own = fs::read_to_string("/proc/self/cgroup").expect("cgroup");
    let others = |text: &str| {
        text.lines().filter(|line| !line.starts_with("0::")).map(str::to_owned).collect::<Vec<_>>()
    };
    let told = run.text();
    assert_eq!(others(&told), others(&own));
    let leaf = told.lines().find(|line| line.starts_with("0::")).expect("a v2 line");
    assert!(leaf.ends_with("/tasks/cat/run-1"), "{leaf}");
    // It was there at its birth and was never moved.
    assert_eq!((run.number("/audit/births"), run.number("/audit/migrations")), (1, 0));
    run.assert_proven();
}

/// Adds the command of the task to a caller's command line and takes the answer.
#[track_caller]
fn answer_of(command: Command, task: &[&str]) -> String {
    answer_of_with(command, &[], task)
}

#[track_caller]
fn answer_of_with(mut command: Command, options: &[&str], task: &[&str]) -> String {
    command.args(options).arg("--").args(task);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    answer(command)
}

fn sorted(ids: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().expect("an id")).collect();
    ids.sort_unstable();
    ids
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn cmdline(pid: i32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

/// The child of this name.
fn child_named(of: i32, name: &str) -> i32 {
    wait_until(name, || {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.find(|pid| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim_end() == name && parent(*pid) == of
        })
    })
}
