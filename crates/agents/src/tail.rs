//! The last part of a program's output, in bounded memory.

use std::collections::VecDeque;

#[derive(Debug)]
pub struct TextTail {
    bytes: VecDeque<u8>,
    limit: usize,
    left_out: u64,
}

impl TextTail {
    pub fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, left_out: 0 }
    }

    pub fn push_bytes(&mut self, new: &[u8]) {
        let new = if new.len() > self.limit {
            let (gone, kept) = new.split_at(new.len() - self.limit);
            self.left_out += gone.len() as u64;
            kept
        } else {
            new
        };
        let over = (self.bytes.len() + new.len()).saturating_sub(self.limit);
        self.bytes.drain(..over);
        self.left_out += over as u64;
        self.bytes.extend(new);
    }

    /// Returns the kept text, and the number of bytes before it that were dropped.
    pub fn into_text(mut self) -> (String, u64) {
        let left_out = self.left_out;
        let bytes = self.bytes.make_contiguous();
        // The cut may be in the middle of a character.
        let whole = bytes.iter().take(4).position(|byte| byte & 0xC0 != 0x80).unwrap_or(0);
        let skip = if left_out > 0 { whole } else { 0 };
        // PostgreSQL cannot store NUL, and it is not readable.
        let text = String::from_utf8_lossy(&bytes[skip..]).replace('\0', "\u{fffd}");
        (text, left_out + skip as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::TextTail;

    #[test]
    fn the_end_is_kept_and_the_rest_is_counted() {
        let mut tail = TextTail::new(8);
        for piece in ["abc", "defghij", "k"] {
            tail.push_bytes(piece.as_bytes());
        }
        assert_eq!(tail.into_text(), ("defghijk".to_owned(), 3));
        let mut tail = TextTail::new(4);
        tail.push_bytes(b"0123456789");
        assert_eq!(tail.into_text(), ("6789".to_owned(), 6));
    }

    #[test]
    fn a_character_that_was_cut_goes_whole() {
        let mut tail = TextTail::new(4);
        tail.push_bytes("xé€".as_bytes());
        assert_eq!(tail.into_text(), ("€".to_owned(), 3));
        let mut all = TextTail::new(100);
        all.push_bytes("é€".as_bytes());
        assert_eq!(all.into_text(), ("é€".to_owned(), 0));
        let mut nul = TextTail::new(100);
        nul.push_bytes(b"a\0b");
        assert_eq!(nul.into_text().0, "a\u{fffd}b");
    }
}
