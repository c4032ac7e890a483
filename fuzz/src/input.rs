//! Reads the bytes of an input as choices. After the end, every byte is zero, so every input is valid.

/// The bytes that have not been read yet.
pub struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    pub fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns the next `length` bytes, or fewer at the end of the input.
    pub fn bytes(&mut self, length: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn rest(&mut self) -> &'d [u8] {
        self.bytes(usize::MAX)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns an item. Most of the time it is one of 60 names, so items are repeated. Otherwise it is a number or any
    /// bytes.
    pub fn item(&mut self) -> Vec<u8> {
        match self.byte() {
            number @ 0..0xe0 => format!("i{}", number % 60).into_bytes(),
            // Some clients encode numbers in their own way.
            number @ 0xe0..0xf0 => (i64::from(number) * 0x0123_4567).to_string().into_bytes(),
            _ => {
                let length = self.byte().into();
                self.bytes(length).to_vec()
            }
        }
    }

    pub fn items(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.item()).collect()
    }

    /// Returns a limit that the next layers of a filter of this size may or may not exceed.
    pub fn tight_limit_bytes(&mut self, size_bytes: u64) -> u64 {
        let sizes = [0, size_bytes, size_bytes + 200, size_bytes * 3 / 2, size_bytes * 4, 1 << 20];
        // The setting allows no lower value.
        (*self.choose(&sizes)).max(1 << 10)
    }

    /// Returns an amount of memory that a filter may take, a small one more often than a large one.
    pub fn limit_bytes(&mut self) -> u64 {
        const KIB: u64 = 1 << 10;
        // The last amount allows an array of more than one chunk.
        *self.choose(&[
            64 * KIB,
            64 * KIB,
            256 * KIB,
            256 * KIB,
            1024 * KIB,
            1024 * KIB,
            6144 * KIB,
            20 << 20,
        ])
    }
}
