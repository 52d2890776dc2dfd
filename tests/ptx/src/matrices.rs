//! Products of 16 x 16 matrices, which the 32 units of a plane compute together. NVIDIA does not
//! document how the values of a matrix are distributed over registers; in this interpreter each
//! unit has eight consecutive values of a row.

use half::{bf16, f16};

use crate::instruction::{Does, Instruction, Operand};
use crate::machine::{Group, State, Unit};

/// The number of units of a plane.
pub(crate) const PLANE: usize = 32;
const EDGE: usize = 16;
/// The number of values of a unit.
const EACH: usize = EDGE * EDGE / PLANE;
/// The alignment of a matrix's address.
const ALIGNED: usize = 32;

/// Runs the instruction that all units of the plane have reached.
pub(crate) fn together(units: &mut [Unit], group: &mut Group<'_>) -> Result<(), String> {
    let next = units[0].next;
    if units.len() != PLANE || units.iter().any(|unit| unit.state != State::Meets || unit.next != next) {
        return Err("the units of a plane come to a matrix apart".to_owned());
    }
    let instruction = &group.kernel.instructions[next];
    let done = match instruction.does {
        Does::MatrixLoad => load(instruction, units, group),
        Does::MatrixMultiply => multiply(instruction, units, group),
        _ => store(instruction, units, group),
    };
    done.map_err(|e| format!("{e}: `{}`", instruction.text))?;
    for unit in units {
        unit.next += 1;
        unit.state = State::Runs;
    }
    Ok(())
}

fn several(operand: &Operand) -> Result<&[Operand], String> {
    match operand {
        Operand::Several(all) => Ok(all),
        other => Err(format!("{other:?} is not a matrix")),
    }
}

/// The offset of a matrix in shared memory, and the stride of its rows or columns.
fn place(
    units: &[Unit],
    group: &Group<'_>,
    at: &Operand,
    stride: &Operand,
    bytes: usize,
) -> Result<(usize, usize), String> {
    let stride = units[0].read(stride, group)? as usize;
    let length = ((EDGE - 1) * stride + EDGE) * bytes;
    let place = units[0].shared(at, group, length)?;
    for unit in units {
        if unit.shared(at, group, length)? != place {
            return Err("the units of a plane have different addresses".to_owned());
        }
    }
    if !place.is_multiple_of(ALIGNED) || !(stride * bytes).is_multiple_of(16) {
        return Err(format!(
            "a matrix at {place} with a stride of {stride}: must be a multiple of {ALIGNED}, and of 16 bytes"
        ));
    }
    Ok((place, stride))
}

fn load(instruction: &Instruction, units: &mut [Unit], group: &Group<'_>) -> Result<(), String> {
    let [to, at, stride] = &instruction.operands[..] else { return Err("operands are missing".to_owned()) };
    let (place, stride) = place(units, group, at, stride, 2)?;
    let by_columns = instruction.has("col");
    let value = |i: usize| {
        let (row, column) = (i / EDGE, i % EDGE);
        let at = place + 2 * if by_columns { column * stride + row } else { row * stride + column };
        u64::from(u16::from_le_bytes([group.shared[at], group.shared[at + 1]]))
    };
    let registers = several(to)?;
    for (u, unit) in units.iter_mut().enumerate() {
        for (i, register) in registers.iter().take(EACH / 2).enumerate() {
            let Operand::Register(register) = register else { return Err("a matrix without registers".to_owned()) };
            let first = u * EACH + 2 * i;
            unit.registers[*register] = value(first) | value(first + 1) << 16;
        }
    }
    Ok(())
}

/// The values of a half-precision matrix.
fn values(units: &[Unit], group: &Group<'_>, operand: &Operand, brain: bool) -> Result<Vec<f32>, String> {
    let mut found = Vec::with_capacity(EDGE * EDGE);
    for unit in units {
        for part in several(operand)?.iter().take(EACH / 2) {
            let pair = unit.read(part, group)?;
            for bits in [pair as u16, (pair >> 16) as u16] {
                found.push(if brain { bf16::from_bits(bits).to_f32() } else { f16::from_bits(bits).to_f32() });
            }
        }
    }
    Ok(found)
}

fn sums(units: &[Unit], group: &Group<'_>, operand: &Operand) -> Result<Vec<f32>, String> {
    let mut found = Vec::with_capacity(EDGE * EDGE);
    for unit in units {
        for part in several(operand)? {
            found.push(f32::from_bits(unit.read(part, group)? as u32));
        }
    }
    Ok(found)
}

fn multiply(instruction: &Instruction, units: &mut [Unit], group: &Group<'_>) -> Result<(), String> {
    let [to, a, b, c] = &instruction.operands[..] else { return Err("operands are missing".to_owned()) };
    let brain = instruction.has("bf16");
    let (a, b) = (values(units, group, a, brain)?, values(units, group, b, brain)?);
    let mut sums = sums(units, group, c)?;
    for row in 0..EDGE {
        for column in 0..EDGE {
            for deep in 0..EDGE {
                sums[row * EDGE + column] += a[row * EDGE + deep] * b[deep * EDGE + column];
            }
        }
    }
    for (unit, sums) in units.iter_mut().zip(sums.chunks(EACH)) {
        for (register, sum) in several(to)?.iter().zip(sums) {
            let Operand::Register(register) = register else { return Err("a matrix without registers".to_owned()) };
            unit.registers[*register] = u64::from(sum.to_bits());
        }
    }
    Ok(())
}

fn store(instruction: &Instruction, units: &[Unit], group: &mut Group<'_>) -> Result<(), String> {
    let [at, from, stride] = &instruction.operands[..] else { return Err("operands are missing".to_owned()) };
    let (place, stride) = place(units, group, at, stride, 4)?;
    let by_columns = instruction.has("col");
    for (i, sum) in sums(units, group, from)?.into_iter().enumerate() {
        let (row, column) = (i / EDGE, i % EDGE);
        let at = place + 4 * if by_columns { column * stride + row } else { row * stride + column };
        group.shared[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
    Ok(())
}
