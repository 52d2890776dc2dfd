//! Parses tokens to an expression, with Python's precedence.

mod atoms;

use std::sync::Arc;

use super::lex::{Token, tokens};
use super::{Arg, Binary, Clause, Compare, Expr, Lambda, Makes, Target, Unary};

/// The statement after `$`.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `import module as name`
    Import {
        /// The dotted name of the module or member.
        module: String,
        /// The name to which it is bound.
        name: String,
    },
    /// An expression.
    Expression(Expr),
}

/// The largest nesting depth of expressions.
const DEEPEST: usize = 60;

/// The largest number of operators, attributes, calls and indices of an expression. Each wraps the
/// one before, and code that follows an expression is recursive.
const MOST_LINKS: usize = 1000;

/// Parses a text without its `$`.
///
/// # Errors
/// Unsupported or invalid syntax, in words that follow "the expression".
pub fn parse(text: &str) -> Result<Statement, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, links: 0 };
    if let Some(import) = parser.import()? {
        return Ok(import);
    }
    let expr = parser.list_of_expressions()?;
    match parser.peek() {
        Token::End => Ok(Statement::Expression(expr)),
        Token::Sign("=" | ":=") => Err("assigns, which is not evaluated".to_owned()),
        other => Err(format!("has {} where it should end", shown(other))),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Name(name) => name.clone(),
        Token::Reference(id) => format!("@{id}"),
        Token::Int(number) => number.to_string(),
        Token::Float(number) => number.to_string(),
        Token::Text(text) | Token::Formatted(text) => format!("the text {text:?}"),
        Token::Sign(sign) => format!("{sign:?}"),
        Token::End => "its end".to_owned(),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    links: usize,
}

type Parsed<T = Expr> = Result<T, String>;

