//! Values as the bits of a register.

use half::{bf16, f16};

use crate::instruction::{Class, Compare, Finish, Type};

/// The bits that belong to a type.
pub(crate) fn cut(value: u64, kind: Type) -> u64 {
    if kind.bytes == 8 { value } else { value & ((1 << (8 * kind.bytes)) - 1) }
}

/// The value of an integer, signed or unsigned.
pub(crate) fn integer(value: u64, kind: Type) -> i128 {
    let bits = 64 - 8 * kind.bytes as u32;
    match kind.class {
        Class::Signed => i128::from(((value << bits) as i64) >> bits),
        _ => i128::from(cut(value, kind)),
    }
}

pub(crate) fn float(value: u64, kind: Type) -> f64 {
    match (kind.class, kind.bytes) {
        (Class::Brain, _) => bf16::from_bits(value as u16).to_f64(),
        (_, 2) => f16::from_bits(value as u16).to_f64(),
        (_, 8) => f64::from_bits(value),
        _ => f64::from(f32::from_bits(value as u32)),
    }
}

/// The nearest value of a type. For sums, products and quotients of two f32 it equals the result in
/// f32.
pub(crate) fn rounded(value: f64, kind: Type) -> u64 {
    match (kind.class, kind.bytes) {
        (Class::Brain, _) => u64::from(bf16::from_f64(value).to_bits()),
        (_, 2) => u64::from(f16::from_f64(value).to_bits()),
        (_, 8) => value.to_bits(),
        _ => u64::from((value as f32).to_bits()),
    }
}

/// The value of a type after the finish that an instruction requests.
pub(crate) fn finished(value: f64, kind: Type, finish: Finish) -> u64 {
    let value = match finish.saturated {
        true if value.is_nan() => 0.0,
        true => value.clamp(0.0, 1.0),
        false => value,
    };
    let nearest = rounded(value, kind);
    if kind.bytes != 4 || !(finish.down || finish.up) {
        return nearest;
    }
    let near = f32::from_bits(nearest as u32);
    let bits = |value: f32| u64::from(value.to_bits());
    match () {
        () if finish.down && f64::from(near) > value => bits(near.next_down()),
        () if finish.up && f64::from(near) < value => bits(near.next_up()),
        () => nearest,
    }
}

/// Selects four of the eight bytes of two registers by four digits; the fourth bit of a digit
/// requests only the byte's sign.
pub(crate) fn permuted(a: u64, b: u64, digits: u64) -> u64 {
    let bytes = (a & 0xffff_ffff | b << 32).to_le_bytes();
    let chosen = |place: u32| {
        let digit = digits >> (4 * place) & 15;
        let byte = bytes[digit as usize & 7];
        u64::from(if digit & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 })
    };
    (0..4).map(|place| chosen(place) << (8 * place)).sum()
}

pub(crate) fn compare(how: Compare, or_unordered: bool, a: u64, b: u64, kind: Type) -> bool {
    use std::cmp::Ordering;
    let order = match kind.is_float() {
        true => float(a, kind).partial_cmp(&float(b, kind)),
        false => Some(integer(a, kind).cmp(&integer(b, kind))),
    };
    let Some(order) = order else { return or_unordered || how == Compare::NoNumber };
    match how {
        Compare::Equal => order == Ordering::Equal,
        Compare::Unequal => order != Ordering::Equal,
        Compare::Less => order == Ordering::Less,
        Compare::LessOrEqual => order != Ordering::Greater,
        Compare::Greater => order == Ordering::Greater,
        Compare::GreaterOrEqual => order != Ordering::Less,
        Compare::Numbers => true,
        Compare::NoNumber => false,
    }
}

/// Converts a number to another type; integers are truncated, floats are rounded as the name states
/// and clamped to the range.
pub(crate) fn convert(value: u64, from: Type, to: Type, finish: Finish, name: &str) -> u64 {
    if !from.is_float() {
        let value = integer(value, from);
        return if to.is_float() { rounded(value as f64, to) } else { cut(value as u64, to) };
    }
    let value = float(value, from);
    let part = |part: &str| name.split('.').any(|p| p == part);
    // To a whole number, even if the type is a float.
    let whole = match () {
        () if part("rni") => value.round_ties_even(),
        () if part("rmi") => value.floor(),
        () if part("rpi") => value.ceil(),
        () if part("rzi") || !to.is_float() => value.trunc(),
        () => value,
    };
    if to.is_float() {
        return finished(whole, to, finish);
    }
    let bits = 8 * to.bytes as u32;
    let (least, most) = match to.class {
        Class::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    };
    cut((whole as i128).clamp(least, most) as u64, to)
}
