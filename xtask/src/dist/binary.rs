//! Checks of an executable that was built for any system, from its bytes.

use super::targets::{Processor, System, Target};
use super::tools;
use crate::command::{Outcome, root};

/// Fails unless the bytes are an executable or a library for the target that needs nothing which its users may lack, and
/// contains no path of this machine.
pub(super) fn check(target: &Target, bytes: &[u8]) -> Outcome {
    match target.system {
        System::Gnu => elf(target, bytes).and_then(|()| oldest_glibc(bytes)),
        System::Musl => elf(target, bytes),
        System::Windows => pe(bytes),
        System::Mac => mach(target, bytes),
    }?;
    for folder in [root().to_owned(), tools::registry()] {
        let folder = folder.display().to_string();
        if contains(bytes, folder.as_bytes()) {
            return Err(format!("it contains the path {folder}"));
        }
    }
    Ok(())
}

/// Fails unless the command needs no library, as one for musl.
pub(super) fn is_static(bytes: &[u8]) -> Outcome {
    match contains(bytes, b"/lib/ld-") {
        false => Ok(()),
        true => Err("it needs an interpreter of dynamic libraries".to_owned()),
    }
}

fn elf(target: &Target, bytes: &[u8]) -> Outcome {
    let machine: u16 = match target.processor {
        Processor::X86 => 62,
        Processor::Arm => 183,
    };
    let is_right =
        bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&machine.to_le_bytes());
    expect(is_right, "an ELF file for this processor")
}

/// Fails if a symbol of a newer glibc than the target's is needed.
fn oldest_glibc(bytes: &[u8]) -> Outcome {
    const MARK: &[u8] = b"GLIBC_2.";
    let mut newest = 0;
    for (at, _) in bytes.windows(MARK.len()).enumerate().filter(|(_, some)| *some == MARK) {
        let digits = bytes.iter().skip(at + MARK.len()).take_while(|b| b.is_ascii_digit());
        let number = digits.take(4).fold(0u32, |all, digit| all * 10 + u32::from(digit - b'0'));
        newest = newest.max(number);
    }
    expect(newest <= 17, &format!("a file that needs glibc 2.17 at most, found 2.{newest}"))
}

fn pe(bytes: &[u8]) -> Outcome {
    let at = bytes.get(60..64).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?) as usize));
    let header = at.and_then(|at| bytes.get(at..at + 6));
    expect(header == Some(b"PE\0\0\x64\x86"), "a PE file for x86-64")
}

fn mach(target: &Target, bytes: &[u8]) -> Outcome {
    let processor: u32 = match target.processor {
        Processor::X86 => 0x0100_0007,
        Processor::Arm => 0x0100_000c,
    };
    let is_right = bytes.starts_with(&0xfeed_facf_u32.to_le_bytes())
        && bytes.get(4..8) == Some(&processor.to_le_bytes());
    expect(is_right, "a Mach-O file for this processor")?;
    // Arm refuses programs without a signature; the linker makes one without an identity.
    let is_signed = target.processor == Processor::X86 || contains(bytes, b"\xfa\xde\x0c\xc0");
    expect(is_signed, "a Mach-O file with a signature")
}

fn expect(is_right: bool, what: &str) -> Outcome {
    if is_right { Ok(()) } else { Err(format!("it is not {what}")) }
}

/// Returns whether the bytes contain others.
pub(super) fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    // The first byte is found quickly; the rest is compared only there.
    let Some((first, rest)) = wanted.split_first() else { return true };
    let starts = bytes.iter().enumerate().filter(|(_, byte)| *byte == first);
    starts.into_iter().any(|(at, _)| bytes.get(at + 1..).is_some_and(|b| b.starts_with(rest)))
}
