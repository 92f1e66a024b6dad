//! `proctor` with its fault switches compiled in.

fn main() -> std::process::ExitCode {
    supervisor::main()
}
