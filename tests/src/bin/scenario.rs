//! An actor for the tests of the audit: does in the kernel what a script says, step by step.
//!
//! `scenario 'in /sys/fs/cgroup/x { fork { exit 0 } wait }'`. Blocks in braces are what a new process or thread does; at the end of a
//! block that is a process's it exits with 0. A step that fails ends the process with status 99 and says why on stderr.
//!
//! | step | what it does |
//! | --- | --- |
//! | `born DIR {…}` | a child that is born in the cgroup DIR (`clone3`); nobody waits for it yet |
//! | `in DIR {…}` | the same, and waits for its end |
//! | `fork {…}`, `call {…}` | a child in our own cgroup; `call` waits for its end |
//! | `vfork {…}`, `exec {…}` | a child by vfork that executes the block at once; we execute the block ourselves |
//! | `thread {…}`, `threads N` | a thread that does the block, N threads that do nothing; waits for them |
//! | `thread-in DIR {…}` | a thread that is born in the cgroup DIR (`clone3`) and does the block; waits for it |
//! | `thread-exec {…}` | a thread other than the leader executes the block |
//! | `leader-exits {…}` | the leader exits, a thread goes on with the block and ends the process with status 5 |
//! | `wait` | reaps all children |
//! | `say WORD`, `hear` | writes `WORD PID`, waits for a line |
//! | `move DIR`, `move-thread DIR` | goes there, whole or with this thread only |
//! | `mkdir DIR`, `rmdir DIR`, `write FILE TEXT` | as they say |
//! | `repeat N {…}` | does the block N times |
//! | `race N` | N children, each of five threads that all exit at once |
//! | `become UID`, `name COMM` | changes user, changes name |
//! | `kill PID SIGNAL`, `raise SIGNAL`, `pause`, `exit N` | as they say |

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use supervisor::sys::fork::{self, Fork, SingleThreaded};

/// One step of a script.
#[derive(Clone, Debug)]
enum Step {
    /// A word with its arguments.
    Do(String, Vec<String>),
    /// A word with its arguments and a block, which is kept as text too: to execute it.
    With(String, Vec<String>, Vec<Step>, String),
}

/// How many arguments a word takes, besides a block.
fn arguments_of(word: &str) -> usize {
    match word {
        "write" | "kill" => 2,
        "born" | "in" | "thread-in" | "say" | "move" | "move-thread" | "mkdir" | "rmdir" | "repeat"
        | "threads" | "race" | "become" | "name" | "raise" | "exit" => 1,
        _ => 0,
    }
}

fn parse(words: &mut std::iter::Peekable<std::vec::IntoIter<String>>) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(word) = words.next_if(|word| word != "}") {
        let arguments: Vec<String> = words.by_ref().take(arguments_of(&word)).collect();
        if words.next_if(|word| word == "{").is_none() {
            steps.push(Step::Do(word, arguments));
            continue;
        }
        // The block's own words, for who executes it.
        let mut depth = 0;
        let inside: Vec<String> = words
            .clone()
            .take_while(|word| {
                depth += match word.as_str() {
                    "{" => 1,
                    "}" => -1,
                    _ => 0,
                };
                depth >= 0
            })
            .collect();
        let block = parse(words);
        assert_eq!(words.next().as_deref(), Some("}"), "a block is not closed");
        steps.push(Step::With(word, arguments, block, inside.join(" ")));
    }
    steps
}

fn main() -> ExitCode {
    let script = std::env::args().nth(1).expect("a script");
    let words: Vec<String> = script.split_whitespace().map(str::to_owned).collect();
    let mut words = words.into_iter().peekable();
    let steps = parse(&mut words);
    assert!(words.next().is_none(), "a brace too many");
    play(&steps);
    ExitCode::SUCCESS
}

fn play(steps: &[Step]) {
    for step in steps {
        let done = match step {
            Step::Do(word, arguments) => act(word, arguments),
            Step::With(word, arguments, block, text) => act_with(word, arguments, block, text),
        };
        if let Err(error) = done {
            #[expect(clippy::print_stderr, reason = "for who reads why a test failed")]
            {
                eprintln!("scenario: {step:?}: {error}");
            }
            leave(99);
        }
    }
}

