//! The kinds of work that a vendor's profiler shows in groups and colours: [`Category`].

/// A group of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    /// A number from 1.
    pub id: u32,
    /// The name of the group.
    pub name: &'static str,
    /// The colour: alpha, red, green and blue, 8 bits each.
    pub colour: u32,
}

/// A group, and the ranges in it.
type Row = (&'static str, u32, &'static [&'static str]);

/// All groups. A range of another name is the user's own.
const ROWS: [Row; 8] = [
    ("run", 0xff_7f_7f_7f, &["run", "epoch", "iteration"]),
    ("data", 0xff_1f_77_b4, &["fetch", "wait", "copy", "batch", "transform", "collate"]),
    ("network", 0xff_2c_a0_2c, &["forward", "network", "layer"]),
    ("loss", 0xff_d6_27_28, &["loss"]),
    ("backward", 0xff_94_67_bd, &["backward", "layer backward", "reduce"]),
    ("optimizer", 0xff_8c_56_4b, &["optimizer"]),
    ("kernel", 0xff_bc_bd_22, &["kernel"]),
    ("handlers", 0xff_e3_77_c2, &["handler", "validation", "post", "metric", "copy checkpoint", "checkpoint"]),
];

/// The group of the user's ranges.
const OWN: (&str, u32) = ("own", 0xff_ff_7f_0e);

impl Category {
    /// The group of ranges with this name.
    pub fn of(range: &str) -> Self {
        let place = ROWS.iter().position(|(.., ranges)| ranges.contains(&range)).unwrap_or(ROWS.len());
        Self::at(place)
    }

    fn at(place: usize) -> Self {
        let (name, colour) = ROWS.get(place).map_or(OWN, |(name, colour, _)| (*name, *colour));
        Category { id: place as u32 + 1, name, colour }
    }

    /// All groups.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=ROWS.len()).map(Self::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_a_number_and_a_colour_of_their_own() {
        let all: Vec<Category> = Category::all().collect();
        for (place, one) in all.iter().enumerate() {
            assert_eq!(one.id as usize, place + 1);
            let same = all.iter().filter(|other| other.colour == one.colour || other.name == one.name).count();
            assert_eq!(same, 1, "{one:?}");
        }
        assert_eq!((Category::of("transform").name, Category::of("mine").name), ("data", "own"));
    }
}
