//! What a kernel is made of.

/// A type of values: `u32`, `bf16`, `pred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub class: Class,
    pub bytes: usize,
}

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Bits,
    Signed,
    Float,
    Brain,
    Predicate,
}

impl Type {
    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        let of = |class, bits: &str| bits.parse::<usize>().ok().map(|bits| Type { class, bytes: bits / 8 });
        match name {
            "pred" => Some(Type { class: Class::Predicate, bytes: 4 }),
            "bf16" => Some(Type { class: Class::Brain, bytes: 2 }),
            _ if !name.is_char_boundary(1) || name.len() < 2 => None,
            _ => match name.split_at(1) {
                ("b" | "u", bits) => of(Class::Bits, bits),
                ("s", bits) => of(Class::Signed, bits),
                ("f", bits) => of(Class::Float, bits),
                _ => None,
            },
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self.class, Class::Float | Class::Brain)
    }
}

/// A value that differs from unit to unit or from workgroup to workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Unit(usize),
    Units(usize),
    Group(usize),
    Groups(usize),
    Lane,
}

/// What an address begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Register(usize),
    Parameters,
    Shared,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Register(usize),
    Value(u64),
    Special(Special),
    Address(Base, i64),
    /// Several registers, of a vector.
    Several(Vec<Operand>),
}

/// The memory that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Any,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Neither of the values is not a number, or one of them is.
    Numbers,
    NoNumber,
}

/// What is done with a value in memory at once: units of an interpreter do not meet there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Least,
    Most,
    Exchange,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Add,
    Subtract,
    Multiply,
    MultiplyWide,
    MultiplyHigh,
    MultiplyAdd,
    Divide,
    Remainder,
    Least,
    Most,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    ExclusiveOr,
    Not,
    Negate,
    Absolute,
    Field,
    Permute,
    Root,
    Reciprocal,
    PowerOfTwo,
    LogarithmOfTwo,
    ReciprocalRoot,
    HyperbolicTangent,
    CopySign,
    Choose,
    /// `or_unordered`: true, too, where a value is not a number.
    Compare(Compare, bool),
    Convert,
    Move,
    ToShared,
    FromShared,
    Address,
    Load,
    Store,
    /// One of the operations above, of what lies at an address and a value.
    Atomic(Atomic),
    Branch(usize),
    Wait,
    End,
    /// By the whole plane.
    MatrixLoad,
    MatrixMultiply,
    MatrixStore,
}

/// What becomes of a float before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finish {
    /// Kept between 0 and 1.
    pub saturated: bool,
    /// Rounded to the value below in place of the nearest one, or to the value above.
    pub down: bool,
    pub up: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub does: Does,
    /// A predicate, and whether it must be false.
    pub guard: Option<(usize, bool)>,
    pub kind: Type,
    /// What a conversion reads.
    pub from: Type,
    /// Two values of half precision in one.
    pub packed: bool,
    pub finish: Finish,
    pub count: usize,
    pub space: Space,
    pub operands: Vec<Operand>,
    pub text: String,
}

impl Instruction {
    /// Its name with all parts: `ld.global.v4.b32`.
    pub fn name(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// Whether the name has this part.
    pub fn has(&self, part: &str) -> bool {
        self.name().split('.').any(|p| p == part)
    }
}