/// Ends this process as it is: a forked child must not run its parent's exit handlers.
fn leave(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

fn check(result: libc::c_long) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Runs `block` in a child that was made by `fork`.
fn child(made: io::Result<i32>, block: &[Step]) -> io::Result<i32> {
    let pid = made?;
    if pid == 0 {
        play(block);
        leave(0);
    }
    Ok(pid)
}

fn fork_here() -> io::Result<i32> {
    // SAFETY: the processes that call this have one thread only, see SingleThreaded in `born`; here the scripts see to it.
    check(unsafe { libc::fork() }.into())
}

fn born(dir: &str) -> io::Result<i32> {
    let proof = SingleThreaded::check().ok_or_else(|| io::Error::other("more than one thread"))?;
    let dir = fs::File::open(dir)?;
    match fork::into_cgroup(proof, dir.as_fd()).map_err(|error| io::Error::from(error.errno))? {
        Fork::Child => Ok(0),
        Fork::Parent(child) => Ok(child.pid),
    }
}

/// Waits for one child, which must end well: status 0, 5 (a leader that went first) or a signal, which scripts send on purpose.
fn reap(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the status is written by the kernel into our variable.
        match check(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) }.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 99 => {
                return Err(io::Error::other("a child failed"));
            }
            Ok(pid) => return Ok(pid),
        }
    }
}

fn act(word: &str, arguments: &[String]) -> io::Result<()> {
    let text = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let number = |at: usize| text(at).parse::<i32>().map_err(io::Error::other);
    match word {
        "wait" => while reap(-1).is_ok() {},
        "say" => {
            let line = format!("{} {}\n", text(0), std::process::id());
            // SAFETY: the buffer lives; one write of one line is not mixed with others.
            check(unsafe { libc::write(1, line.as_ptr().cast(), line.len()) } as libc::c_long)?;
        }
        "hear" => loop {
            let mut byte = 0u8;
            // SAFETY: one byte into our variable.
            let count = check(unsafe { libc::read(0, (&raw mut byte).cast(), 1) } as libc::c_long)?;
            if count == 0 || byte == b'\n' {
                break;
            }
        },
        "move" => fs::write(format!("{}/cgroup.procs", text(0)), "0")?,
        "move-thread" => fs::write(format!("{}/cgroup.threads", text(0)), "0")?,
        "mkdir" => fs::create_dir(text(0))?,
        "rmdir" => fs::remove_dir(text(0))?,
        "write" => fs::write(text(0), text(1))?,
        "threads" => {
            let threads: Vec<_> = (0..number(0)?).map(|_| std::thread::spawn(|| ())).collect();
            for thread in threads {
                thread.join().map_err(|_| io::Error::other("a thread panicked"))?;
            }
        }
        "race" => race(number(0)?)?,
        "become" => {
            // SAFETY: no preconditions.
            check(unsafe { libc::setuid(number(0)? as libc::uid_t) }.into())?;
        }
        "name" => {
            let name = CString::new(text(0))?;
            // SAFETY: the name lives and ends with NUL.
            check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }.into())?;
        }
        "kill" => {
            // SAFETY: the test names a process that it holds.
            check(unsafe { libc::kill(number(0)?, number(1)?) }.into())?;
        }
        "raise" => {
            // SAFETY: to ourselves. Not by raise(3), whose idea of our thread id is the parent's after a raw clone3.
            check(unsafe { libc::kill(std::process::id() as i32, number(0)?) }.into())?;
        }
        "pause" => loop {
            // SAFETY: no preconditions.
            unsafe { libc::pause() };
        },
        "exit" => leave(number(0)?),
        _ => return Err(io::Error::other("no such step")),
    }
    Ok(())
}

