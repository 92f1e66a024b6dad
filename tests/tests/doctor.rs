//! `proctor doctor` on the running kernel, as several users and in several namespaces. Needs root. Nothing outside a private cgroup is
//! changed: mounts are made in mount namespaces of their own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use supervisor::cgroup::{Hierarchy, Layout};

const NOBODY: u32 = 65534;

/// A private cgroup to run the doctor in. At the end it must be empty: the doctor leaves nothing behind.
struct Place {
    cgroup: PathBuf,
    /// A directory that everybody may enter, with the program in it.
    files: PathBuf,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("proctor-test-doctor.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let hierarchy = Hierarchy::find().expect("these tests need cgroup2");
        let cgroup =
            hierarchy.directory_of(hierarchy.own_cgroup()).expect("our own cgroup is shown").join(&name);
        fs::create_dir(&cgroup).expect("these tests need root and a writable cgroup2");
        let files = std::env::temp_dir().join(name);
        fs::create_dir(&files).expect("a directory for files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o755)).expect("chmod");
        fs::copy(env!("CARGO_BIN_EXE_proctor-faulty"), files.join("proctor")).expect("copy the program");
        Self { cgroup, files }
    }

    /// A shell that runs this script in the private cgroup; `$CG` is its directory, `$TOP` the mount point of cgroup2 and `$DIR` a
    /// directory for files, where `./proctor` is.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-ec", &format!("echo $$ > \"$CG/cgroup.procs\"; cd \"$DIR\"; {script}")])
            .env("CG", &self.cgroup)
            .env("DIR", &self.files)
            .env("TOP", Hierarchy::find().expect("cgroup2").mount_point())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str) -> Output {
        self.shell(script).output().expect("run sh")
    }

    /// Runs a script that ends in `doctor --json`: its exit code and report.
    fn report(&self, script: &str) -> Doctor {
        let output = self.run(script);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr, "", "nothing is written to stderr");
        let json = serde_json::from_slice(&output.stdout).expect("one JSON object on stdout");
        Doctor { code: output.status.code(), json }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.files).expect("remove the files");
        // Fails when the doctor left a cgroup or a process in it.
        fs::remove_dir(&self.cgroup).expect("the private cgroup is empty");
    }
}

struct Doctor {
    code: Option<i32>,
    json: Value,
}

impl Doctor {
    fn feature(&self, name: &str) -> &Value {
        let features = self.json["features"].as_array().expect("a list of features");
        features
            .iter()
            .find(|one| one["name"] == name)
            .unwrap_or_else(|| panic!("no feature {name}: {features:?}"))
    }

    #[track_caller]
    fn expect(&self, name: &str, state: &str, words: &[&str]) {
        let feature = self.feature(name);
        assert_eq!(feature["state"], state, "{feature:#}");
        let text = format!("{} / {}", feature["detail"], feature["advice"]);
        for word in words {
            assert!(text.contains(word), "`{word}` is not in {text}");
        }
    }

    #[track_caller]
    fn expect_tasks_cannot_run(&self, because: &str) {
        assert_eq!(self.code, Some(1), "{:#}", self.json);
        assert_eq!(self.json["tasks_can_run"], false);
        let verdict = self.json["verdict"].as_str().unwrap_or_default();
        assert!(verdict.starts_with("tasks cannot run") && verdict.contains(because), "{verdict}");
    }

    #[track_caller]
    fn expect_tasks_can_run(&self) {
        assert_eq!(self.code, Some(0), "{:#}", self.json);
        assert_eq!(self.json["tasks_can_run"], true);
    }
}

/// The word that the report must have for this host.
fn layout() -> &'static str {
    match Hierarchy::find().expect("cgroup2").layout() {
        Layout::Unified => "unified",
        Layout::Hybrid { .. } => "hybrid",
    }
}

#[test]
fn the_table_fits_and_ends_with_the_verdict() {
    let place = Place::new();
    let output = place.run("exec ./proctor doctor");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains(layout()), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("tasks can run")), "{text}");
    assert!(!text.contains('\x1b'), "colours are for terminals");
}

