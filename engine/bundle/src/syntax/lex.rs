//! The tokens of Python's expressions, and of references.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(String),
    Reference(String),
    Int(i64),
    Float(f64),
    Text(String),
    /// A formatted string, unparsed.
    Formatted(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// All signs, longer ones first.
const SIGNS: [&str; 36] = [
    "...", "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "->", ":=", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    "{", "}", ",", ":", ".", "<", ">", "=", "&", "|", "^", "~", ";", "!", "`", "?",
];

/// Splits a text into tokens.
///
/// # Errors
/// A character that is not part of a token, with its place.
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut lexer = Lexer { rest: text, depth: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token == Token::End;
        // Adjacent strings are joined.
        match (tokens.last_mut(), token) {
            (Some(Token::Text(before)), Token::Text(more)) => before.push_str(&more),
            (_, token) => tokens.push(token),
        }
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    depth: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Lexer<'_> {
    fn take(&mut self, bytes: usize) -> &str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c: char| !fits(c)).unwrap_or(self.rest.len());
        self.take(end).to_owned()
    }

    fn next(&mut self) -> Result<Token, String> {
        loop {
            let Some(c) = self.rest.chars().next() else { return Ok(Token::End) };
            match c {
                '\\' if self.rest.starts_with("\\\n") => drop(self.take(2)),
                '\n' if self.depth == 0 => {
                    if self.rest.trim().is_empty() {
                        return Ok(Token::End);
                    }
                    return Err("has a line break outside of brackets".to_owned());
                }
                c if c.is_whitespace() => drop(self.take(c.len_utf8())),
                _ => break,
            }
        }
        let c = self.rest.chars().next().unwrap_or(' ');
        if c == '@' {
            return self.reference();
        }
        if c.is_ascii_digit() || (c == '.' && self.rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return self.number();
        }
        if let Some(prefix) = text_prefix(self.rest) {
            let prefix = self.take(prefix).to_lowercase();
            return self.text(&prefix);
        }
        if is_word(c) {
            return Ok(Token::Name(self.take_while(is_word)));
        }
        match SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            Some(sign) => {
                self.take(sign.len());
                match *sign {
                    "(" | "[" | "{" => self.depth += 1,
                    ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                Ok(Token::Sign(sign))
            }
            None => Err(format!("{c:?} is no part of an expression")),
        }
    }

    fn reference(&mut self) -> Result<Token, String> {
        self.take(1);
        let mut id = self.take_while(is_word);
        while self.rest.starts_with("::") && self.rest[2..].starts_with(is_word) {
            self.take(2);
            id += "::";
            id += &self.take_while(is_word);
        }
        match id.is_empty() {
            true => Err("has an @ without an id".to_owned()),
            false => Ok(Token::Reference(id)),
        }
    }

    fn number(&mut self) -> Result<Token, String> {
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            let has = self.rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
            if has {
                self.take(2);
                let digits = self.take_while(is_word).replace('_', "");
                let number = i64::from_str_radix(&digits, radix);
                return number.map(Token::Int).map_err(|_| format!("{prefix}{digits} is not a number of 64 bits"));
            }
        }
        let mut text = self.take_while(|c| c.is_ascii_digit() || c == '_');
        let mut float = false;
        if self.rest.starts_with('.') {
            float = true;
            text += self.take(1).to_owned().as_str();
            text += &self.take_while(|c| c.is_ascii_digit() || c == '_');
        }
        if self.rest.starts_with(['e', 'E']) {
            let after = &self.rest[1..];
            let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
            if digits.starts_with(|c: char| c.is_ascii_digit()) {
                float = true;
                let length = 1 + after.len() - digits.len();
                text += self.take(length).to_owned().as_str();
                text += &self.take_while(|c| c.is_ascii_digit());
            }
        }
        let text = text.replace('_', "");
        if self.rest.starts_with(is_word) {
            return Err(format!("a name follows the number {text} at once"));
        }
        if float {
            return text.parse().map(Token::Float).map_err(|_| format!("{text} is not a number"));
        }
        text.parse().map(Token::Int).map_err(|_| format!("{text} does not fit in 64 bits"))
    }

    fn text(&mut self, prefix: &str) -> Result<Token, String> {
        if prefix.contains('b') {
            return Err("has bytes (b'...'), which are not evaluated".to_owned());
        }
        let quote = if self.rest.starts_with("'''") || self.rest.starts_with("\"\"\"") { 3 } else { 1 };
        let quote = self.take(quote).to_owned();
        let (raw, mut out) = (prefix.contains('r'), String::new());
        loop {
            if self.rest.starts_with(&quote) {
                self.take(quote.len());
                break;
            }
            let Some(c) = self.rest.chars().next() else {
                return Err(format!("a text that begins with {quote} does not end"));
            };
            if c == '\n' && quote.len() == 1 {
                return Err("has a line break in a text".to_owned());
            }
            self.take(c.len_utf8());
            match c {
                '\\' if !raw => self.escape(&mut out)?,
                '\\' => {
                    out.push('\\');
                    if let Some(next) = self.rest.chars().next() {
                        self.take(next.len_utf8());
                        out.push(next);
                    }
                }
                '@' if self.rest.starts_with(is_word) && !prefix.contains('f') => {
                    let named = self.take_while(is_word);
                    return Err(format!("@{named} stands inside a text, where it is a reference, too: join it by +"));
                }
                c => out.push(c),
            }
        }
        Ok(if prefix.contains('f') { Token::Formatted(out) } else { Token::Text(out) })
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let Some(c) = self.rest.chars().next() else { return Err("a text ends with a backslash".to_owned()) };
        self.take(c.len_utf8());
        let of_one = match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' => Some(c),
            _ => None,
        };
        if let Some(c) = of_one {
            out.push(c);
            return Ok(());
        }
        let digits = match c {
            '\n' => return Ok(()),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='7' => {
                let mut octal = c.to_string();
                while octal.len() < 3 && self.rest.starts_with(|c: char| c.is_digit(8)) {
                    octal += self.take(1).to_owned().as_str();
                }
                let code = u32::from_str_radix(&octal, 8).ok().and_then(char::from_u32);
                return code.map(|c| out.push(c)).ok_or_else(|| format!("\\{octal} is no character"));
            }
            other => {
                // Python keeps the backslash of an unknown escape.
                out.push('\\');
                out.push(other);
                return Ok(());
            }
        };
        let code = self.rest.get(..digits).unwrap_or_default().to_owned();
        let found = u32::from_str_radix(&code, 16).ok().filter(|_| !code.is_empty()).and_then(char::from_u32);
        let found = found.ok_or_else(|| format!("\\{c}{code} is no character"))?;
        self.take(digits);
        out.push(found);
        Ok(())
    }
}

/// The length of the prefix of a string literal, if one starts here.
fn text_prefix(rest: &str) -> Option<usize> {
    let mut letters = rest.bytes().take(3);
    let prefix = letters.position(|c| !matches!(c.to_ascii_lowercase(), b'r' | b'b' | b'f' | b'u'))?;
    matches!(rest.as_bytes()[prefix], b'\'' | b'"').then_some(prefix)
}
