//! Values that are missing only if the code has a mistake.

use std::fmt::Debug;

/// Takes a value out of an [`Option`] or [`Result`] where the code has established before that there is one, whatever
/// the bytes of a file are.
pub trait DebugUnwrap {
    /// The type of the value.
    type Value;

    /// Returns the value. In builds without debug assertions, returns the default if the value is missing, which
    /// callers treat as the end of the data.
    ///
    /// # Panics
    /// In builds with debug assertions, panics if there is no value.
    ///
    /// ```
    /// use holdall_collections::DebugUnwrap;
    /// let bytes = [1, 2, 3];
    /// assert_eq!(bytes.get(1..).debug_unwrap(), [2, 3]);
    /// ```
    #[track_caller]
    fn debug_unwrap(self) -> Self::Value;
}

impl<T: Default> DebugUnwrap for Option<T> {
    type Value = T;

    fn debug_unwrap(self) -> T {
        debug_assert!(self.is_some(), "a value that must exist is missing");
        self.unwrap_or_default()
    }
}

impl<T: Default, E: Debug> DebugUnwrap for Result<T, E> {
    type Value = T;

    fn debug_unwrap(self) -> T {
        debug_assert!(self.is_ok(), "what must succeed failed: {:?}", self.as_ref().err());
        self.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_returned() {
        assert_eq!([1, 2, 3].get(..2).debug_unwrap(), [1, 2]);
        assert_eq!(u8::try_from(7_u64).debug_unwrap(), 7);
        let mut all = [1, 2, 3];
        all.get_mut(..2).debug_unwrap().fill(0);
        assert_eq!(all, [0, 0, 3]);
    }

    #[test]
    #[should_panic(expected = "must exist")]
    #[cfg(debug_assertions)]
    fn missing_values_are_noticed() {
        [1, 2, 3].get(4..).debug_unwrap();
    }

    #[test]
    #[should_panic(expected = "must succeed failed")]
    #[cfg(debug_assertions)]
    fn failures_are_noticed() {
        u8::try_from(256_u64).debug_unwrap();
    }
}
