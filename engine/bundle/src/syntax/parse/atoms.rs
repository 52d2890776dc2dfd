//! The operands of operators: names, constants, brackets.

use super::{Parsed, Parser, RESERVED, shown};
use crate::syntax::lex::Token;
use crate::syntax::{Arg, Constant, Expr, Makes};

impl Parser {
    pub(super) fn atom(&mut self) -> Parsed {
        Ok(match self.next() {
            Token::Int(number) => Expr::Constant(Constant::Int(number)),
            Token::Float(number) => Expr::Constant(Constant::Float(number)),
            Token::Text(text) => Expr::Constant(Constant::Text(text)),
            Token::Formatted(text) => {
                while matches!(self.peek(), Token::Formatted(_) | Token::Text(_)) {
                    self.at += 1;
                }
                Expr::Formatted(text)
            }
            Token::Reference(id) => Expr::Reference(id),
            Token::Sign("...") => Expr::Constant(Constant::Ellipsis),
            Token::Sign("(") => self.bracket()?,
            Token::Sign("[") => self.list()?,
            Token::Sign("{") => self.braces()?,
            Token::Name(name) => match name.as_str() {
                "None" => Expr::Constant(Constant::None),
                "True" => Expr::Constant(Constant::Bool(true)),
                "False" => Expr::Constant(Constant::Bool(false)),
                word if RESERVED.contains(&word) => return Err(format!("has `{word}`, which is not evaluated here")),
                _ => Expr::Name(name),
            },
            other => return Err(format!("has {} where a value is expected", shown(&other))),
        })
    }

    fn bracket(&mut self) -> Parsed {
        if self.eat(")") {
            return Ok(Expr::Tuple(Vec::new()));
        }
        let inner = self.list_of_expressions()?;
        if self.is_word("for") {
            let clauses = self.clauses()?;
            self.expect(")")?;
            return Ok(Expr::Comprehension { makes: Makes::List, key: None, value: Box::new(inner), clauses });
        }
        self.expect(")")?;
        Ok(inner)
    }

    fn list(&mut self) -> Parsed {
        let mut items = Vec::new();
        while !self.eat("]") {
            match self.argument()? {
                Arg::Plain(value) if self.is_word("for") && items.is_empty() => {
                    let clauses = self.clauses()?;
                    self.expect("]")?;
                    let value = Box::new(value);
                    return Ok(Expr::Comprehension { makes: Makes::List, key: None, value, clauses });
                }
                item => items.push(item),
            }
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expr::List(items))
    }

    fn braces(&mut self) -> Parsed {
        let (mut entries, mut items) = (Vec::new(), Vec::new());
        while !self.eat("}") {
            if self.eat("**") {
                entries.push((None, self.binary(0)?));
            } else {
                let first = self.argument()?;
                match first {
                    Arg::Plain(key) if self.eat(":") => {
                        let value = self.expression()?;
                        if self.is_word("for") && entries.is_empty() {
                            let clauses = self.clauses()?;
                            self.expect("}")?;
                            let (key, value) = (Some(Box::new(key)), Box::new(value));
                            return Ok(Expr::Comprehension { makes: Makes::Dict, key, value, clauses });
                        }
                        entries.push((Some(key), value));
                    }
                    Arg::Plain(value) if self.is_word("for") && items.is_empty() => {
                        let clauses = self.clauses()?;
                        self.expect("}")?;
                        let value = Box::new(value);
                        return Ok(Expr::Comprehension { makes: Makes::Set, key: None, value, clauses });
                    }
                    item => items.push(item),
                }
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        match (entries.is_empty(), items.is_empty()) {
            (_, true) => Ok(Expr::Dict(entries)),
            (true, false) => Ok(Expr::Set(items)),
            (false, false) => Err("mixes a dictionary and a set".to_owned()),
        }
    }
}
