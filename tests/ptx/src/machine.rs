//! A unit (CUDA's thread) runs until it waits for others.

use crate::arithmetic::{compare, convert, cut, finished, float, integer, permuted, rounded};
use crate::instruction::{Atomic, Base, Class, Does, Instruction, Operand, Space, Special, Type};
use crate::parse::Kernel;

/// The address at which shared memory begins.
const SHARED: u64 = 1 << 60;

/// The state that all units of a workgroup (CUDA's block) share.
pub(crate) struct Group<'a> {
    pub kernel: &'a Kernel,
    pub parameters: &'a [u8],
    pub shared: Vec<u8>,
    pub place: [u32; 3],
    pub groups: [u32; 3],
    pub units: [u32; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Runs,
    /// Waits for all units of the workgroup.
    Waits,
    /// Waits for all units of its plane, which compute a matrix product together.
    Meets,
    Ended,
}

pub(crate) struct Unit {
    pub registers: Vec<u64>,
    pub next: usize,
    pub state: State,
    pub place: u32,
    /// The number of instructions that were run.
    pub count: u64,
}

impl Unit {
    pub fn new(place: u32, registers: usize) -> Self {
        Unit { registers: vec![0; registers], next: 0, state: State::Runs, place, count: 0 }
    }

    pub fn read(&self, operand: &Operand, group: &Group<'_>) -> Result<u64, String> {
        let [x, y, _] = group.units;
        Ok(match operand {
            Operand::Register(register) => self.registers[*register],
            Operand::Value(value) => *value,
            Operand::Special(special) => u64::from(match *special {
                Special::Unit(0) => self.place % x,
                Special::Unit(1) => self.place / x % y,
                Special::Unit(_) => self.place / x / y,
                Special::Units(axis) => group.units[axis],
                Special::Group(axis) => group.place[axis],
                Special::Groups(axis) => group.groups[axis],
                Special::Lane => self.place % 32,
            }),
            other => return Err(format!("{other:?} is not a value")),
        })
    }

    fn write(&mut self, operand: &Operand, value: u64) -> Result<(), String> {
        match operand {
            Operand::Register(register) => self.registers[*register] = value,
            other => return Err(format!("{other:?} cannot be written")),
        }
        Ok(())
    }

    /// The offset of an address in shared memory, after checking that `bytes` bytes from there
    /// exist.
    pub fn shared(&self, operand: &Operand, group: &Group<'_>, bytes: usize) -> Result<usize, String> {
        let at = match operand {
            Operand::Address(Base::Register(register), offset) => {
                self.registers[*register].wrapping_add(*offset as u64)
            }
            Operand::Address(Base::Shared, offset) => *offset as u64,
            other => return Err(format!("{other:?} is not in shared memory")),
        };
        let at = if at >= SHARED { at - SHARED } else { at } as usize;
        match at.checked_add(bytes).is_some_and(|end| end <= group.shared.len()) {
            true => Ok(at),
            false => Err(format!("{bytes} bytes at {at} of {} in shared memory", group.shared.len())),
        }
    }

    /// The pointer for an address of `bytes` bytes; unaligned addresses are refused, as on a GPU.
    fn address(&self, instruction: &Instruction, operand: &Operand, group: &mut Group<'_>) -> Result<*mut u8, String> {
        let bytes = instruction.kind.bytes * instruction.count;
        let Operand::Address(base, offset) = operand else { return Err(format!("{operand:?} is not an address")) };
        let shared = instruction.space == Space::Shared || *base == Base::Shared;
        let at = match base {
            Base::Register(register) => self.registers[*register].wrapping_add(*offset as u64),
            Base::Parameters => {
                let end = *offset as usize + bytes;
                return match end <= group.parameters.len() {
                    true => Ok(group.parameters[*offset as usize..].as_ptr().cast_mut()),
                    false => Err(format!("{bytes} bytes at {offset} of the parameters")),
                };
            }
            Base::Shared => *offset as u64,
        };
        if !(at as usize).is_multiple_of(bytes) {
            return Err(format!("address {at:#x} is not a multiple of {bytes}"));
        }
        if shared || at >= SHARED {
            let at = self.shared(operand, group, bytes)?;
            return Ok(group.shared[at..].as_mut_ptr());
        }
        Ok(at as *mut u8)
    }