const RESERVED: [&str; 16] = [
    "and", "or", "not", "if", "else", "for", "in", "is", "lambda", "import", "from", "await", "yield", "async", "as",
    "del",
];

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(here) if *here == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(here) if here == word)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let there = self.is(sign);
        self.at += usize::from(there);
        there
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        match self.eat(sign) {
            true => Ok(()),
            false => Err(format!("has {} where {sign:?} is expected", shown(self.peek()))),
        }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.next() {
            Token::Name(name) if !RESERVED.contains(&name.as_str()) => Ok(name),
            other => Err(format!("has {} where a name is expected", shown(&other))),
        }
    }

    fn dotted(&mut self) -> Parsed<String> {
        let mut path = self.name()?;
        while self.eat(".") {
            path += ".";
            path += &self.name()?;
        }
        Ok(path)
    }

    fn import(&mut self) -> Parsed<Option<Statement>> {
        let from = if self.eat_word("from") {
            let module = self.dotted()?;
            if !self.eat_word("import") {
                return Err("has `from` without `import`".to_owned());
            }
            Some(module)
        } else if self.eat_word("import") {
            None
        } else {
            return Ok(None);
        };
        // Only the first name of a list is used.
        let named = self.dotted()?;
        let alias = if self.eat_word("as") { Some(self.name()?) } else { None };
        Ok(Some(match (from, alias) {
            (Some(module), alias) => {
                Statement::Import { module: format!("{module}.{named}"), name: alias.unwrap_or(named) }
            }
            (None, Some(name)) => Statement::Import { module: named, name },
            (None, None) => {
                // `import a.b` binds `a`.
                let first = named.split('.').next().unwrap_or_default().to_owned();
                Statement::Import { module: first.clone(), name: first }
            }
        }))
    }

    /// Parses an expression, or a tuple without brackets.
    fn list_of_expressions(&mut self) -> Parsed {
        let first = self.argument()?;
        if !self.is(",") {
            return match first {
                Arg::Plain(expr) => Ok(expr),
                _ => Err("unpacks (*) outside of a list".to_owned()),
            };
        }
        let mut items = vec![first];
        while self.eat(",") {
            if matches!(self.peek(), Token::End | Token::Sign(")" | "]" | "}" | "=" | ":")) {
                break;
            }
            items.push(self.argument()?);
        }
        Ok(Expr::Tuple(items))
    }

    /// Parses an element of a list, or a positional argument.
    fn argument(&mut self) -> Parsed<Arg> {
        Ok(if self.eat("*") { Arg::Star(self.binary(4)?) } else { Arg::Plain(self.expression()?) })
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} levels deep"));
        }
        let expr = self.conditional();
        self.depth -= 1;
        expr
    }

    /// Counts one more operator around the parsed expression.
    fn link(&mut self) -> Parsed<()> {
        self.links += 1;
        match self.links > MOST_LINKS {
            true => Err(format!("has more than {MOST_LINKS} operators, attributes and calls")),
            false => Ok(()),
        }
    }

    fn conditional(&mut self) -> Parsed {
        if self.eat_word("lambda") {
            return self.lambda();
        }
        let then = self.or()?;
        if !self.eat_word("if") {
            return Ok(then);
        }
        let condition = self.or()?;
        if !self.eat_word("else") {
            return Err("has `if` without `else`".to_owned());
        }
        let otherwise = self.expression()?;
        Ok(Expr::If { condition: Box::new(condition), then: Box::new(then), otherwise: Box::new(otherwise) })
    }

    fn lambda(&mut self) -> Parsed {
        let (mut parameters, mut rest, mut named_rest) = (Vec::new(), None, None);
        while !self.is(":") {
            if self.eat("**") {
                named_rest = Some(self.name()?);
            } else if self.eat("*") {
                rest = Some(self.name()?);
            } else {
                let name = self.name()?;
                let default = if self.eat("=") { Some(self.expression()?) } else { None };
                parameters.push((name, default));
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(":")?;
        let body = self.expression()?;
        Ok(Expr::Lambda(Arc::new(Lambda { parameters, rest, named_rest, body })))
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.eat_word("or") {
            self.link()?;
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        while self.eat_word("and") {
            self.link()?;
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} levels deep"));
        }
        let expr = match self.eat_word("not") {
            true => self.not().map(|of| Expr::Unary(Unary::Not, Box::new(of))),
            false => self.comparison(),
        };
        self.depth -= 1;
        expr
    }

    fn comparison(&mut self) -> Parsed {
        let first = self.binary(0)?;
        let mut rest = Vec::new();
        loop {
            let op = match self.peek() {
                Token::Sign("==") => Compare::Eq,
                Token::Sign("!=") => Compare::Ne,
                Token::Sign("<") => Compare::Lt,
                Token::Sign("<=") => Compare::Le,
                Token::Sign(">") => Compare::Gt,
                Token::Sign(">=") => Compare::Ge,
                Token::Name(word) if word == "in" => Compare::In,
                Token::Name(word) if word == "is" => Compare::Is,
                Token::Name(word) if word == "not" => Compare::NotIn,
                _ => break,
            };
            self.at += 1;
            let op = match op {
                Compare::Is if self.eat_word("not") => Compare::IsNot,
                Compare::NotIn if !self.eat_word("in") => {
                    return Err("has `not` where an operator is expected".to_owned());
                }
                op => op,
            };
            rest.push((op, self.binary(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    /// Parses binary operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let (op, own) = match self.peek() {
                Token::Sign("|") => (Binary::Or, 0),
                Token::Sign("&") => (Binary::And, 2),
                Token::Sign("+") => (Binary::Add, 4),
                Token::Sign("-") => (Binary::Sub, 4),
                Token::Sign("*") => (Binary::Mul, 5),
                Token::Sign("/") => (Binary::Div, 5),
                Token::Sign("//") => (Binary::FloorDiv, 5),
                Token::Sign("%") => (Binary::Mod, 5),
                Token::Sign(sign @ ("^" | "<<" | ">>")) => return Err(format!("has {sign}, which is not evaluated")),
                _ => return Ok(left),
            };
            if own < level {
                return Ok(left);
            }
            self.at += 1;
            self.link()?;
            let right = self.binary(own + 1)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} levels deep"));
        }
        let op = match self.peek() {
            Token::Sign("-") => Some(Unary::Neg),
            Token::Sign("+") => Some(Unary::Pos),
            Token::Sign("~") => Some(Unary::Invert),
            _ => None,
        };
        let expr = match op {
            Some(op) => {
                self.at += 1;
                self.unary().map(|of| Expr::Unary(op, Box::new(of)))
            }
            None => self.power(),
        };
        self.depth -= 1;
        expr
    }

    fn power(&mut self) -> Parsed {
        let base = self.postfix()?;
        if !self.eat("**") {
            return Ok(base);
        }
        let exponent = self.unary()?;
        Ok(Expr::Binary(Binary::Pow, Box::new(base), Box::new(exponent)))
    }

    fn postfix(&mut self) -> Parsed {
        let mut expr = self.atom()?;
        loop {
            if [".", "(", "["].iter().any(|sign| self.is(sign)) {
                self.link()?;
            }
            if self.eat(".") {
                expr = Expr::Attribute(Box::new(expr), self.name()?);
            } else if self.eat("(") {
                let args = self.call_arguments()?;
                expr = Expr::Call(Box::new(expr), args);
            } else if self.eat("[") {
                let index = self.index()?;
                self.expect("]")?;
                expr = Expr::Index(Box::new(expr), Box::new(index));
            } else {
                return Ok(expr);
            }
        }
    }

    fn call_arguments(&mut self) -> Parsed<Vec<Arg>> {
        let mut args = Vec::new();
        while !self.eat(")") {
            let named = matches!(self.tokens.get(self.at + 1), Some(Token::Sign("=")));
            let arg = match self.peek() {
                Token::Name(name) if named => {
                    let name = name.clone();
                    self.at += 2;
                    Arg::Named(name, self.expression()?)
                }
                Token::Sign("**") => {
                    self.at += 1;
                    Arg::StarStar(self.expression()?)
                }
                _ => match self.argument()? {
                    Arg::Plain(value) if self.is_word("for") => {
                        let clauses = self.clauses()?;
                        let value = Box::new(value);
                        Arg::Plain(Expr::Comprehension { makes: Makes::List, key: None, value, clauses })
                    }
                    arg => arg,
                },
            };
            args.push(arg);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(args)
    }

    fn index(&mut self) -> Parsed {
        let mut items = vec![self.slice()?];
        let mut tuple = false;
        while self.eat(",") {
            tuple = true;
            if self.is("]") {
                break;
            }
            items.push(self.slice()?);
        }
        if tuple {
            return Ok(Expr::Tuple(items.into_iter().map(Arg::Plain).collect()));
        }
        Ok(items.swap_remove(0))
    }

    fn slice(&mut self) -> Parsed {
        let part = |parser: &mut Self| -> Parsed<Option<Box<Expr>>> {
            if parser.is(":") || parser.is("]") || parser.is(",") {
                return Ok(None);
            }
            Ok(Some(Box::new(parser.expression()?)))
        };
        let start = part(self)?;
        if !self.eat(":") {
            return start.map(|start| *start).ok_or_else(|| "has an index without a value".to_owned());
        }
        let end = part(self)?;
        let step = if self.eat(":") { part(self)? } else { None };
        Ok(Expr::Slice(start, end, step))
    }

    fn clauses(&mut self) -> Parsed<Vec<Clause>> {
        let mut clauses = Vec::new();
        while self.eat_word("for") {
            let target = self.target()?;
            if !self.eat_word("in") {
                return Err("has `for` without `in`".to_owned());
            }
            let iter = self.or()?;
            let mut conditions = Vec::new();
            while self.eat_word("if") {
                conditions.push(self.or()?);
            }
            clauses.push(Clause { target, iter, conditions });
        }
        Ok(clauses)
    }

    fn target(&mut self) -> Parsed<Target> {
        let one = |parser: &mut Self| -> Parsed<Target> {
            if parser.eat("(") {
                parser.depth += 1;
                if parser.depth > DEEPEST {
                    return Err(format!("is nested more than {DEEPEST} levels deep"));
                }
                let inner = parser.target()?;
                parser.expect(")")?;
                parser.depth -= 1;
                return Ok(inner);
            }
            parser.name().map(Target::Name)
        };
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat(",") {
            if self.is_word("in") {
                break;
            }
            all.push(one(self)?);
        }
        Ok(Target::Tuple(all))
    }
}
