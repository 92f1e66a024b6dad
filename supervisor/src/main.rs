//! The `proctor` command: everything is in the library, so that the tests' faulty build shares it.

fn main() -> std::process::ExitCode {
    supervisor::main()
}
