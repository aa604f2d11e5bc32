//! A queue in which everyone takes turns.
//!
//! Guarantee: whoever has something waiting is served after at most one item of each other lane; within
//! a lane the order is the order of arrival.

use std::collections::{HashMap, VecDeque};

/// Items by lane.
pub(crate) struct Lanes<T> {
    lanes: HashMap<String, VecDeque<T>>,
    /// The lanes that have something, in the order of their turns.
    turns: VecDeque<String>,
    len: usize,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> Lanes<T> {
    /// How many items wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many items of a lane wait.
    pub fn len_of(&self, lane: &str) -> usize {
        self.lanes.get(lane).map_or(0, VecDeque::len)
    }

    /// Puts an item at the end of its lane.
    pub fn push(&mut self, lane: &str, item: T) {
        self.len += 1;
        match self.lanes.get_mut(lane) {
            Some(queue) => queue.push_back(item),
            None => {
                self.lanes.insert(lane.to_owned(), VecDeque::from([item]));
                self.turns.push_back(lane.to_owned());
            }
        }
    }

    /// The next item of the lane whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let lane = self.turns.pop_front()?;
        let queue = self.lanes.get_mut(&lane)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        self.len -= usize::from(item.is_some());
        item
    }

    /// Takes out what does not stay.
    pub fn remove(&mut self, gone: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for queue in self.lanes.values_mut() {
            let all = std::mem::take(queue);
            for item in all {
                if gone(&item) { removed.push(item) } else { queue.push_back(item) }
            }
        }
        self.lanes.retain(|_, queue| !queue.is_empty());
        let Self { lanes, turns, .. } = self;
        turns.retain(|lane| lanes.contains_key(lane));
        self.len -= removed.len();
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn a_long_lane_holds_up_no_short_one() {
        let mut lanes = Lanes::default();
        (0..5).for_each(|i| lanes.push("greedy", ("greedy", i)));
        lanes.push("modest", ("modest", 0));
        lanes.push("other", ("other", 0));
        let order: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
        let expected = [
            ("greedy", 0),
            ("modest", 0),
            ("other", 0),
            ("greedy", 1),
            ("greedy", 2),
            ("greedy", 3),
            ("greedy", 4),
        ];
        assert_eq!(order, expected);
        assert_eq!(lanes.len(), 0);
    }

    #[test]
    fn what_is_taken_out_leaves_its_turn() {
        let mut lanes = Lanes::default();
        (0..3).for_each(|i| lanes.push("a", i));
        lanes.push("b", 10);
        assert_eq!(lanes.remove(|i| *i < 3), [0, 1, 2]);
        assert_eq!((lanes.len(), lanes.len_of("a"), lanes.len_of("b")), (1, 0, 1));
        assert_eq!((lanes.pop(), lanes.pop()), (Some(10), None));
    }
}
