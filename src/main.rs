//! The program `kitfleet`. Its code is in the library, so that tests can run the service in their own process.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// glibc keeps hundreds of mebibytes after some large answers; this allocator returns them to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    kitfleet::main()
}
