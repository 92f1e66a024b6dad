//! `cargo xtask bench run`: a whole `proctor run -- /bin/true`, with and without the audit, beside the bare program.
#![allow(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 100;
/// What the design allows, in milliseconds.
const BUDGETS: [(&str, Option<u32>); 3] =
    [("bare", None), ("--no-audit", Some(10)), ("with the audit", Some(60))];

fn main() {
    let place = tests::Place::new("bench-run");
    let proctor = tests::binary();
    let mut times: [Vec<Duration>; 3] = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 5 {
        let ways: [(&Path, &[&str]); 3] = [
            (Path::new("/bin/true"), &[]),
            (&proctor, &["run", "--quiet", "--no-audit", "--", "/bin/true"]),
            (&proctor, &["run", "--quiet", "--", "/bin/true"]),
        ];
        for (times, (program, arguments)) in times.iter_mut().zip(ways) {
            let mut command: Command = place.command(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            let begin = Instant::now();
            let status = command.status().expect("start it");
            // The first rounds warm the caches.
            if round >= 5 {
                times.push(begin.elapsed());
            }
            assert!(status.success(), "{} {arguments:?}", program.display());
        }
    }
    println!("whole runs of /bin/true, {ROUNDS} each in turn, p50 / p90 in ms");
    for (times, (name, budget)) in times.iter_mut().zip(BUDGETS) {
        times.sort_unstable();
        let [p50, p90] = [5, 9].map(|tenths| times[times.len() * tenths / 10].as_secs_f64() * 1e3);
        let budget = budget.map(|budget| format!(" (budget {budget})")).unwrap_or_default();
        println!("  {name:15} {p50:6.1} / {p90:6.1}{budget}");
    }
}
