//! Runs the workgroups of a launch, one after the other.

use crate::machine::{Group, State, Unit};
use crate::matrices::{PLANE, together};
use crate::parse::Kernel;

/// A kernel with its launch arguments.
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The number of workgroups along each axis.
    pub groups: [u32; 3],
    /// The number of units of a workgroup along each axis.
    pub units: [u32; 3],
    /// The size of shared memory in bytes.
    pub shared: usize,
    /// The parameters, each at its offset.
    pub parameters: &'a [u8],
}

impl Launch<'_> {
    /// Runs the launch; returns the number of instructions of all units.
    ///
    /// Shared memory initially has all bits set, so that reading uninitialized values yields NaN.
    ///
    /// # Errors
    /// If a GPU would refuse it: addresses outside shared memory or unaligned, units of a plane
    /// that do not reach a matrix product together; or if something is unknown.
    pub fn run(&self) -> Result<u64, String> {
        let [x, y, z] = self.groups;
        let units: u32 = self.units.iter().product();
        let mut count = 0;
        for place in (0..z).flat_map(|c| (0..y).flat_map(move |b| (0..x).map(move |a| [a, b, c]))) {
            let mut group = Group {
                kernel: self.kernel,
                parameters: self.parameters,
                shared: vec![0xff; self.shared],
                place,
                groups: self.groups,
                units: self.units,
            };
            let mut units: Vec<_> = (0..units).map(|place| Unit::new(place, self.kernel.registers)).collect();
            workgroup(&mut units, &mut group).map_err(|e| format!("{}, workgroup {place:?}: {e}", self.kernel.name))?;
            count += units.iter().map(|unit| unit.count).sum::<u64>();
        }
        Ok(count)
    }
}

fn workgroup(units: &mut [Unit], group: &mut Group<'_>) -> Result<(), String> {
    loop {
        for plane in units.chunks_mut(PLANE) {
            loop {
                for unit in plane.iter_mut() {
                    unit.run(group).map_err(|e| format!("unit {}: {e}", unit.place))?;
                }
                if plane.iter().all(|unit| unit.state != State::Meets) {
                    break;
                }
                together(plane, group)?;
            }
        }
        if units.iter().all(|unit| unit.state == State::Ended) {
            return Ok(());
        }
        // A GPU does not wait for units that have ended, either.
        for unit in units.iter_mut().filter(|unit| unit.state == State::Waits) {
            unit.state = State::Runs;
        }
    }
}
