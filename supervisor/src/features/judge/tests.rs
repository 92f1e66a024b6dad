//! Reports of hosts that this machine is not.

use nix::errno::Errno;

use super::super::observed::{
    AuditTried, Birth, CgroupTrial, Compiled, ExitKept, HierarchyMissing, HierarchySeen, PidfdTrial, Proc,
    User,
};
use super::*;
use crate::cgroup::parse::Controller;
use crate::cgroup::{CgroupPath, Layout};

pub(in crate::features) fn controllers(names: &[&str]) -> Vec<Controller> {
    names.iter().map(|name| Controller::new(name.as_bytes()).unwrap()).collect()
}

pub(in crate::features) fn compiled(name: &str, enabled: bool) -> Compiled {
    Compiled { name: Controller::new(name.as_bytes()).unwrap(), enabled }
}

pub(in crate::features) fn hierarchy() -> HierarchySeen {
    let all = controllers(&["cpuset", "cpu", "io", "memory", "pids"]);
    HierarchySeen {
        mount_point: "/sys/fs/cgroup".to_owned(),
        read_only: false,
        nsdelegate: true,
        own: CgroupPath::new("/system.slice/proctor.service").unwrap(),
        layout: Layout::Unified,
        own_controllers: Tried::Worked(all.clone()),
        top_controllers: Tried::Worked(all),
        compiled: vec![],
    }
}

/// A host where nothing is missing.
fn perfect() -> Observed {
    Observed {
        release: Tried::Worked("6.18.1".to_owned()),
        user: User { id: 0, lacks: vec![], first_namespace: true },
        proc: Tried::Worked(Proc::Whole),
        first_pid_namespace: Tried::Worked(true),
        hierarchy: Ok(hierarchy()),
        cgroup: CgroupTrial {
            made: Tried::Worked(()),
            birth: Tried::Worked(()),
            kill: Tried::Worked(()),
            birth_after_kill: Tried::Worked(Birth::Healthy),
            freeze: Tried::Worked(()),
            left_behind: None,
        },
        pidfd: PidfdTrial {
            clone: Tried::Worked(()),
            signal: Tried::Worked(()),
            wait: Tried::Worked(()),
            info: Tried::Worked(ExitKept::Kept),
        },
        close_range: Tried::Worked(()),
        openat2: Tried::Worked(()),
        btf: Tried::Worked(5 << 20),
        bpf: Tried::Worked(()),
        audit: AuditTried::Loaded,
        bpffs: Tried::Worked(Some("/sys/fs/bpf".to_owned())),
        pressure: Tried::Worked(()),
    }
}

fn refused<T>(call: &'static str, errno: Errno) -> Tried<T> {
    Tried::Refused(SysError::new(call, errno))
}

fn of(report: &Report, feature: Feature) -> &Finding {
    report.findings.iter().find(|finding| finding.feature == feature).unwrap()
}

/// The finding's state, and its detail and advice as one text.
fn told(seen: &Observed, feature: Feature) -> (State, String) {
    let report = judge(seen);
    let finding = of(&report, feature);
    let advice = finding.advice.as_deref().unwrap_or_default();
    (finding.state, format!("{} / {advice}", finding.detail))
}

#[test]
fn a_perfect_host_is_ok_throughout() {
    let report = judge(&perfect());
    for finding in &report.findings {
        assert_eq!(finding.state, State::Ok, "{finding:?}");
        assert_eq!(finding.advice, None);
        assert!(!finding.detail.is_empty());
    }
    assert!(report.audit_can_prove());
}

#[test]
fn whatever_is_not_ok_has_a_detail_and_advice() {
    let mut seen = perfect();
    seen.release = refused("uname", Errno::EPERM);
    seen.user = User { id: 1000, lacks: vec!["CAP_KILL"], first_namespace: false };
    seen.proc = Tried::Worked(Proc::Foreign);
    seen.first_pid_namespace = Tried::Worked(false);
    seen.hierarchy = Err(HierarchyMissing { reason: "none".to_owned(), advice: "mount it" });
    seen.cgroup = CgroupTrial::not_tried("needs a cgroup2 mount");
    seen.pidfd.clone = refused("clone3", Errno::ENOSYS);
    seen.pidfd.signal = Tried::NotTried("needs a child");
    seen.pidfd.wait = Tried::Wrong("odd".to_owned());
    seen.pidfd.info = refused("ioctl", Errno::ENOTTY);
    seen.close_range = refused("close_range", Errno::EINVAL);
    seen.openat2 = refused("openat2", Errno::ENOSYS);
    seen.btf = refused("open", Errno::ENOENT);
    seen.bpf = refused("bpf", Errno::EPERM);
    seen.audit = AuditTried::Failed("no".to_owned());
    seen.bpffs = Tried::Worked(None);
    seen.pressure = refused("read", Errno::EOPNOTSUPP);
    for finding in judge(&seen).findings {
        assert_ne!(finding.state, State::Ok, "{finding:?}");
        assert!(!finding.detail.is_empty() && finding.advice.is_some(), "{finding:?}");
    }
}

