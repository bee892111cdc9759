//! The program `kitfleet`. All of it is in the library, so that tests run the service without a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    kitfleet::main()
}
