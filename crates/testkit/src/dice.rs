//! Random numbers that are the same in every run.

/// A generator of pseudo-random numbers that depend only on the seed.
pub struct SeededRandom(pub u64);

impl SeededRandom {
    pub fn next_below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.next_below(n) == 0
    }

    /// Returns up to three thousand random bytes.
    pub fn random_bytes(&mut self) -> Vec<u8> {
        let length = self.next_below(3000);
        (0..length).map(|_| self.next_below(256) as u8).collect()
    }
}