    /// Runs until the unit waits or ends.
    pub fn run(&mut self, group: &mut Group<'_>) -> Result<(), String> {
        let kernel = group.kernel;
        while self.state == State::Runs {
            let instruction = kernel.instructions.get(self.next).ok_or("the kernel does not end")?;
            self.count += 1;
            self.next += 1;
            if instruction.guard.is_some_and(|(predicate, negated)| (self.registers[predicate] != 0) == negated) {
                continue;
            }
            self.step(instruction, group).map_err(|e| format!("{e}: `{}`", instruction.text))?;
        }
        Ok(())
    }

    fn step(&mut self, instruction: &Instruction, group: &mut Group<'_>) -> Result<(), String> {
        let (kind, operands) = (instruction.kind, &instruction.operands);
        match instruction.does {
            Does::Branch(to) => self.next = to,
            Does::Wait => self.state = State::Waits,
            Does::End => self.state = State::Ended,
            Does::MatrixLoad | Does::MatrixMultiply | Does::MatrixStore => {
                self.next -= 1;
                self.state = State::Meets;
            }
            Does::Load => {
                let from = self.address(instruction, &operands[1], group)?;
                for i in 0..instruction.count {
                    let mut value = [0; 8];
                    // SAFETY: within the parameters or shared memory, or an address that the kernel
                    // was given: a GPU would read the same.
                    unsafe { from.add(i * kind.bytes).copy_to(value.as_mut_ptr(), kind.bytes) };
                    let value = integer(u64::from_le_bytes(value), kind) as u64;
                    let to = if let Operand::Several(all) = &operands[0] { &all[i] } else { &operands[0] };
                    self.write(
                        to,
                        if kind.bytes < 4 { cut(value, Type { bytes: 4, ..kind }) } else { cut(value, kind) },
                    )?;
                }
            }
            Does::Store => {
                let to = self.address(instruction, &operands[0], group)?;
                for i in 0..instruction.count {
                    let from = if let Operand::Several(all) = &operands[1] { &all[i] } else { &operands[1] };
                    let value = self.read(from, group)?.to_le_bytes();
                    // SAFETY: as above.
                    unsafe { value.as_ptr().copy_to(to.add(i * kind.bytes), kind.bytes) };
                }
            }
            Does::Atomic(atomic) => {
                // Without a result (`red`) the address is the first operand.
                let [.., at, value] = &operands[..] else { return Err("operands are missing".to_owned()) };
                let given = self.read(value, group)?;
                let at = self.address(instruction, at, group)?;
                let mut held = [0; 8];
                // SAFETY: as above.
                unsafe { at.copy_to(held.as_mut_ptr(), kind.bytes) };
                let held = u64::from_le_bytes(held);
                let does = match atomic {
                    Atomic::Add => Does::Add,
                    Atomic::Least => Does::Least,
                    Atomic::Most => Does::Most,
                    Atomic::Exchange => Does::Choose,
                };
                let sum = compute(&Instruction { does, ..instruction.clone() }, [held, given, 0])?.to_le_bytes();
                // SAFETY: as above.
                unsafe { sum.as_ptr().copy_to(at, kind.bytes) };
                if operands.len() == 3 {
                    self.write(&operands[0], held)?;
                }
            }
            Does::Move => self.move_(kind, operands, group)?,
            _ => {
                let values = operands[1..].iter().map(|operand| self.read(operand, group));
                let mut given = [0; 3];
                for (given, value) in given.iter_mut().zip(values) {
                    *given = value?;
                }
                let value = compute(instruction, given)?;
                self.write(&operands[0], value)?;
            }
        }
        Ok(())
    }

    /// Moves one value to another, or several values to the parts of one, and back.
    fn move_(&mut self, kind: Type, operands: &[Operand], group: &Group<'_>) -> Result<(), String> {
        let bits = |parts: usize| 8 * kind.bytes / parts;
        match (&operands[0], &operands[1]) {
            (Operand::Several(parts), from) => {
                let value = self.read(from, group)?;
                for (i, part) in parts.iter().enumerate().filter(|(_, part)| matches!(part, Operand::Register(_))) {
                    let width = bits(parts.len());
                    self.write(part, value >> (i * width) & ((1 << width) - 1))?;
                }
                Ok(())
            }
            (to, Operand::Several(parts)) => {
                let mut value = 0;
                for (i, part) in parts.iter().enumerate() {
                    let width = bits(parts.len());
                    value |= (self.read(part, group)? & ((1 << width) - 1)) << (i * width);
                }
                self.write(to, value)
            }
            (to, from) => {
                let value = self.read(from, group)?;
                self.write(to, if kind.class == Class::Predicate { u64::from(value != 0) } else { cut(value, kind) })
            }
        }
    }
}

