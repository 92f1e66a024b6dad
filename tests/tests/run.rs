//! `proctor run` in the plain case.

use tests::Place;

#[test]
fn a_program_runs_and_its_proof_is_printed() {
    let place = Place::new("plain");
    let run = place.run_reported(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((run.code(), run.text().as_str()), (7, "out\n"), "{}", run.stderr);
    assert!(run.stderr.starts_with("err\n"), "{}", run.stderr);
    assert!(run.stderr.contains("exited with code 7"), "{}", run.stderr);
    assert_eq!(run.report["outcome"], serde_json::json!({"kind": "exited", "code": 7}));
    run.assert_proven();
}
