//! YAML 1.1 as PyYAML's safe loader reads it: `yes` and `on` are booleans, `1e-4` is a text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::tree::Tree;

/// The largest number of values that aliases may copy, against alias bombs.
const MOST_VALUES: usize = 1_000_000;
/// The largest nesting depth of lists and dictionaries.
const DEEPEST: usize = 128;

/// Parses a text that holds exactly one YAML document.
pub fn parse(text: &str) -> Result<Tree, String> {
    let mut reader =
        Reader { events: Parser::new_from_str(text), anchors: HashMap::new(), twice: Vec::new(), count: 0 };
    let mut root = None;
    loop {
        match reader.next()? {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if root.is_some() => return Err("must hold exactly one YAML document".to_owned()),
            event => root = Some(reader.value(event, 0)?),
        }
    }
    Ok(Tree { root: root.unwrap_or(Value::Null), twice: reader.twice })
}

struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: HashMap<usize, Value>,
    twice: Vec<String>,
    count: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.events.next() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => {
                let at = error.marker();
                Err(format!("is not valid YAML: {} in line {}, column {}", error.info(), at.line(), at.col() + 1))
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} levels deep"));
        }
        self.count += 1;
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or("has an alias inside the value to which it refers")?;
                self.count += size(&value);
                if self.count > MOST_VALUES {
                    return Err(format!("has more than {MOST_VALUES} values"));
                }
                return Ok(value);
            }
            Event::Scalar(text, style, anchor, tag) => (anchor, scalar(&text, style, tag.as_deref())?),
            Event::SequenceStart(anchor, tag) => {
                tag.as_deref().map_or(Ok(()), |tag| only(tag, &["seq"]))?;
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => list.push(self.value(event, depth + 1)?),
                    }
                }
                (anchor, Value::Array(list))
            }
            Event::MappingStart(anchor, tag) => {
                tag.as_deref().map_or(Ok(()), |tag| only(tag, &["map"]))?;
                (anchor, self.mapping(depth)?)
            }
            _ => return Err("ends in the middle of a value".to_owned()),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let (mut table, mut merged) = (Map::new(), Map::new());
        loop {
            let event = match self.next()? {
                Event::MappingEnd => break,
                event => event,
            };
            let merges = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.value(event, depth + 1)?;
            let event = self.next()?;
            let value = self.value(event, depth + 1)?;
            if merges {
                merge(&mut merged, value)?;
                continue;
            }
            let key = match key {
                Value::String(key) => key,
                Value::Null => "None".to_owned(),
                Value::Bool(true) => "True".to_owned(),
                Value::Bool(false) => "False".to_owned(),
                Value::Number(number) => number.to_string(),
                _ => return Err("has a list or a dictionary as a key".to_owned()),
            };
            if table.insert(key.clone(), value).is_some() {
                self.twice.push(key);
            }
        }
        // Keys of the mapping itself take precedence over merged ones.
        for (key, value) in merged {
            table.entry(key).or_insert(value);
        }
        Ok(Value::Object(table))
    }
}

