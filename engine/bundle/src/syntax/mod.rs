//! Python's grammar of expressions, as far as configs use it: texts are parsed to trees of [`Expr`].

mod lex;
mod parse;

pub use parse::{Statement, parse};

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `'text'`
    Text(String),
    /// `...`
    Ellipsis,
}

/// An operator on two numbers, texts or lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`
    FloorDiv,
    /// `%`
    Mod,
    /// `**`
    Pow,
    /// `&`
    And,
    /// `|`
    Or,
}

/// An operator on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-`
    Neg,
    /// `+`
    Pos,
    /// `not`
    Not,
    /// `~`
    Invert,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `in`
    In,
    /// `not in`
    NotIn,
    /// `is`
    Is,
    /// `is not`
    IsNot,
}

/// The form of an argument of a call, or of an element of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// By position.
    Plain(Expr),
    /// By name.
    Named(String, Expr),
    /// `*x`
    Star(Expr),
    /// `**x`
    StarStar(Expr),
}

/// `for targets in iter if ...`
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// The names that an element is bound to.
    pub target: Target,
    /// The iterable.
    pub iter: Expr,
    /// The conditions.
    pub conditions: Vec<Expr>,
}

/// The target of a loop variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A name.
    Name(String),
    /// Several targets, for the elements of a tuple.
    Tuple(Vec<Target>),
}

/// The result of a comprehension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// `[...]`, or a generator, which is iterated once.
    List,
    /// `{...}`
    Set,
    /// `{k: v ...}`
    Dict,
}