#[test]
fn json_has_every_field_and_the_kernels_own_words() {
    let place = Place::new();
    let doctor = place.report("exec ./proctor doctor --json");
    doctor.expect_tasks_can_run();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("read");
    assert_eq!(doctor.json["kernel"], release.trim());
    let features = doctor.json["features"].as_array().expect("a list");
    assert!(features.len() > 20);
    for feature in features {
        for key in ["name", "state", "detail", "cost", "needed_for"] {
            assert!(feature[key].as_str().is_some_and(|text| !text.is_empty()), "{key} in {feature:#}");
        }
        assert!(feature["advice"].is_string() || feature["advice"].is_null(), "{feature:#}");
        let required = feature["required"].as_bool().expect("required");
        assert_eq!(required, feature["needed_for"] == "tasks");
        if required {
            assert_eq!(feature["state"], "ok", "{feature:#}");
        }
    }
    doctor.expect("hierarchies", if layout() == "hybrid" { "degraded" } else { "ok" }, &[layout()]);
    doctor.expect("kernel-btf", "ok", &["vmlinux"]);
    doctor.expect("bpf-rights", "ok", &[]);
    doctor.expect("cgroup.freeze", "ok", &[]);
    // Healthy or affected depends on the kernel; INV-11 is why it is asked.
    let birth = doctor.feature("birth-after-kill");
    assert!(birth["state"] == "ok" || birth["state"] == "degraded", "{birth:#}");
}

#[test]
fn many_at_once_in_one_cgroup_do_not_disturb_each_other() {
    let place = Place::new();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.shell("exec ./proctor doctor --json");
            command.stdout(Stdio::piped()).spawn().expect("spawn")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("wait");
        let json: Value = serde_json::from_slice(&output.stdout).expect("json");
        assert!(output.status.success(), "{json:#}");
        let left =
            json["features"].as_array().expect("a list").iter().find(|one| one["name"] == "cgroup-write");
        assert_eq!(left.expect("cgroup-write")["state"], "ok");
    }
}

#[test]
fn a_user_without_rights_gets_reasons_and_exit_code_1() {
    let place = Place::new();
    let doctor =
        place.report("exec setpriv --reuid 65534 --regid 65534 --clear-groups ./proctor doctor --json");
    doctor.expect_tasks_cannot_run("cgroup-write");
    doctor.expect("cgroup-write", "missing", &["EACCES", "run as root", "Delegate=yes"]);
    doctor.expect("clone3-into-cgroup", "unknown", &["needs a cgroup of our own"]);
    doctor.expect("clone3-pidfd", "ok", &[]);
    doctor.expect("user", "degraded", &["uid 65534"]);
    doctor.expect("bpf-rights", "missing", &["EPERM", "CAP_BPF"]);
}

#[test]
fn in_a_delegated_cgroup_a_user_can_run_tasks() {
    let place = Place::new();
    for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
        chown(place.cgroup.join(file), Some(NOBODY), Some(NOBODY)).expect("chown");
    }
    let doctor =
        place.report("exec setpriv --reuid 65534 --regid 65534 --clear-groups ./proctor doctor --json");
    doctor.expect_tasks_can_run();
    doctor.expect("clone3-into-cgroup", "ok", &[]);
    assert_eq!(doctor.json["audit_can_prove"], false);
}

/// INV-11 from the forker's side: `proctor run` works there, so the doctor must not say that it does not.
#[test]
fn in_a_cgroup_that_was_killed_once_tasks_can_run() {
    let place = Place::new();
    fs::write(place.cgroup.join("cgroup.kill"), "1").expect("kill the empty place");
    let doctor = place.report("exec ./proctor doctor --json");
    doctor.expect_tasks_can_run();
    doctor.expect("clone3-into-cgroup", "ok", &[]);
}

#[test]
fn a_read_only_cgroup2_is_told_with_the_way_out() {
    let place = Place::new();
    let script = "exec unshare -m sh -ec 'mount --bind \"$TOP\" \"$TOP\"; mount -o remount,bind,ro \"$TOP\"; \
                  exec ./proctor doctor --json'";
    let doctor = place.report(script);
    doctor.expect_tasks_cannot_run("cgroup-write");
    doctor.expect("cgroup2-mount", "degraded", &["read-only"]);
    doctor.expect("cgroup-write", "missing", &["EROFS", "remount,bind,rw"]);
}

