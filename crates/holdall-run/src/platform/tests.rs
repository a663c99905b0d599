//! One suite for every system.

use super::*;
use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

/// A process that ends at once, whatever its connection.
fn own_list() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--list"]).stdout(std::process::Stdio::null());
    command
}

#[test]
fn a_process_that_ends_is_seen_to_end_and_can_be_killed_twice() {
    let mut command = own_list();
    let offer = Offer::new(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    let until = Instant::now() + Duration::from_secs(60);
    // It never connects: either that is an error, or the connection is closed.
    if let Ok(mut wire) = offer.accept(&mut child, until) {
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut wire, &mut byte).unwrap(), 0);
    }
    while !has_ended(&mut child) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(has_ended(&mut child));
    kill(&mut child);
    let status = child.wait().unwrap();
    assert_eq!((status.code(), signal(status)), (Some(0), None));
}

#[test]
fn a_process_without_a_caller_has_no_connection() {
    // Tests are not started by a caller of runners.
    assert!(connect().map_or(true, |wire| wire.is_none()));
}

#[test]
fn variables_are_compared_as_the_system_does() {
    assert!(is_same_variable(OsStr::new("PATH"), OsStr::new("PATH")));
    assert!(!is_same_variable(OsStr::new("PATH"), OsStr::new("PATHS")));
}