fn act_with(word: &str, arguments: &[String], block: &[Step], text: &str) -> io::Result<()> {
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    match word {
        "born" => drop(child(born(first), block)?),
        "in" => drop(reap(child(born(first), block)?)?),
        "fork" => drop(child(fork_here(), block)?),
        "call" => drop(reap(child(fork_here(), block)?)?),
        "exec" => return Err(Command::new("/proc/self/exe").arg(text).exec()),
        "vfork" => vfork(text)?,
        "thread" => {
            let block = block.to_vec();
            let thread = std::thread::spawn(move || play(&block));
            thread.join().map_err(|_| io::Error::other("the thread panicked"))?;
        }
        "thread-in" => thread_in(first, block)?,
        "thread-exec" => {
            let text = text.to_owned();
            let thread =
                std::thread::spawn(move || Command::new("/proc/self/exe").arg(text).exec().to_string());
            let error = thread.join().unwrap_or_default();
            return Err(io::Error::other(error));
        }
        "leader-exits" => leader_exits(block),
        "repeat" => {
            for _ in 0..first.parse::<u32>().map_err(io::Error::other)? {
                play(block);
            }
        }
        _ => return Err(io::Error::other("no such step with a block")),
    }
    Ok(())
}

/// The standard library starts programs by `posix_spawn(3)`, which is a vfork.
fn vfork(text: &str) -> io::Result<()> {
    let status = Command::new("/proc/self/exe").arg(text).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("the child failed")) }
}

/// A thread in another cgroup of our threaded tree. Nothing but `clone3` itself makes one, so what a thread library would do is done here: a
/// stack, and the thread-local storage is ours, which we leave alone until the thread has ended.
fn thread_in(dir: &str, block: &[Step]) -> io::Result<()> {
    extern "C" fn begin(block: *const &[Step]) -> ! {
        // SAFETY: the one who made us waits, and keeps it.
        play(unsafe { *block });
        // SAFETY: ends this thread only, which owns nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        unreachable!("the thread has exited")
    }
    let dir = fs::File::open(dir)?;
    let mut stack = vec![0u128; (256 << 10) / 16];
    let alive = std::sync::atomic::AtomicU32::new(1);
    // SAFETY: all its fields are integers.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    let shared =
        libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_SYSVSEM;
    arguments.flags = (shared | libc::CLONE_THREAD | libc::CLONE_CHILD_CLEARTID) as u64 | CLONE_INTO_CGROUP;
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = size_of_val(stack.as_slice()) as u64;
    arguments.child_tid = alive.as_ptr() as u64;
    arguments.cgroup = dir.as_raw_fd() as u64;
    let made: i64;
    // SAFETY: the new thread has a stack of its own and never comes back from `begin`; ours goes on behind the label with all registers
    // but those named. What it uses is kept below until the kernel tells that it is gone.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "2:",
            inlateout("rax") libc::SYS_clone3 => made,
            in("rdi") &raw const arguments,
            in("rsi") size_of_val(&arguments),
            in("r12") begin as extern "C" fn(*const &[Step]) -> !,
            in("r13") &raw const block,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if made < 0 {
        return Err(io::Error::from_raw_os_error(-made as i32));
    }
    while alive.load(Ordering::Acquire) != 0 {
        std::hint::spin_loop();
    }
    Ok(())
}

/// include/uapi/linux/sched.h; in libc it is an `int`, which cannot hold it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The leader exits; a thread goes on once it sees it gone.
fn leader_exits(block: &[Step]) -> ! {
    let block = block.to_vec();
    let leader = std::process::id();
    std::thread::spawn(move || {
        let stat = format!("/proc/self/task/{leader}/stat");
        while !fs::read_to_string(&stat).unwrap_or_default().contains(") Z ") {
            std::thread::yield_now();
        }
        play(&block);
        leave(5);
    });
    // SAFETY: ends this thread only, without unwinding: the other thread owns all that it uses.
    unsafe { libc::syscall(libc::SYS_exit, 7) };
    unreachable!("the thread has exited")
}

/// Children whose five threads exit together: half of the leaders by exit_group, half alone.
fn race(children: i32) -> io::Result<()> {
    static GO: AtomicBool = AtomicBool::new(false);
    let exit_thread = || {
        while !GO.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        // SAFETY: ends this thread only.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    };
    for number in 0..children {
        let pid = fork_here()?;
        if pid == 0 {
            for _ in 0..4 {
                std::thread::spawn(exit_thread);
            }
            GO.store(true, Ordering::Relaxed);
            if number % 2 == 1 {
                // SAFETY: ends the leader only; the others follow.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            leave(0);
        }
        if number % 50 == 49 {
            while reap(-1).is_ok() {}
        }
    }
    while reap(-1).is_ok() {}
    Ok(())
}
