//! The elements of a kernel.

/// A type of values: `u32`, `bf16`, `pred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub class: Class,
    pub bytes: usize,
}

/// The interpretation of the bits of a value.
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

/// A value that differs between units or between workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Unit(usize),
    Units(usize),
    Group(usize),
    Groups(usize),
    Lane,
}

/// The base of an address.
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
    /// Several registers that form a vector.
    Several(Vec<Operand>),
}

/// The memory that an instruction accesses.
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
    /// Neither value is NaN, or one of them is.
    Numbers,
    NoNumber,
}

/// An atomic operation on a value in memory. The units of an interpreter do not run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Least,
    Most,
    Exchange,
}

/// The operation of an instruction.
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
    /// `or_unordered`: also true if a value is NaN.
    Compare(Compare, bool),
    Convert,
    Move,
    ToShared,
    FromShared,
    Address,
    Load,
    Store,
    /// One of the operations above, on the value at an address and another value.
    Atomic(Atomic),
    Branch(usize),
    Wait,
    End,
    /// Executed by the whole plane.
    MatrixLoad,
    MatrixMultiply,
    MatrixStore,
}

/// The treatment of a float before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finish {
    /// Whether it is clamped to 0 to 1.
    pub saturated: bool,
    /// Whether it is rounded down, or up, instead of to the nearest value.
    pub down: bool,
    pub up: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub does: Does,
    /// A predicate, and whether it must be false.
    pub guard: Option<(usize, bool)>,
    pub kind: Type,
    /// The source type of a conversion.
    pub from: Type,
    /// Whether two half-precision values are packed in one.
    pub packed: bool,
    pub finish: Finish,
    pub count: usize,
    pub space: Space,
    pub operands: Vec<Operand>,
    pub text: String,
}

impl Instruction {
    /// The name with all parts: `ld.global.v4.b32`.
    pub fn name(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// Whether the name has this part.
    pub fn has(&self, part: &str) -> bool {
        self.name().split('.').any(|p| p == part)
    }
}