fn merge(into: &mut Map<String, Value>, value: Value) -> Result<(), String> {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                into.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(list) => list.into_iter().try_for_each(|value| merge(into, value)),
        _ => Err("merges (<<) a value that is not a mapping".to_owned()),
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(table) => 1 + table.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Fails for a tag that is not one of these tags of YAML itself. PyYAML's `safe_load` also refuses
/// Python's tags.
fn only(tag: &Tag, known: &[&str]) -> Result<(), String> {
    let is_plain = tag.handle.is_empty() && tag.suffix == "!";
    if is_plain || (tag.is_yaml_core_schema() && known.contains(&tag.suffix.as_str())) {
        return Ok(());
    }
    Err(format!("has the tag {}{}: only YAML's own are read", tag.handle, tag.suffix))
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    if let Some(tag) = tag {
        only(tag, &["null", "bool", "int", "float", "str"])?;
        return Ok(match tag.suffix.as_str() {
            "null" => Value::Null,
            "bool" => truth(text).map_or_else(|| text.into(), Value::Bool),
            "int" | "float" => number(text).unwrap_or_else(|| text.into()),
            _ => text.into(),
        });
    }
    if style != ScalarStyle::Plain {
        return Ok(text.into());
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        _ => truth(text).map(Value::Bool).or_else(|| number(text)).unwrap_or_else(|| text.into()),
    })
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Parses a number of YAML 1.1.
fn number(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1 } else { 1 };
    let plain = digits.replace('_', "");
    let first = *digits.as_bytes().first()?;
    if first.is_ascii_digit() {
        let all = |radix: u32, digits: &str| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        let whole = |radix: u32, digits: &str| i64::from_str_radix(digits, radix).ok().map(|n| (sign * n).into());
        if let Some(bits) = plain.strip_prefix("0b").filter(|bits| all(2, bits)) {
            return whole(2, bits);
        }
        if let Some(hex) = plain.strip_prefix("0x").filter(|hex| all(16, hex)) {
            return whole(16, hex);
        }
        if plain == "0" || (first != b'0' && all(10, &plain)) {
            return whole(10, &plain);
        }
        if first == b'0' && all(8, &plain[1..]) {
            return whole(8, &plain[1..]);
        }
    }
    // A float has a dot, and its exponent has a sign.
    let dot = plain.find('.')?;
    let (before, after) = (&plain[..dot], &plain[dot + 1..]);
    let (fraction, exponent) = match after.find(['e', 'E']) {
        Some(at) => (&after[..at], Some(&after[at + 1..])),
        None => (after, None),
    };
    let digits_only = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !digits_only(before) || !digits_only(fraction) || (before.is_empty() && fraction.is_empty()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let rest = exponent.strip_prefix(['-', '+'])?;
        if rest.is_empty() || !digits_only(rest) {
            return None;
        }
    }
    let value: f64 =
        format!("0{before}.{fraction}0{}", exponent.map(|e| format!("e{e}")).unwrap_or_default()).parse().ok()?;
    Number::from_f64(f64::from(sign as i32) * value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let text = "a: yes\nb: 1e-4\nc: 1.0e-4\nd: 010\ne: 'on'\nf: ~\ng: -3\nh: 1_000\ni: .5\nj: 0x1F\nk: y";
        let tree = parse(text).expect("valid");
        let wanted = json!({"a": true, "b": "1e-4", "c": 1.0e-4, "d": 8, "e": "on", "f": null, "g": -3, "h": 1000,
            "i": 0.5, "j": 31, "k": "y"});
        assert_eq!(tree.root, wanted);
    }

    #[test]
    fn anchors_merge_and_repeated_keys() {
        let tree = parse("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x\nc: 5").expect("valid");
        assert_eq!(tree.root, json!({"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}, "c": 5}));
        assert_eq!(tree.twice, ["c"]);
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut text = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for level in 1..9 {
            let inner = vec![format!("*a{}", level - 1); 10].join(",");
            text += &format!("a{level}: &a{level} [{inner}]\n");
        }
        assert!(parse(&text).err().expect("refused").contains("more than"));
    }

    #[test]
    fn what_is_no_yaml_is_named() {
        assert!(parse("a: [1, 2").err().expect("damaged").contains("line"));
        let tagged = [
            "a: !!python/object:os.system x",
            "a: !!python/object/apply:os.system [x]",
            "a: !!python/tuple [1, 2]",
            "a: !!python/object:b.C {x: 1}",
            "a: !own x",
        ];
        for text in tagged {
            assert!(parse(text).err().expect(text).contains("tag"), "{text}");
        }
        let plain = parse("a: !!str 1\nb: !!seq [1]\nc: !!map {d: !!int 2}").expect("YAML's own");
        assert_eq!(plain.root, json!({"a": "1", "b": [1], "c": {"d": 2}}));
    }
}
