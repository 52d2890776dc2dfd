//! [`Latched`]: a writer for libraries that write once more when they are dropped.

use std::io::{self, Seek, SeekFrom, Write};

/// A writer that fails once, and then accepts everything without writing it: `zip` finishes an archive when it
/// is dropped, also after an error, and prints what fails then.
///
/// ```
/// use std::io::Write;
/// let mut room = [0_u8; 2];
/// let mut full = hearth_files::Latched::new(&mut room[..]);
/// assert!(full.write_all(b"three").is_err());
/// full.write_all(b"three").unwrap();
/// ```
#[derive(Debug)]
pub struct Latched<W> {
    inner: W,
    /// The position, also of what was not written.
    position: u64,
    failed: bool,
}

impl<W> Latched<W> {
    /// Wraps a writer at its start.
    pub fn new(inner: W) -> Self {
        Self { inner, position: 0, failed: false }
    }

    fn latch<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.failed |= done.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        done
    }
}

impl<W: Write> Write for Latched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = if self.failed { Ok(bytes.len()) } else { self.inner.write(bytes) };
        // `write_all` makes this an error.
        let done = done.and_then(|count| match count {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        });
        self.position += *done.as_ref().unwrap_or(&0) as u64;
        self.latch(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = if self.failed { Ok(()) } else { self.inner.flush() };
        self.latch(done)
    }
}

impl<W: Seek> Seek for Latched<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let done = match to {
            _ if !self.failed => self.inner.seek(to),
            SeekFrom::Start(position) => Ok(position),
            SeekFrom::Current(by) | SeekFrom::End(by) => Ok(self.position.saturating_add_signed(by)),
        };
        self.position = *done.as_ref().unwrap_or(&self.position);
        self.latch(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_positions_go_on_and_nothing_is_written() {
        let mut room = [0_u8; 4];
        let mut latched = Latched::new(io::Cursor::new(&mut room[..]));
        latched.write_all(b"ab").unwrap();
        latched.seek(SeekFrom::Start(1)).unwrap();
        latched.write_all(b"cd").unwrap();
        assert_eq!(latched.write_all(b"long").unwrap_err().kind(), io::ErrorKind::WriteZero);
        let at = latched.stream_position().unwrap();
        latched.write_all(b"more").unwrap();
        latched.flush().unwrap();
        assert_eq!((at, latched.stream_position().unwrap()), (4, 8));
        assert_eq!(latched.seek(SeekFrom::Start(0)).unwrap(), 0);
        latched.write_all(b"x").unwrap();
        assert_eq!(&room, b"acdl");
    }
}