/// `lambda x, y=1, *_, **__: body`
#[derive(Clone, Debug, PartialEq)]
pub struct Lambda {
    /// Parameter names and defaults.
    pub parameters: Vec<(String, Option<Expr>)>,
    /// The name of `*args`.
    pub rest: Option<String>,
    /// The name of `**kwargs`.
    pub named_rest: Option<String>,
    /// The expression of the result.
    pub body: Expr,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Constant(Constant),
    /// A name.
    Name(String),
    /// `@id`
    Reference(String),
    /// `[a, *b]`
    List(Vec<Arg>),
    /// `(a, b)`
    Tuple(Vec<Arg>),
    /// `{a, b}`
    Set(Vec<Arg>),
    /// `{k: v, **d}`; an entry without a key is an unpacked dictionary.
    Dict(Vec<(Option<Expr>, Expr)>),
    /// `-a`
    Unary(Unary, Box<Expr>),
    /// `a + b`
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a < b <= c`
    Compare(Box<Expr>, Vec<(Compare, Expr)>),
    /// `a and b`
    And(Box<Expr>, Box<Expr>),
    /// `a or b`
    Or(Box<Expr>, Box<Expr>),
    /// `then if condition else otherwise`
    If {
        /// The condition.
        condition: Box<Expr>,
        /// The value if the condition holds.
        then: Box<Expr>,
        /// The value otherwise.
        otherwise: Box<Expr>,
    },
    /// `a.b`
    Attribute(Box<Expr>, String),
    /// `a[b]`
    Index(Box<Expr>, Box<Expr>),
    /// `a:b:c` within brackets.
    Slice(Option<Box<Expr>>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `f(a, b=c)`
    Call(Box<Expr>, Vec<Arg>),
    /// `lambda x: y`
    Lambda(std::sync::Arc<Lambda>),
    /// `[x for y in z]`
    Comprehension {
        /// The kind of result.
        makes: Makes,
        /// The key of a dictionary.
        key: Option<Box<Expr>>,
        /// The element.
        value: Box<Expr>,
        /// The loops.
        clauses: Vec<Clause>,
    },
    /// A formatted string, which is parsed but not evaluated.
    Formatted(String),
}

impl Expr {
    /// The dotted name of the expression, such as `torch.nn.Module`.
    pub fn dotted(&self) -> Option<String> {
        match self {
            Expr::Name(name) => Some(name.clone()),
            Expr::Attribute(of, name) => Some(format!("{}.{name}", of.dotted()?)),
            _ => None,
        }
    }

    /// Visits the direct subexpressions, in the order in which they are written.
    pub fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        fn args(args: &[Arg], visit: &mut dyn FnMut(&Expr)) {
            for arg in args {
                match arg {
                    Arg::Plain(e) | Arg::Named(_, e) | Arg::Star(e) | Arg::StarStar(e) => visit(e),
                }
            }
        }
        match self {
            Expr::Constant(_) | Expr::Name(_) | Expr::Reference(_) | Expr::Formatted(_) => {}
            Expr::List(items) | Expr::Tuple(items) | Expr::Set(items) => args(items, visit),
            Expr::Dict(items) => items.iter().for_each(|(key, value)| {
                key.iter().for_each(&mut *visit);
                visit(value);
            }),
            Expr::Unary(_, of) | Expr::Attribute(of, _) => visit(of),
            Expr::Binary(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::Index(a, b) => {
                visit(a);
                visit(b);
            }
            Expr::Compare(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, e)| visit(e));
            }
            Expr::If { condition, then, otherwise } => [then, condition, otherwise].into_iter().for_each(|e| visit(e)),
            Expr::Slice(a, b, c) => [a, b, c].into_iter().flatten().for_each(|e| visit(e)),
            Expr::Call(function, given) => {
                visit(function);
                args(given, visit);
            }
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().filter_map(|(_, default)| default.as_ref()).for_each(&mut *visit);
                visit(&lambda.body);
            }
            Expr::Comprehension { key, value, clauses, .. } => {
                key.iter().for_each(|e| visit(e));
                visit(value);
                for clause in clauses {
                    visit(&clause.iter);
                    clause.conditions.iter().for_each(&mut *visit);
                }
            }
        }
    }

    /// All ids that the expression refers to, in the order in which they are written.
    pub fn references(&self) -> Vec<String> {
        let mut found = Vec::new();
        fn walk(expr: &Expr, found: &mut Vec<String>) {
            if let Expr::Reference(id) = expr
                && !found.contains(id)
            {
                found.push(id.clone());
            }
            expr.each(&mut |inner| walk(inner, found));
        }
        walk(self, &mut found);
        found
    }
}

/// Parses a value of the command line: a Python literal, or else the text.
pub(crate) fn literal(text: &str) -> serde_json::Value {
    let parsed = match parse(&text.trim().replace('@', AT)) {
        Ok(Statement::Expression(expr)) => constant(&expr),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

/// Replaces `@` while a literal is parsed: in a list of expressions, references belong to the elements.
const AT: &str = "\u{f8ff}";

fn constant(expr: &Expr) -> Option<serde_json::Value> {
    use serde_json::Value;
    let all = |items: &[Arg]| {
        let each = items.iter().map(|item| match item {
            Arg::Plain(expr) => constant(expr),
            _ => None,
        });
        each.collect::<Option<Vec<Value>>>().map(Value::Array)
    };
    match expr {
        Expr::Constant(Constant::None) => Some(Value::Null),
        Expr::Constant(Constant::Bool(truth)) => Some((*truth).into()),
        Expr::Constant(Constant::Int(number)) => Some((*number).into()),
        Expr::Constant(Constant::Float(number)) => serde_json::Number::from_f64(*number).map(Value::Number),
        Expr::Constant(Constant::Text(text)) => Some(text.replace(AT, "@").into()),
        Expr::Unary(Unary::Neg, of) => match constant(of)? {
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Some(whole.checked_neg()?.into()),
                None => serde_json::Number::from_f64(-number.as_f64()?).map(Value::Number),
            },
            _ => None,
        },
        Expr::List(items) | Expr::Tuple(items) => all(items),
        Expr::Dict(items) => {
            let mut table = serde_json::Map::new();
            for (key, value) in items {
                let key = match constant(key.as_ref()?)? {
                    Value::String(key) => key,
                    Value::Number(key) => key.to_string(),
                    _ => return None,
                };
                table.insert(key, constant(value)?);
            }
            Some(Value::Object(table))
        }
        _ => None,
    }
}
