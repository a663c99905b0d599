//! The executable `holdall`. Everything is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdall_cli::own_signals();
    if let Ok(program) = std::env::current_exe() {
        holdall_cli::set_program_command(vec![program.into()]);
    }
    holdall_cli::run(std::env::args_os().collect()).into()
}
