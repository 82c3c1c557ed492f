//! Chance that is the same in every run.

/// Numbers that look random and follow from their seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    /// Up to three thousand bytes of anything.
    pub fn bytes(&mut self) -> Vec<u8> {
        let length = self.roll(3000);
        (0..length).map(|_| self.roll(256) as u8).collect()
    }
}
