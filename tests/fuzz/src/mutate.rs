//! Randomly damaged inputs, the same in each run: [`Mutator`].

/// Numbers at the limits of types, and numbers that make sizes absurd.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// The same as text.
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "1e999",
    "nan",
    "inf",
    "18446744073709551616",
    "9223372036854775807",
    "1000000000",
    "0.5",
    "[]",
    "{}",
    "\"\"",
    "null",
    "true",
];

/// The longest generated input.
const LONGEST: usize = 1 << 16;

/// Damages files of a corpus. Draws depend only on the seed.
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// The inputs of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Splitmix64 (Steele et al. 2014, doi:10.1145/2660193.2660195).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    /// A file of the corpus after one to eight changes.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let at = self.below(corpus.len());
        let mut bytes = corpus.get(at).cloned().unwrap_or_default();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes, corpus);
            bytes.truncate(LONGEST);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let length = bytes.len();
        if length == 0 {
            bytes.push(self.draw() as u8);
            return;
        }
        let at = self.below(length);
        let end = (at + 1 + self.below(64)).min(length);
        match self.below(10) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.draw() as u8,
            2 => {
                let (number, size) = (EDGES[self.below(EDGES.len())], [1, 2, 4, 8][self.below(4)]);
                let raw = if self.below(2) == 0 { number.to_le_bytes() } else { number.swap_bytes().to_le_bytes() };
                let raw = if self.below(2) == 0 { &raw[..size] } else { &raw[8 - size..] };
                bytes[at..].iter_mut().zip(raw).for_each(|(to, from)| *to = *from);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                let to = self.below(length);
                bytes.splice(to..to, piece);
            }
            5 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len());
                let piece = other[from..(from + 256).min(other.len())].to_vec();
                bytes.splice(at..end, piece);
            }
            6 => bytes.truncate(at),
            // A number in a text.
            7 => {
                let digit = |byte: &u8| byte.is_ascii_digit() || b".-".contains(byte);
                let Some(first) = bytes[at..].iter().position(digit).map(|offset| at + offset) else { return };
                let past = bytes[first..].iter().position(|byte| !digit(byte)).map_or(length, |offset| first + offset);
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(first..past, word.bytes());
            }
            // Duplicates or removes a line of a text.
            8 => {
                let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
                let past = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(length, |offset| at + offset + 1);
                if self.below(2) == 0 {
                    bytes.drain(start..past);
                } else {
                    let line = bytes[start..past].to_vec();
                    bytes.splice(start..start, line);
                }
            }
            _ => {
                let to = self.below(length);
                bytes.swap(at, to);
            }
        }
    }
}