/// The result of an instruction for its values.
fn compute(instruction: &Instruction, [a, b, c]: [u64; 3]) -> Result<u64, String> {
    let kind = instruction.kind;
    let bits = 8 * kind.bytes as u64;
    let whole = |value: u64| integer(value, kind);
    let is_float = kind.is_float();
    let finish = |value: f64| finished(value, kind, instruction.finish);
    let floats = |of: fn(f64, f64) -> f64| finish(of(float(a, kind), float(b, kind)));
    Ok(match instruction.does {
        Does::Add if is_float => floats(|a, b| a + b),
        Does::Subtract if is_float => floats(|a, b| a - b),
        Does::Multiply if is_float => floats(|a, b| a * b),
        Does::Divide if is_float => floats(|a, b| a / b),
        Does::Least if is_float => floats(f64::min),
        Does::Most if is_float => floats(f64::max),
        Does::MultiplyAdd if is_float => finish(float(a, kind).mul_add(float(b, kind), float(c, kind))),
        Does::Negate if is_float => finish(-float(a, kind)),
        Does::Absolute if is_float => finish(float(a, kind).abs()),
        Does::Root => finish(float(a, kind).sqrt()),
        Does::Reciprocal => finish(1.0 / float(a, kind)),
        Does::PowerOfTwo => finish(float(a, kind).exp2()),
        Does::ReciprocalRoot => finish(1.0 / float(a, kind).sqrt()),
        Does::HyperbolicTangent => finish(float(a, kind).tanh()),
        Does::CopySign => finish(float(b, kind).copysign(float(a, kind))),
        Does::LogarithmOfTwo => finish(float(a, kind).log2()),
        Does::Add => cut(a.wrapping_add(b), kind),
        Does::Subtract => cut(a.wrapping_sub(b), kind),
        Does::Multiply => cut(a.wrapping_mul(b), kind),
        Does::MultiplyAdd => cut(a.wrapping_mul(b).wrapping_add(c), kind),
        Does::MultiplyWide => cut((whole(a) * whole(b)) as u64, Type { bytes: 2 * kind.bytes, ..kind }),
        Does::MultiplyHigh => cut(((whole(a) * whole(b)) >> bits) as u64, kind),
        // A GPU's result of a division by zero is undefined.
        Does::Divide => cut(whole(a).checked_div(whole(b)).unwrap_or(-1) as u64, kind),
        Does::Remainder => cut(whole(a).checked_rem(whole(b)).unwrap_or(whole(a)) as u64, kind),
        Does::Least => cut(whole(a).min(whole(b)) as u64, kind),
        Does::Most => cut(whole(a).max(whole(b)) as u64, kind),
        Does::Negate => cut(a.wrapping_neg(), kind),
        Does::Absolute => cut(whole(a).unsigned_abs() as u64, kind),
        Does::ShiftLeft => {
            if b < bits {
                cut(a << b, kind)
            } else {
                0
            }
        }
        Does::ShiftRight => cut((whole(a) >> b.min(bits)) as u64, kind),
        Does::Permute => permuted(a, b, c),
        Does::Field => cut(a, kind) >> b & ((1 << c) - 1),
        Does::And => a & b,
        Does::Or => a | b,
        Does::ExclusiveOr => a ^ b,
        Does::Not if kind.class == Class::Predicate => u64::from(a == 0),
        Does::Not => cut(!a, kind),
        Does::Choose => cut(if c != 0 { a } else { b }, kind),
        Does::Compare(how, or_unordered) => u64::from(compare(how, or_unordered, a, b, kind)),
        Does::Convert if instruction.packed => {
            let f32 = Type { class: Class::Float, bytes: 4 };
            rounded(float(b, f32), kind) | rounded(float(a, f32), kind) << 16
        }
        Does::Convert => convert(a, instruction.from, kind, instruction.finish, instruction.name()),
        Does::Address => a,
        Does::ToShared => a - SHARED,
        Does::FromShared => a + SHARED,
        other => return Err(format!("{other:?} makes no value")),
    })
}
