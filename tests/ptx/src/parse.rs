//! Parses the text of a kernel to instructions.

use std::collections::HashMap;

use crate::instruction::{Atomic, Base, Class, Compare, Does, Finish, Instruction, Operand, Space, Special, Type};

/// A kernel.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: String,
    /// Offset and size of each parameter.
    pub(crate) parameters: Vec<(usize, usize)>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) registers: usize,
}

/// A function of the module, as text: its results, its parameters and its body.
struct Function<'a> {
    returned: Vec<&'a str>,
    parameters: Vec<&'a str>,
    body: &'a str,
}

struct Parser<'a> {
    functions: HashMap<&'a str, Function<'a>>,
    registers: HashMap<String, usize>,
    places: HashMap<String, usize>,
    instructions: Vec<Instruction>,
    labels: HashMap<String, usize>,
    /// Instructions that jump to a label.
    targets: Vec<(usize, String)>,
    /// The prefix of names of registers and labels: a function is parsed again at each call.
    scope: String,
    calls: usize,
}

/// The text between a brace and its counterpart.
fn braced(text: &str) -> Option<&str> {
    let (mut depth, mut from) = (0usize, None);
    for (i, c) in text.char_indices() {
        match c {
            '{' => {
                depth += 1;
                from.get_or_insert(i + 1);
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return text.get(from?..i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The names in a list of parameters.
fn names(list: &str) -> Vec<&str> {
    list.split(',').filter_map(|part| part.split_whitespace().last()).collect()
}

/// The functions of a module that have a body.
fn functions(text: &str) -> HashMap<&str, Function<'_>> {
    let mut found = HashMap::new();
    for after in text.split(".func").skip(1) {
        let head = after.split(['{', ';']).next().unwrap_or_default();
        let Some(body) = after.strip_prefix(head).filter(|rest| rest.starts_with('{')).and_then(braced) else {
            continue;
        };
        let (returned, rest) = match head.trim().strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((returned, rest)) => (names(returned), rest),
            None => (Vec::new(), head),
        };
        if let Some((name, list)) = rest.split_once('(') {
            let list = list.split(')').next().unwrap_or_default();
            found.insert(name.trim(), Function { returned, parameters: names(list), body });
        }
    }
    found
}

impl Kernel {
    /// Parses the kernel of a module, which has one.
    ///
    /// # Errors
    /// If an instruction, an operand or a label is unknown.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
        let after = text.split_once(".entry").ok_or("no kernel in the module")?.1;
        let (name, rest) = after.split_once('(').ok_or("a kernel without parameters")?;
        let (list, rest) = rest.split_once(')').ok_or("parameters that do not end")?;
        let mut parser = Parser {
            functions: functions(&text),
            registers: HashMap::new(),
            places: HashMap::new(),
            instructions: Vec::new(),
            labels: HashMap::new(),
            targets: Vec::new(),
            scope: String::new(),
            calls: 0,
        };
        let parameters = parser.parameters(list)?;
        parser.body(braced(rest).ok_or("a kernel without a body")?)?;
        for (at, target) in &parser.targets {
            let to = parser.labels.get(target).ok_or_else(|| format!("no label `{target}`"))?;
            parser.instructions[*at].does = Does::Branch(*to);
        }
        let name = name.trim().to_owned();
        Ok(Kernel { name, parameters, instructions: parser.instructions, registers: parser.registers.len() })
    }
}

fn is_label(text: &str) -> bool {
    !text.trim().is_empty() && text.trim().chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Splits at commas outside of brackets.
fn operands(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    if !text[from..].trim().is_empty() {
        parts.push(text[from..].trim());
    }
    parts
}

fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    // The suffix of an unsigned number.
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    } as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

impl<'a> Parser<'a> {
    /// The instructions of a kernel or a function.
    fn body(&mut self, body: &'a str) -> Result<(), String> {
        for statement in body.split(';') {
            let mut statement = statement.trim();
            loop {
                if let Some((label, rest)) = statement.split_once(':').filter(|(label, _)| is_label(label)) {
                    self.labels.insert(format!("{}{}", self.scope, label.trim()), self.instructions.len());
                    statement = rest.trim();
                } else if let Some(rest) = statement.strip_prefix(['{', '}']) {
                    statement = rest.trim();
                } else {
                    break;
                }
            }
            if statement.is_empty() || statement.starts_with('.') {
                continue;
            }
            let read = match statement.strip_prefix("call") {
                Some(call) => self.call(call),
                None => self.instruction(statement),
            };
            read.map_err(|e| format!("{e}: `{statement}`"))?;
        }
        Ok(())
    }

    /// Inlines a function's instructions at a call: `.uni (returned), name, (given)`.
    fn call(&mut self, text: &str) -> Result<(), String> {
        let (_, list) = text.split_once(char::is_whitespace).unwrap_or_default();
        let list = operands(list);
        let Some(at) = list.iter().position(|part| !part.starts_with('(')) else {
            return Err("no function".to_owned());
        };
        let inner = |part: Option<&&str>| -> Vec<String> {
            names(part.map_or("", |part| part.trim_matches(['(', ')']))).into_iter().map(str::to_owned).collect()
        };
        let (returned, given) = (inner(list[..at].first()), inner(list.get(at + 1)));
        let Some((name, function)) = self.functions.remove_entry(list[at]) else {
            return Err(format!("the function `{}` is not in the module, or calls itself", list[at]));
        };
        self.calls += 1;
        let outside = self.scope.clone();
        let inside = format!("{}:", self.calls);
        let whole = Type { class: Class::Bits, bytes: 8 };
        let hand = |parser: &mut Self, to: String, from: String| {
            let operands = vec![Operand::Register(parser.slot(to)), Operand::Register(parser.slot(from))];
            parser.push(Does::Move, whole, operands, text);
        };
        for (to, from) in function.parameters.iter().zip(given) {
            hand(self, format!("{inside}{to}"), format!("{outside}{from}"));
        }
        self.scope.clone_from(&inside);
        self.body(function.body)?;
        self.scope.clone_from(&outside);
        self.labels.insert(format!("{inside}end"), self.instructions.len());
        for (to, from) in returned.iter().zip(&function.returned) {
            hand(self, format!("{outside}{to}"), format!("{inside}{from}"));
        }
        self.functions.insert(name, function);
        Ok(())
    }

    fn push(&mut self, does: Does, kind: Type, operands: Vec<Operand>, text: &str) {
        let guard = None;
        let (from, packed, finish) = (kind, false, Finish::default());
        let (count, space, text) = (1, Space::Any, text.to_owned());
        self.instructions.push(Instruction { does, guard, kind, from, packed, finish, count, space, operands, text });
    }

    /// The register with this name and scope.
    fn slot(&mut self, name: String) -> usize {
        let next = self.registers.len();
        *self.registers.entry(name).or_insert(next)
    }

    fn parameters(&mut self, list: &str) -> Result<Vec<(usize, usize)>, String> {
        let mut end = 0usize;
        let mut found = Vec::new();
        for parameter in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let words: Vec<_> = parameter.split_whitespace().collect();
            let last = words.last().copied().unwrap_or_default();
            let (name, count) = match last.split_once('[') {
                Some((name, count)) => (name, count.trim_end_matches(']').parse().map_err(|_| parameter.to_owned())?),
                None => (last, 1),
            };
            let kind = words.iter().find_map(|word| Type::named(word.strip_prefix('.')?));
            let size = kind.ok_or_else(|| format!("a parameter without a type: `{parameter}`"))?.bytes;
            let stated = words.iter().position(|word| *word == ".align").filter(|_| count > 1);
            let align = stated.and_then(|i| words.get(i + 1)?.parse().ok()).unwrap_or(size);
            end = end.next_multiple_of(align);
            self.places.insert(name.to_owned(), end);
            found.push((end, size * count));
            end += size * count;
        }
        Ok(found)
    }

    fn register(&mut self, name: &str) -> usize {
        self.slot(format!("{}{name}", self.scope))
    }

    fn operand(&mut self, text: &str) -> Result<Operand, String> {
        let unknown = || format!("the operand `{text}` is not known");
        if let Some(list) = text.strip_prefix('{') {
            let parts = operands(list.trim_end_matches('}'));
            return parts.into_iter().map(|part| self.operand(part)).collect::<Result<_, _>>().map(Operand::Several);
        }
        if let Some(address) = text.strip_prefix('[') {
            let address = address.trim_end_matches(']');
            let (base, offset) = address.split_once('+').map_or((address, "0"), |(a, b)| (a.trim(), b.trim()));
            let offset = integer(offset).ok_or_else(unknown)?;
            return Ok(match (base.starts_with('%'), self.places.get(base)) {
                (true, _) => Operand::Address(Base::Register(self.register(base)), offset),
                (false, Some(place)) => Operand::Address(Base::Parameters, *place as i64 + offset),
                (false, None) if base == "cube_shared" => Operand::Address(Base::Shared, offset),
                (false, None) => return Err(unknown()),
            });
        }
        let axis = |name: &str| name.strip_prefix('.').and_then(|axis| "xyz".find(axis));
        for (prefix, of) in [
            ("%tid", Special::Unit as fn(usize) -> Special),
            ("%ntid", Special::Units),
            ("%ctaid", Special::Group),
            ("%nctaid", Special::Groups),
        ] {
            if let Some(axis) = text.strip_prefix(prefix).and_then(axis) {
                return Ok(Operand::Special(of(axis)));
            }
        }
        if text == "%laneid" {
            return Ok(Operand::Special(Special::Lane));
        }
        if text.starts_with('%') {
            return Ok(Operand::Register(self.register(text)));
        }
        if text == "cube_shared" {
            return Ok(Operand::Value(0));
        }
        if let Some(bits) = text.strip_prefix("0f") {
            return u64::from_str_radix(bits, 16).map(Operand::Value).map_err(|_| unknown());
        }
        integer(text).map(|value| Operand::Value(value as u64)).ok_or_else(unknown)
    }

    /// Reads and writes of a function's arguments: the names in brackets are registers.
    fn given(&self, operands: &[&str]) -> bool {
        let name = |part: &&str| part.strip_prefix('[').map(|name| name.trim_end_matches(']').to_owned());
        operands.iter().find_map(name).is_some_and(|name| {
            let base = name.split('+').next().unwrap_or_default();
            !base.starts_with('%') && !self.places.contains_key(base)
        })
    }

    fn instruction(&mut self, text: &str) -> Result<(), String> {
        let mut rest = text;
        let mut guard = None;
        if let Some(guarded) = text.strip_prefix('@') {
            let (predicate, after) = guarded.split_once(char::is_whitespace).ok_or("a guard without an instruction")?;
            let negated = predicate.starts_with('!');
            guard = Some((self.register(predicate.trim_start_matches('!')), negated));
            rest = after.trim();
        }
        let (name, list) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let parts: Vec<_> = name.split('.').collect();
        let has = |part: &str| parts.contains(&part);
        let mut does = does(&parts).ok_or("the instruction is not known")?;
        let types: Vec<_> = parts[1..].iter().filter_map(|part| Type::named(part)).collect();
        let packed = has("f16x2") || has("bf16x2");
        let half = Type { class: if has("bf16x2") { Class::Brain } else { Class::Float }, bytes: 2 };
        let first = types.first().copied().unwrap_or(Type { class: Class::Bits, bytes: 4 });
        let list = operands(list);
        // An inlined function continues after its call.
        let target = match does {
            Does::End if !self.scope.is_empty() => Some("end"),
            Does::Branch(_) => list.last().copied(),
            _ => None,
        };
        let operands = if let Some(label) = target {
            does = Does::Branch(0);
            self.targets.push((self.instructions.len(), format!("{}{label}", self.scope)));
            Vec::new()
        } else if has("param") && self.given(&list) {
            does = Does::Move;
            let names = list.iter().map(|part| part.trim_matches(['[', ']']));
            names
                .map(|name| if is_name(name) { Ok(Operand::Register(self.register(name))) } else { self.operand(name) })
                .collect::<Result<_, _>>()?
        } else {
            list.into_iter().map(|part| self.operand(part)).collect::<Result<_, _>>()?
        };
        self.instructions.push(Instruction {
            does,
            guard,
            kind: if packed { half } else { first },
            from: types.get(1).copied().unwrap_or(first),
            packed,
            finish: Finish { saturated: has("sat"), down: has("rm"), up: has("rp") },
            count: if has("v4") { 4 } else { 1 + usize::from(has("v2")) },
            space: if has("shared") { Space::Shared } else { Space::Any },
            operands,
            text: rest.to_owned(),
        });
        Ok(())
    }
}

/// Whether this is a name rather than a register or number.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn does(parts: &[&str]) -> Option<Does> {
    let has = |part: &str| parts.contains(&part);
    Some(match *parts.first()? {
        "add" => Does::Add,
        "sub" => Does::Subtract,
        "mul" if has("wide") => Does::MultiplyWide,
        "mul" if has("hi") => Does::MultiplyHigh,
        "mul" => Does::Multiply,
        "mad" if !has("wide") && !has("hi") => Does::MultiplyAdd,
        "fma" => Does::MultiplyAdd,
        "div" => Does::Divide,
        "rem" => Does::Remainder,
        "min" => Does::Least,
        "max" => Does::Most,
        "shl" => Does::ShiftLeft,
        "shr" => Does::ShiftRight,
        "and" => Does::And,
        "or" => Does::Or,
        "xor" => Does::ExclusiveOr,
        "not" => Does::Not,
        "neg" => Does::Negate,
        "abs" => Does::Absolute,
        "bfe" => Does::Field,
        "prmt" if parts.len() == 2 => Does::Permute,
        "sqrt" => Does::Root,
        "rcp" => Does::Reciprocal,
        "ex2" => Does::PowerOfTwo,
        "lg2" => Does::LogarithmOfTwo,
        "rsqrt" => Does::ReciprocalRoot,
        "tanh" => Does::HyperbolicTangent,
        "copysign" => Does::CopySign,
        "selp" => Does::Choose,
        "setp" => {
            let (name, unordered) = match *parts.get(1)? {
                "lo" => ("lt", false),
                "ls" => ("le", false),
                "hi" => ("gt", false),
                "hs" => ("ge", false),
                name @ ("num" | "nan") => (name, false),
                name => (&name[..2.min(name.len())], name.len() == 3),
            };
            let compare = match name {
                "eq" => Compare::Equal,
                "ne" => Compare::Unequal,
                "lt" => Compare::Less,
                "le" => Compare::LessOrEqual,
                "gt" => Compare::Greater,
                "ge" => Compare::GreaterOrEqual,
                "num" => Compare::Numbers,
                "nan" => Compare::NoNumber,
                _ => return None,
            };
            Does::Compare(compare, unordered)
        }
        "cvt" => Does::Convert,
        "mov" => Does::Move,
        "cvta" if !has("shared") => Does::Address,
        "cvta" if has("to") => Does::ToShared,
        "cvta" => Does::FromShared,
        "ld" if !has("local") => Does::Load,
        "st" if !has("local") => Does::Store,
        "atom" | "red" if has("add") => Does::Atomic(Atomic::Add),
        "atom" | "red" if has("min") => Does::Atomic(Atomic::Least),
        "atom" | "red" if has("max") => Does::Atomic(Atomic::Most),
        "atom" if has("exch") => Does::Atomic(Atomic::Exchange),
        "bra" => Does::Branch(0),
        "bar" | "barrier" => Does::Wait,
        "ret" | "exit" => Does::End,
        "wmma" if has("load") => Does::MatrixLoad,
        "wmma" if has("mma") => Does::MatrixMultiply,
        "wmma" if has("store") => Does::MatrixStore,
        _ => return None,
    })
}
