//! CRC-32C, and the CRC-32 of zip and gzip.

/// Computes a 32-bit CRC incrementally.
pub struct Crc32(Inner);

#[cfg(all(feature = "digests", not(target_family = "wasm")))]
type Inner = crc_fast::Digest;
#[cfg(not(all(feature = "digests", not(target_family = "wasm"))))]
type Inner = tables::Digest;

impl Crc32 {
    /// Starts a CRC-32C (Castagnoli, iSCSI).
    pub fn castagnoli() -> Crc32 {
        #[cfg(all(feature = "digests", not(target_family = "wasm")))]
        return Crc32(Inner::new(crc_fast::CrcAlgorithm::Crc32Iscsi));
        #[cfg(not(all(feature = "digests", not(target_family = "wasm"))))]
        Crc32(Inner::new(&tables::CASTAGNOLI))
    }

    /// Starts a CRC-32 as zip uses it (IEEE 802.3, reflected).
    pub fn zip() -> Crc32 {
        #[cfg(all(feature = "digests", not(target_family = "wasm")))]
        return Crc32(Inner::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc));
        #[cfg(not(all(feature = "digests", not(target_family = "wasm"))))]
        Crc32(Inner::new(&tables::ZIP))
    }

    /// Returns the CRC-32 (of zip) of `bytes`.
    pub fn zip_crc32(bytes: &[u8]) -> u32 {
        let mut sum = Crc32::zip();
        sum.update(bytes);
        sum.value()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the CRC of all bytes added so far.
    pub fn value(&self) -> u32 {
        // The crate returns every width as u64; these are 32 bits wide.
        u32::try_from(self.0.finalize()).unwrap_or(u32::MAX)
    }
}

/// Computes CRCs with tables, four bytes at a time, in builds without the feature `digests`. In WebAssembly `crc-fast`
/// is no faster, and its tables for every kind of CRC are as large as everything else together.
#[cfg(any(not(feature = "digests"), target_family = "wasm", test))]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tables {
    use std::sync::LazyLock;

    /// The effect of each byte, by the number of bytes that follow it.
    pub(super) type Tables = [[u32; 256]; 4];

    // Computed on first use: in a module that is downloaded, they would be bytes that do not compress.
    pub(super) static CASTAGNOLI: LazyLock<Tables> = LazyLock::new(|| tables(0x82f6_3b78));
    pub(super) static ZIP: LazyLock<Tables> = LazyLock::new(|| tables(0xedb8_8320));

    /// Computes the tables for a polynomial without its x^32, the coefficient of x^31 in bit 0.
    fn tables(polynomial: u32) -> Tables {
        let mut out = [[0; 256]; 4];
        let mut at = 0;
        while at < 1024 {
            let (table, byte) = (at / 256, at % 256);
            let mut sum = if table == 0 { byte as u32 } else { out[table - 1][byte] };
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { (sum >> 1) ^ polynomial } else { sum >> 1 };
                bit += 1;
            }
            out[table][byte] = sum;
            at += 1;
        }
        out
    }

    pub(super) struct Digest {
        tables: &'static Tables,
        sum: u32,
    }

    impl Digest {
        pub(super) fn new(tables: &'static Tables) -> Digest {
            Digest { tables, sum: u32::MAX }
        }

        pub(super) fn update(&mut self, bytes: &[u8]) {
            let [last, third, second, first] = self.tables;
            let (words, rest) = bytes.as_chunks::<4>();
            for word in words {
                let [a, b, c, d] = (self.sum ^ u32::from_le_bytes(*word)).to_le_bytes();
                self.sum = first[usize::from(a)]
                    ^ second[usize::from(b)]
                    ^ third[usize::from(c)]
                    ^ last[usize::from(d)];
            }
            for byte in rest {
                let [low, ..] = self.sum.to_le_bytes();
                self.sum = (self.sum >> 8) ^ last[usize::from(low ^ byte)];
            }
        }

        pub(super) fn finalize(&self) -> u64 {
            u64::from(!self.sum)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standards() {
        // The check values of both standards, for the digits 1 to 9.
        for (mut sum, wanted) in [(Crc32::castagnoli(), 0xe306_9283), (Crc32::zip(), 0xcbf4_3926)] {
            sum.update(b"123456789");
            assert_eq!(sum.value(), wanted);
        }
    }

    #[test]
    fn tables_give_the_same() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (tables, new) in
            [(&tables::CASTAGNOLI, Crc32::castagnoli as fn() -> Crc32), (&tables::ZIP, Crc32::zip)]
        {
            for cut in [0, 1, 2, 3, 4, 7, 500, 999, 1000] {
                let (mut ours, mut theirs) = (tables::Digest::new(tables), new());
                for part in [&bytes[..cut], &bytes[cut..]] {
                    ours.update(part);
                    theirs.update(part);
                }
                assert_eq!(ours.finalize(), u64::from(theirs.value()), "{cut}");
            }
        }
    }
}