#[test]
fn a_read_only_mount_is_named_with_the_way_out() {
    let mut seen = perfect();
    seen.hierarchy = Ok(HierarchySeen { read_only: true, ..hierarchy() });
    seen.cgroup = CgroupTrial {
        made: refused("mkdirat", Errno::EROFS),
        ..CgroupTrial::not_tried("needs a cgroup of our own")
    };
    let (state, text) = told(&seen, Feature::CgroupWrite);
    assert_eq!(state, State::Missing);
    assert!(text.contains("remount,bind,rw /sys/fs/cgroup"), "{text}");
    assert!(told(&seen, Feature::Cgroup2Mount).1.contains("read-only"));
    assert_eq!(judge(&seen).verdict(), "tasks cannot run: cgroup-write");
}

#[test]
fn without_rights_the_way_out_is_root_or_delegation() {
    let mut seen = perfect();
    seen.cgroup.made = refused("mkdirat", Errno::EACCES);
    let (state, text) = told(&seen, Feature::CgroupWrite);
    assert_eq!(state, State::Missing);
    assert!(text.contains("root") && text.contains("Delegate=yes"), "{text}");
}

#[test]
fn a_directory_left_behind_is_said() {
    let mut seen = perfect();
    seen.cgroup.left_behind = Some("/x: EBUSY".to_owned());
    let (state, text) = told(&seen, Feature::CgroupWrite);
    assert_eq!(state, State::Degraded);
    assert!(text.contains("/x: EBUSY"), "{text}");
}

#[test]
fn errors_of_clone3_have_names_of_their_own() {
    for (errno, word) in [
        (Errno::EBUSY, "domain controllers"),
        (Errno::EOPNOTSUPP, "type domain"),
        (Errno::ENOSYS, "seccomp"),
        (Errno::EPERM, "seccomp"),
        (Errno::EACCES, "cgroup.procs"),
        (Errno::EAGAIN, "pids.max"),
    ] {
        let mut seen = perfect();
        seen.cgroup.birth = refused("clone3", errno);
        let (state, text) = told(&seen, Feature::CloneIntoCgroup);
        assert_eq!(state, State::Missing);
        assert!(text.contains(word), "{errno}: {text}");
        assert!(!judge(&seen).tasks_can_run());
    }
}

#[test]
fn a_kernel_that_kills_at_birth_is_worked_around() {
    let mut seen = perfect();
    seen.cgroup.birth_after_kill = Tried::Worked(Birth::KilledAtBirth);
    let (state, text) = told(&seen, Feature::BirthAfterKill);
    assert_eq!(state, State::Degraded);
    assert!(text.contains("affected") && text.contains("works around"), "{text}");
    assert!(judge(&seen).audit_can_prove());
}

#[test]
fn an_old_kernel_is_no_verdict_of_its_own() {
    let mut seen = perfect();
    seen.release = Tried::Worked("4.18.0-553.el8".to_owned());
    assert_eq!(told(&seen, Feature::KernelRelease).0, State::Degraded);
    assert!(judge(&seen).tasks_can_run());
}

#[test]
fn a_hybrid_host_says_which_controllers_v1_holds() {
    let mut seen = perfect();
    let v1_controllers = controllers(&["blkio", "cpu", "cpuset", "memory", "pids"]);
    let layout = Layout::Hybrid { v1_controllers };
    let own_controllers = Tried::Worked(controllers(&["hugetlb"]));
    seen.hierarchy = Ok(HierarchySeen { layout, own_controllers, ..hierarchy() });
    let (state, text) = told(&seen, Feature::Hierarchies);
    assert_eq!(state, State::Degraded);
    assert!(text.contains("hybrid") && text.contains("memory"), "{text}");
    let (state, text) = told(&seen, Feature::Controllers);
    assert_eq!(state, State::Missing);
    assert!(text.contains("on v1: cpu, memory, pids, io, cpuset"), "{text}");
    assert!(judge(&seen).tasks_can_run());
}

#[test]
fn missing_bpf_rights_name_the_capabilities() {
    let mut seen = perfect();
    seen.bpf = refused("bpf(BPF_PROG_LOAD)", Errno::EPERM);
    seen.user.lacks = vec!["CAP_SETUID", "CAP_BPF"];
    let (state, text) = told(&seen, Feature::BpfRights);
    assert_eq!(state, State::Missing);
    assert!(text.contains("we lack CAP_BPF)"), "{text}");
    seen.user = User { id: 0, lacks: vec![], first_namespace: false };
    assert!(told(&seen, Feature::BpfRights).1.contains("user namespace"));
    let report = judge(&seen);
    assert!(report.tasks_can_run() && !report.audit_can_prove());
    assert!(report.verdict().contains("bpf-rights"), "{}", report.verdict());
}

#[test]
fn an_audit_that_nobody_tried_proves_nothing() {
    let mut seen = perfect();
    seen.audit = AuditTried::NotTried;
    assert!(!judge(&seen).audit_can_prove());
    seen.audit = AuditTried::Failed("field gone".to_owned());
    let (state, text) = told(&seen, Feature::AuditPrograms);
    assert_eq!(state, State::Missing);
    assert!(text.contains("field gone"), "{text}");
}

#[test]
fn a_proc_of_another_namespace_is_refused_and_a_hidden_one_is_not() {
    let mut seen = perfect();
    seen.proc = Tried::Worked(Proc::Foreign);
    assert!(!judge(&seen).tasks_can_run());
    seen.proc = Tried::Worked(Proc::Hidden(Some("2".to_owned())));
    assert!(judge(&seen).tasks_can_run());
    assert!(told(&seen, Feature::Proc).1.contains("hidepid=2"));
}
