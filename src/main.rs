//! The program `kitfleet`. Its code is in the library, so that tests can run the service in their own process.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The allocator of glibc keeps hundreds of mebibytes after some large answers. This allocator returns them to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    kitfleet::main()
}
