//! Numbers of processes are used again: none is signalled by number (case 28, INV-2).

use std::process::Stdio;

use tests::{Place, Running, binary, skip};

/// In a pid namespace the number of the ended main process is given to a bystander, while the run is still on because of a leftover. Every
/// signal of the stop and the kill that follow would hit it, were it sent by number.
#[test]
fn a_bystander_with_the_number_of_a_dead_main_process_lives() {
    const NAME: &str = "a_bystander_with_the_number_of_a_dead_main_process_lives";
    let place = Place::new("reuse");
    // The leftover leads a session of its own: a session keeps the number of its leader taken.
    let script = r#"
        "$0" run --no-audit --until all --grace 300ms --report report -- sh -c \
            'echo $$ >main; setsid perl -e "\$SIG{TERM} = q(IGNORE); open my \$f, q(>), q(ready); sleep 1000" & while [ ! -e ready ]; do :; done; exit 5' &
        proctor=$!
        while [ ! -e ready ]; do :; done
        main=$(cat main)
        while [ -e /proc/$main ]; do :; done
        tries=0
        while :; do
            echo $((main - 1)) >/proc/sys/kernel/ns_last_pid || exit 77
            sleep 1000 &
            bystander=$!
            [ $bystander = $main ] && break
            kill $bystander
            tries=$((tries + 1))
            [ $tries -gt 1000 ] && exit 78
        done
        kill -TERM $proctor
        wait $proctor
        echo "proctor $?"
        kill -0 $bystander && echo "the bystander lives"
        kill $bystander
        wait $bystander
        echo "ended by our signal: $?"
    "#;
    let mut command = place.command("unshare");
    command.args(["-p", "-f", "--mount-proc", "bash", "-c", script]).arg(binary()).current_dir(place.files());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = Running::spawn_as_is(command).with_report(place.file("report")).finish();
    if run.code() == 77 {
        return skip(NAME, "the kernel has no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)");
    }
    assert_eq!(run.text(), "proctor 5\nthe bystander lives\nended by our signal: 143\n", "{}", run.stderr);
    assert_eq!(run.report["outcome"], serde_json::json!({"kind": "exited", "code": 5}), "{:#}", run.report);
    assert_eq!(run.number("/leftovers_killed"), 1, "{:#}", run.report);
}