#[test]
fn a_read_only_mount_over_our_own_cgroup_alone_is_seen() {
    let place = Place::new();
    let script = "exec unshare -m sh -ec 'mount --bind \"$CG\" \"$CG\"; mount -o remount,bind,ro \"$CG\"; \
                  exec ./proctor doctor --json'";
    let doctor = place.report(script);
    doctor.expect_tasks_cannot_run("cgroup-write");
    let cgroup = place.cgroup.display().to_string();
    doctor.expect("cgroup2-mount", "degraded", &["read-only", &cgroup]);
}

#[test]
fn cgroup2_is_found_wherever_it_is_mounted() {
    let place = Place::new();
    let script = "exec unshare -m sh -ec 'mkdir \"odd \\\\ place#\"; mount --move \"$TOP\" \"odd \\\\ place#\"; \
                  exec ./proctor doctor --json'";
    let doctor = place.report(script);
    doctor.expect_tasks_can_run();
    doctor.expect("cgroup2-mount", "ok", &["odd \\\\ place#"]);
}

#[test]
fn without_any_cgroup2_mount_the_report_says_how_to_mount_it() {
    let place = Place::new();
    let doctor = place.report("exec unshare -m sh -ec 'umount -l \"$TOP\"; exec ./proctor doctor --json'");
    doctor.expect_tasks_cannot_run("cgroup2-mount");
    doctor.expect("cgroup2-mount", "missing", &["no cgroup2", "mount -t cgroup2"]);
    doctor.expect("cgroup.kill", "unknown", &["needs a cgroup2 mount"]);
    doctor.expect("pidfd-wait", "ok", &[]);
}

#[test]
fn something_else_mounted_over_cgroup2_is_told() {
    let place = Place::new();
    let script = "exec unshare -m sh -ec 'mount -t tmpfs none \"$TOP\"; exec ./proctor doctor --json'";
    let doctor = place.report(script);
    doctor.expect_tasks_cannot_run("cgroup2-mount");
    doctor.expect("cgroup2-mount", "missing", &["another mount lies over"]);
}

#[test]
fn in_a_cgroup_namespace_the_mount_must_belong_to_it() {
    let place = Place::new();
    let doctor = place.report("exec unshare -C -m ./proctor doctor --json");
    doctor.expect_tasks_cannot_run("cgroup2-mount");
    doctor.expect("cgroup2-mount", "missing", &["outside of what cgroup2", "mount cgroup2 anew"]);

    let script =
        "exec unshare -C -m sh -ec 'mkdir fresh; mount -t cgroup2 none fresh; exec ./proctor doctor --json'";
    place.report(script).expect_tasks_can_run();
}

#[test]
fn in_a_pid_namespace_proc_must_belong_to_it() {
    let place = Place::new();
    let doctor = place.report("exec unshare -p -f ./proctor doctor --json");
    doctor.expect_tasks_cannot_run("proc");
    doctor.expect("proc", "missing", &["another pid namespace"]);

    let doctor = place.report("exec unshare -p -f --mount-proc ./proctor doctor --json");
    doctor.expect_tasks_can_run();
    doctor.expect("pid-namespace", "degraded", &["not the host's"]);
}

#[test]
fn a_hidden_proc_is_told_to_a_user() {
    let place = Place::new();
    // A new mount: a remount would change the host's /proc.
    let script = "exec unshare -m sh -ec 'mount -t proc -o hidepid=2 proc /proc; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups ./proctor doctor --json'";
    let doctor = place.report(script);
    doctor.expect("proc", "degraded", &["hidepid="]);
}

#[test]
fn a_reader_that_left_is_no_failure() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().expect("pipe");
    drop(reader);
    let output = place.shell("exec ./proctor doctor").stdout(writer).output().expect("run");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure_of_its_own() {
    let place = Place::new();
    let output = place.run("exec ./proctor doctor > /dev/full");
    assert_eq!(output.status.code(), Some(125));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("cannot write the report"), "{stderr}");
}

#[test]
fn the_program_may_be_read_by_everybody_here() {
    // The other tests run it as nobody: if that were impossible they would fail for the wrong reason.
    let place = Place::new();
    let output = Command::new(place.files.join("proctor")).arg("--version").uid(NOBODY).gid(NOBODY).output();
    assert!(output.expect("run as nobody").status.success());
}
