//! Messages between two ranks, as they are sent: [`Message`].

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::round::About;

/// The longest head of a message, in bytes.
const HEAD: usize = 16 << 10;
/// The longest text in a message, in characters.
const TEXT: usize = 400;
/// The number of bytes that are allocated before any data has arrived.
const FIRST: u64 = 1 << 20;

/// The head of a message. Data may follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    /// What a rank contributes to an operation, as data.
    Part { number: u64, about: About },
    /// The sums of a slice of values, as data.
    Sum { number: u64 },
    /// Asks a rank for its state.
    Question,
    /// The number of operations that were started, and the last one.
    Answer { count: u64, last: String },
    /// A rank cannot continue. The sender forwards the fault if it is another rank.
    Fault { rank: usize, code: i32, why: String },
    /// The sender has finished; its connection ends.
    Goodbye,
}

/// Shortens a text to fit in a message.
pub(super) fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT).collect()
}

/// Writes a message: the lengths of head and data, the head as JSON, the data.
///
/// # Errors
/// If the connection is lost.
pub(super) fn write(to: &mut impl Write, message: &Message, data: &[u8]) -> io::Result<()> {
    let head = serde_json::to_vec(message)?;
    to.write_all(&(head.len() as u32).to_le_bytes())?;
    to.write_all(&(data.len() as u64).to_le_bytes())?;
    to.write_all(&head)?;
    to.write_all(data)?;
    to.flush()
}

/// Reads a message.
///
/// # Errors
/// If the connection is lost, or what arrives is no message.
pub(super) fn read(from: &mut impl Read) -> io::Result<(Message, Vec<u8>)> {
    let (mut head, mut data) = ([0; 4], [0; 8]);
    from.read_exact(&mut head)?;
    from.read_exact(&mut data)?;
    let (head, length) = (u32::from_le_bytes(head) as usize, u64::from_le_bytes(data));
    if head > HEAD {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message with a head of {head} bytes")));
    }
    let mut text = vec![0; head];
    from.read_exact(&mut text)?;
    let message = serde_json::from_slice(&text)?;
    // Memory for the data is allocated as it arrives.
    let mut data = Vec::with_capacity(length.min(FIRST) as usize);
    from.take(length).read_to_end(&mut data)?;
    if data.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((message, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_each_other_on_a_connection() {
        let long = "\"\u{1}\\\u{10ffff}".repeat(1000);
        let messages = [
            (Message::Fault { rank: usize::MAX, code: i32::MIN, why: short(&long) }, vec![]),
            (Message::Sum { number: u64::MAX }, vec![7; 100_000]),
            (Message::Goodbye, vec![]),
        ];
        let mut sent = Vec::new();
        for (message, data) in &messages {
            write(&mut sent, message, data).expect("a vector grows");
        }
        let mut rest = &sent[..];
        for message in &messages {
            assert_eq!(&read(&mut rest).expect("a message"), message);
        }
        assert_eq!(read(&mut rest).expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
        for cut in [3, 11, 40, sent.len() - 60, sent.len() - 1] {
            let mut rest = &sent[..cut];
            let ended = std::iter::from_fn(|| read(&mut rest).ok()).count();
            assert!(ended < messages.len(), "{cut}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_stored() {
        let long_head = [&u32::MAX.to_le_bytes()[..], &[0; 8], b"GET / HTTP/1.1"].concat();
        assert_eq!(read(&mut &long_head[..]).expect_err("no head").kind(), io::ErrorKind::InvalidData);
        let head = serde_json::to_vec(&Message::Goodbye).expect("JSON");
        let endless = [&(head.len() as u32).to_le_bytes()[..], &u64::MAX.to_le_bytes(), &head, &[1; 100]].concat();
        assert_eq!(read(&mut &endless[..]).expect_err("it ends early").kind(), io::ErrorKind::UnexpectedEof);
        let text = [&4_u32.to_le_bytes()[..], &0_u64.to_le_bytes(), b"what"].concat();
        assert!(read(&mut &text[..]).is_err());
    }
}
