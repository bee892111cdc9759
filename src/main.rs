//! The program `kitfleet`. All of it is in the library, so that tests run the service without a process of its own.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of glibc keeps what large answers have taken: hundreds of mebibytes after some of them. This one gives it back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    kitfleet::main()
}
