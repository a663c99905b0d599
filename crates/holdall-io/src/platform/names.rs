//! Names that a system refuses, or understands as something else than a file.

/// The rules of a system for the names of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // Each system has one of them.
pub enum Names {
    /// Every name without `/` and zero bytes is that of a file.
    Any,
    /// Some names are those of devices, some characters are reserved, and dots and spaces at the end are dropped.
    Windows,
}

/// Names of devices, in every folder and with any extension.
const DEVICES: [&str; 7] = ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"];
/// Devices that have a number from 0 to 9 after their names.
const PORTS: [&str; 2] = ["com", "lpt"];

impl Names {
    /// Returns the fault of `name`, the last part of a path, as the name of a new file.
    pub fn fault(self, name: &str) -> Option<&'static str> {
        if self == Names::Any {
            return None;
        }
        if self.is_device(name) {
            return Some("this name is reserved for a device");
        }
        if name.ends_with(['.', ' ']) {
            return Some("a name cannot end with a dot or a space");
        }
        let is_reserved = |c: char| c.is_ascii_control() || r#"<>:"/\|?*"#.contains(c);
        name.contains(is_reserved).then_some("the name has a reserved character")
    }

    /// Returns `true` if `name` is that of a device.
    pub fn is_device(self, name: &str) -> bool {
        self == Names::Windows && is_device(name)
    }
}

fn is_device(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or(name).trim_end_matches(' ');
    let is = |device: &&str| stem.eq_ignore_ascii_case(device);
    let is_port = |port: &&str| {
        let (Some(head), Some(tail)) = (stem.get(..3), stem.get(3..)) else { return false };
        let mut number = tail.chars();
        // Superscript digits count as digits.
        let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '¹' | '²' | '³');
        head.eq_ignore_ascii_case(port)
            && number.next().is_some_and(is_digit)
            && number.next().is_none()
    };
    DEVICES.iter().any(is) || PORTS.iter().any(is_port)
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn names_of_devices_are_refused() {
        for name in [
            "con",
            "CON.safetensors",
            "nul",
            "Aux.st.gz",
            "com1",
            "LPT9.zt",
            "com¹",
            "prn .x",
            "nul:a",
        ] {
            assert!(Names::Windows.fault(name).is_some_and(|why| why.contains("device")), "{name}");
            assert_eq!(Names::Any.fault(name), None, "{name}");
        }
        for name in ["console.zt", "com.zt", "com10.zt", "null", "a.con", "éa", "nul-1", "lpt"] {
            assert_eq!(Names::Windows.fault(name), None, "{name}");
        }
    }

    #[test]
    fn characters_that_windows_reserves_are_refused() {
        for name in ["a:b", "a?", "a*.zt", "a|b", "a\"", "a<b", "a>b", "a\u{1}", "a.", "a "] {
            assert!(Names::Windows.fault(name).is_some(), "{name:?}");
            assert_eq!(Names::Any.fault(name), None, "{name:?}");
        }
    }
}
