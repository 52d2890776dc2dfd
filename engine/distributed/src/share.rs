//! The cases that a rank evaluates: [`Share`].

/// The distribution of cases over ranks for evaluation. Each case is evaluated once: none is
/// repeated to make shares even, and a share may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    cases: usize,
    world: usize,
}

impl Share {
    /// The shares of `cases` cases for `world` ranks (at least one).
    pub fn new(cases: usize, world: usize) -> Self {
        Share { cases, world: world.max(1) }
    }

    /// The cases of a rank: `rank`, `rank + world`, ...
    pub fn of(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        (rank..self.cases).step_by(self.world)
    }

    /// The rows of all ranks in the order of cases, from those of each rank in the order of
    /// [`Share::of`]. `None` if a rank has more or fewer rows than cases.
    pub fn in_order<T>(&self, rows: Vec<Vec<T>>) -> Option<Vec<T>> {
        let fits =
            rows.len() == self.world && rows.iter().enumerate().all(|(r, rows)| rows.len() == self.of(r).count());
        if !fits {
            return None;
        }
        let mut ranks: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
        (0..self.cases).map(|case| ranks[case % self.world].next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_case_is_in_one_share_and_rows_return_in_order(cases in 0_usize..60, world in 1_usize..9) {
            let share = Share::new(cases, world);
            let rows: Vec<Vec<usize>> = (0..world).map(|rank| share.of(rank).collect()).collect();
            let lengths = rows.iter().map(Vec::len);
            prop_assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1));
            prop_assert_eq!(share.in_order(rows), Some((0..cases).collect()));
        }
    }

    #[test]
    fn rows_that_are_missing_are_noticed() {
        assert_eq!(Share::new(3, 2).in_order(vec![vec![0, 2], vec![]]), None);
        assert_eq!(Share::new(3, 2).in_order(vec![vec![0, 1, 2]]), None);
    }
}
