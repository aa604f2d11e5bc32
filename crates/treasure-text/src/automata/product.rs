//! Texts that match two automata at once, or one and not the other.

use rustc_hash::FxHashMap;

use super::{
    Error, Result,
    dfa::{DEAD, Dfa, Table},
};

impl Dfa {
    /// What both match; `None` if nothing does.
    pub(super) fn and(&self, other: &Self, max_states: usize) -> Result<Option<Self>> {
        self.product(other, max_states, false)
    }

    /// What this matches and the other does not; `None` if nothing does.
    pub(super) fn except(&self, other: &Self, max_states: usize) -> Result<Option<Self>> {
        self.product(other, max_states, true)
    }

    fn product(&self, other: &Self, max_states: usize, negate: bool) -> Result<Option<Self>> {
        let (one, two) = (&self.table, &other.table);
        // Bytes that share a class in both.
        let mut pairs: Vec<(u8, u8)> = Vec::new();
        let classes = std::array::from_fn(|byte| {
            let pair = (one.classes[byte], two.classes[byte]);
            let at = pairs.iter().position(|&known| known == pair);
            at.unwrap_or_else(|| {
                pairs.push(pair);
                pairs.len() - 1
            }) as u8
        });
        let mut states = vec![(one.start, two.start)];
        let mut number: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        number.insert(states[0], 0);
        let (mut next, mut accepting) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(&(a, b)) = states.get(at) {
            at += 1;
            let accepts_b = b != DEAD && two.accepting[b as usize];
            accepting.push(one.accepting[a as usize] && accepts_b != negate);
            for &(class_a, class_b) in &pairs {
                let to_a = one.row(a)[usize::from(class_a)];
                let to_b = if b == DEAD { DEAD } else { two.row(b)[usize::from(class_b)] };
                if to_a == DEAD || (to_b == DEAD && !negate) {
                    next.push(DEAD);
                    continue;
                }
                let fresh = states.len() as u32;
                let to = *number.entry((to_a, to_b)).or_insert(fresh);
                if to == fresh {
                    if states.len() >= max_states {
                        return Err(Error::TooLarge {
                            what: "states of the byte automaton",
                            limit: max_states,
                            got: "more, where two patterns must hold at once".to_owned(),
                        });
                    }
                    states.push((to_a, to_b));
                }
                next.push(to);
            }
        }
        let table = Table { classes, width: pairs.len(), next, accepting, start: 0 };
        Ok(Self::from_table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Pattern};

    #[test]
    fn products_match_what_they_say() {
        let dfa = |regex: &str| Pattern::regex(regex).dfa(&Limits::default()).unwrap();
        let (words, even) = (dfa("[ab]{1,4}"), dfa("(..)*"));
        let both = words.and(&even, 100).unwrap().unwrap();
        let odd = words.except(&even, 100).unwrap().unwrap();
        assert_eq!(both, dfa("[ab]{2}|[ab]{4}"));
        assert_eq!(odd, dfa("[ab]|[ab]{3}"));
        assert!(both.and(&odd, 100).unwrap().is_none());
        assert!(words.except(&words, 100).unwrap().is_none());
        assert!(words.and(&even, 3).unwrap_err().to_string().contains("at most 3"));
    }
}
