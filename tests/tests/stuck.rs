//! A process that even SIGKILL does not end: it waits in the kernel (state D). Made by writing to a frozen file system, a small image that
//! is mounted in a mount namespace of its own.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal::SIGTERM;
use tests::{Place, Running, binary, skip, wait_until};

/// `FIFREEZE` and `FITHAW` of linux/fs.h: `_IOWR('X', 119, int)` and 120.
const FREEZE: libc::c_ulong = 0xc004_5877;
const THAW: libc::c_ulong = 0xc004_5878;

/// A frozen file system, thawed when dropped whatever happens: nothing that is stuck in it could be ended otherwise.
struct Frozen(File);

impl Frozen {
    fn new(directory: File) -> std::io::Result<Self> {
        // SAFETY: the call takes a descriptor and ignores its argument.
        match unsafe { libc::ioctl(directory.as_raw_fd(), FREEZE, 0) } {
            0 => Ok(Self(directory)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::ioctl(self.0.as_raw_fd(), THAW, 0) };
    }
}

/// Case 27's kind: the stop does not hang silently. It names the process, its state and where in the kernel it waits; it goes on trying,
/// and the run ends by itself when the kernel lets go.
#[test]
fn a_stuck_process_is_named_and_ends_when_the_kernel_lets_go() {
    const NAME: &str = "a_stuck_process_is_named_and_ends_when_the_kernel_lets_go";
    let place = Place::new("stuck");
    let image = place.file("image");
    File::create(&image).and_then(|file| file.set_len(4 << 20)).expect("an image");
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).stdout(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip(NAME, "mkfs.ext4 makes no file system here");
    }
    std::fs::create_dir(place.file("disk")).expect("a mount point");
    let stderr = File::create(place.file("stderr")).expect("a file for stderr");
    let mut command = place.command("unshare");
    let script = "mount -o loop image disk || exit 99; shift 0; exec \"$@\"";
    command.current_dir(place.files()).args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(binary()).args(["run", "--grace", "0", "--report"]).arg(place.file("report"));
    command.args([
        "--",
        "sh",
        "-c",
        "echo $$ >pid; while [ ! -e go ]; do sleep 0.02; done; echo x >disk/file",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let running = Running::spawn_as_is(command).with_report(place.file("report"));
    let told = || std::fs::read_to_string(place.file("stderr")).unwrap_or_default();
    let pid = wait_until("the task or a refusal", || {
        let refused = told().contains("mount:").then(|| Err(told()));
        refused
            .or_else(|| std::fs::read_to_string(place.file("pid")).ok().filter(|pid| !pid.is_empty()).map(Ok))
    });
    let pid = match pid {
        Ok(pid) => pid.trim().to_owned(),
        Err(why) => {
            running.finish();
            return skip(NAME, &format!("no loop mount here: {}", why.trim()));
        }
    };
    let disk =
        File::open(format!("/proc/{pid}/root{}", place.file("disk").display())).expect("its file system");
    let frozen = match Frozen::new(disk) {
        Ok(frozen) => frozen,
        Err(error) => {
            std::fs::write(place.file("go"), "").expect("let it end");
            running.finish();
            return skip(NAME, &format!("the file system cannot be frozen: {error}"));
        }
    };
    std::fs::write(place.file("go"), "").expect("let it write");
    wait_until("state D", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.starts_with('D').then_some(())
    });
    running.signal(SIGTERM);
    let line = wait_until("the stuck process to be named", || {
        told().lines().find(|line| line.contains("cannot be ended for now")).map(str::to_owned)
    });
    assert!(line.contains(&format!("{pid} (sh, state D, in ")), "pid, state and wchan: {line}");
    drop(frozen);
    let run = running.finish();
    run.assert_signaled(9);
    run.assert_proven();
    assert_eq!(run.report["left_behind"], serde_json::Value::Null);
}
