//! Writes plain values as a pickle: [`Writer`].

use std::collections::HashMap;

/// The number of items of a list that one instruction appends, as in Python.
const BATCH: usize = 1000;

/// Writes lists, dictionaries, numbers and texts as a pickle of protocol 4, with the instructions that
/// Python itself uses for them. Nothing in it is called when it is opened.
///
/// ```
/// use hearth_pickle::Writer;
///
/// let mut pickle = Writer::new();
/// pickle.begin_dict();
/// pickle.text("sizes");
/// pickle.list([1, 2, 3], |pickle, size| pickle.int(size));
/// pickle.end_dict();
/// // pickle.loads(...) == {"sizes": [1, 2, 3]}
/// assert!(pickle.finish().starts_with(b"\x80\x04}("));
/// ```
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    texts: HashMap<String, Kept>,
    kept: u32,
}

/// A value that was written and can be referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(u32);

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty pickle.
    pub fn new() -> Self {
        Writer { bytes: b"\x80\x04".to_vec(), texts: HashMap::new(), kept: 0 }
    }

    /// The pickle, which contains the one value that was written.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'.');
        self.bytes
    }

    /// Writes a whole number.
    pub fn int(&mut self, value: i64) {
        match (u8::try_from(value), i32::try_from(value)) {
            (Ok(small), _) => self.bytes.extend([b'K', small]),
            (_, Ok(middle)) => {
                self.bytes.push(b'J');
                self.bytes.extend(middle.to_le_bytes());
            }
            _ => {
                self.bytes.extend([0x8a, 8]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    /// Writes `True` or `False`.
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { 0x88 } else { 0x89 });
    }

    /// Writes a text; the same one again takes two to five bytes.
    pub fn text(&mut self, text: &str) {
        if let Some(kept) = self.texts.get(text) {
            return self.again(*kept);
        }
        // A text of 4 GiB and more has its own instruction.
        match u32::try_from(text.len()) {
            Ok(length) => {
                self.bytes.push(b'X');
                self.bytes.extend(length.to_le_bytes());
            }
            Err(_) => {
                self.bytes.push(0x8d);
                self.bytes.extend((text.len() as u64).to_le_bytes());
            }
        }
        self.bytes.extend(text.as_bytes());
        let kept = self.keep();
        self.texts.insert(text.to_owned(), kept);
    }

    /// Writes a list; `each` writes one value for each item.
    pub fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.bytes.push(b']');
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            self.bytes.push(b'(');
            items.by_ref().take(BATCH).for_each(|item| each(self, item));
            self.bytes.push(b'e');
        }
    }

    /// Begins a dictionary: keys and values follow in turn, and [`Writer::end_dict`].
    pub fn begin_dict(&mut self) {
        self.bytes.extend(b"}(");
    }

    /// Ends a dictionary.
    pub fn end_dict(&mut self) {
        self.bytes.push(b'u');
    }

    /// Writes a pair; `pair` writes its two values.
    pub fn pair(&mut self, pair: impl FnOnce(&mut Self)) {
        pair(self);
        self.bytes.push(0x86);
    }

    /// Keeps the value that was written last, so that [`Writer::again`] can refer to it.
    pub fn keep(&mut self) -> Kept {
        self.bytes.push(0x94);
        self.kept += 1;
        Kept(self.kept - 1)
    }

    /// Writes a value that was kept: in Python it is the same object.
    pub fn again(&mut self, Kept(number): Kept) {
        match u8::try_from(number) {
            Ok(number) => self.bytes.extend([b'h', number]),
            Err(_) => {
                self.bytes.push(b'j');
                self.bytes.extend(number.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Number, Object, Options, Pickled, Place, parse};

    /// The value as Python prints it.
    fn python(pickled: &Pickled, object: &Object) -> String {
        let of = |place: &Place| python(pickled, pickled.get(*place));
        let all = |items: &[Place]| items.iter().map(of).collect::<Vec<_>>().join(", ");
        match object {
            Object::Number(Number::Int(value)) => value.to_string(),
            Object::Number(Number::Bool(value)) => if *value { "True" } else { "False" }.to_owned(),
            Object::Text(text) => format!("{text:?}"),
            Object::List(items) => format!("[{}]", all(items)),
            Object::Tuple(items) => format!("({})", all(items)),
            Object::Dict(items) => {
                let item = |(key, value): &(Place, Place)| format!("{}: {}", of(key), of(value));
                format!("{{{}}}", items.iter().map(item).collect::<Vec<_>>().join(", "))
            }
            other => panic!("{}", other.kind()),
        }
    }

    /// What is written is what the reader of this crate, which is compared with Python, finds.
    #[test]
    fn what_is_written_is_read() {
        let mut pickle = Writer::new();
        pickle.begin_dict();
        pickle.text("numbers");
        let numbers = [0, 255, 256, -1, i64::from(i32::MIN), i64::from(i32::MAX) + 1, i64::MIN, i64::MAX];
        pickle.list(numbers, |pickle, number| pickle.int(number));
        let kept = pickle.keep();
        pickle.text("again");
        pickle.again(kept);
        pickle.text("ü");
        pickle.pair(|pickle| {
            pickle.bool(true);
            pickle.text("again");
        });
        pickle.text("none");
        pickle.list([0; 0], |pickle, number| pickle.int(number));
        pickle.end_dict();
        let bytes = pickle.finish();
        let (pickled, length) = parse(&bytes, &Options::default()).expect("a pickle");
        assert_eq!(length, bytes.len());
        let list = "[0, 255, 256, -1, -2147483648, 2147483648, -9223372036854775808, 9223372036854775807]";
        let expected = format!("{{\"numbers\": {list}, \"again\": {list}, \"ü\": (True, \"again\"), \"none\": []}}");
        assert_eq!(python(&pickled, pickled.root()), expected);
    }

    #[test]
    fn long_lists_and_many_texts_are_complete() {
        let mut pickle = Writer::new();
        pickle.list(0..2500, |pickle, number| pickle.text(&(number % 700).to_string()));
        let bytes = pickle.finish();
        let (pickled, _) = parse(&bytes, &Options::default()).expect("a pickle");
        let Object::List(items) = pickled.root() else { panic!("a list") };
        let texts: Vec<_> = items.iter().map(|item| pickled.text(*item).expect("a text").to_owned()).collect();
        assert_eq!(texts, (0..2500).map(|number| (number % 700).to_string()).collect::<Vec<_>>());
    }
}
