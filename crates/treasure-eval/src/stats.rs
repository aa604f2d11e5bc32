//! Intervals and tests over prompts and seeds.
//!
//! Texts of one prompt are alike, so prompts are resampled first and their continuations inside them
//! (a cluster bootstrap), and tests flip the sign of a whole prompt's difference. All draws come from
//! a key: the same rows give the same intervals.

use treasure_core::Key;

/// Bootstrap replicates.
const REPLICATES: usize = 2000;
/// Up to this many prompts every sign pattern is enumerated.
const EXACT_CLUSTERS: usize = 16;
/// Sign patterns drawn beyond that.
const PATTERNS: usize = 20_000;

/// Numbers grouped by prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters(pub Vec<Vec<f64>>);

impl Clusters {
    /// Groups (prompt, number) pairs; prompts without numbers do not count.
    pub fn group(pairs: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut by_prompt = std::collections::BTreeMap::<usize, Vec<f64>>::new();
        pairs
            .into_iter()
            .for_each(|(prompt, number)| by_prompt.entry(prompt).or_default().push(number));
        Self(by_prompt.into_values().collect())
    }

    /// How many numbers.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// The plain mean of all numbers.
    pub fn mean(&self) -> Option<f64> {
        mean(self.0.iter().flatten().copied())
    }
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
    /// How many numbers.
    pub n: usize,
}

/// A paired comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The mean difference with its interval.
    pub difference: Estimate,
    /// The two-sided p-value of a sign-flip test over prompts.
    pub p: f64,
    /// How many prompts were paired: with k prompts, p cannot fall below 2/2ᵏ.
    pub prompts: usize,
}

/// The mean of some numbers.
pub fn mean(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.into_iter().fold((0.0, 0usize), |(s, c), x| (s + x, c + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The q-quantile of sorted numbers, by linear interpolation between order statistics.
///
/// # Panics
/// If `sorted` is empty.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
}

/// The mean and its 95 % percentile interval by cluster bootstrap.
pub fn bootstrap(clusters: &Clusters, key: Key) -> Option<Estimate> {
    let mean = clusters.mean()?;
    let groups = &clusters.0;
    let mut means: Vec<f64> = (0..REPLICATES)
        .map(|replicate| {
            let key = key.fold(replicate as u64);
            let (mut sum, mut count) = (0.0, 0usize);
            for draw in 0..groups.len() {
                let key = key.fold(draw as u64);
                let group = &groups[key.below(groups.len())];
                for inner in 0..group.len() {
                    sum += group[key.fold(inner as u64).below(group.len())];
                }
                count += group.len();
            }
            sum / count.max(1) as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Estimate {
        mean,
        lo: quantile(&means, 0.025),
        hi: quantile(&means, 0.975),
        n: clusters.count(),
    })
}

/// Compares two sets of numbers on the cells they share; keys are (prompt, continuation).
pub fn paired(
    a: &[((usize, usize), f64)],
    b: &[((usize, usize), f64)],
    key: Key,
) -> Option<Comparison> {
    let b: std::collections::BTreeMap<_, _> = b.iter().copied().collect();
    let clusters =
        Clusters::group(a.iter().filter_map(|(cell, x)| b.get(cell).map(|y| (cell.0, x - y))));
    let difference = bootstrap(&clusters, key)?;
    Some(Comparison { difference, p: sign_flip(&clusters, key), prompts: clusters.0.len() })
}

/// Two-sided p-value: how often a random sign for each prompt's sum is at least as far from 0.
pub fn sign_flip(clusters: &Clusters, key: Key) -> f64 {
    let sums: Vec<f64> = clusters.0.iter().map(|group| group.iter().sum()).collect();
    let observed = sums.iter().sum::<f64>().abs();
    // Rounding must not turn a tie into a miss.
    let reaches = |total: f64| total.abs() >= observed - 1e-12 * (1.0 + observed);
    if sums.len() <= EXACT_CLUSTERS {
        let patterns = 1u32 << sums.len();
        let hits = (0..patterns)
            .filter(|pattern| {
                let signed = sums.iter().enumerate();
                reaches(signed.map(|(i, s)| if pattern >> i & 1 == 0 { *s } else { -s }).sum())
            })
            .count();
        return hits as f64 / f64::from(patterns);
    }
    let hits = (0..PATTERNS)
        .filter(|&pattern| {
            let key = key.fold(pattern as u64);
            let signed = sums.iter().enumerate();
            reaches(
                signed.map(|(i, s)| if key.fold(i as u64).below(2) == 0 { *s } else { -s }).sum(),
            )
        })
        .count();
    (hits + 1) as f64 / (PATTERNS + 1) as f64
}

/// Holm's correction for many tests, in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest = 0f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max(((p.len() - rank) as f64 * p[index]).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&sorted, 0.25), 1.75);
        assert_eq!(quantile(&sorted, 0.5), 2.5);
        assert_eq!(quantile(&sorted, 1.0), 4.0);
    }

    #[test]
    fn sign_flips_of_three_prompts_are_enumerated() {
        // Sums 1, 2, 3: |total| reaches 6 for + + + and − − − only, 2 of 8 patterns.
        let clusters = Clusters(vec![vec![1.0], vec![2.0], vec![1.5, 1.5]]);
        assert_eq!(sign_flip(&clusters, Key::new(0)), 0.25);
        // Sums 1, −1, 0: every pattern reaches |0|.
        let clusters = Clusters(vec![vec![1.0], vec![-1.0], vec![0.0]]);
        assert_eq!(sign_flip(&clusters, Key::new(0)), 1.0);
        // Sums 1, −1, 2: totals ±2 (4 patterns: the first two cancel), ±4, ±0…: 6 of 8 reach 2.
        let clusters = Clusters(vec![vec![1.0], vec![-1.0], vec![2.0]]);
        assert_eq!(sign_flip(&clusters, Key::new(0)), 0.75);
    }

    #[test]
    fn the_interval_of_two_single_numbers_spans_both() {
        // Means of two draws from {0, 1}: 0, ½, 1 with probability ¼, ½, ¼.
        let clusters = Clusters(vec![vec![0.0], vec![1.0]]);
        let estimate = bootstrap(&clusters, Key::new(1)).unwrap();
        assert_eq!((estimate.mean, estimate.lo, estimate.hi, estimate.n), (0.5, 0.0, 1.0, 2));
    }

    #[test]
    fn the_bootstrap_of_many_prompts_has_the_width_of_the_normal_interval() {
        // 400 prompts with uniform numbers: standard error = sqrt(1/12/400) = 0.01443.
        let numbers = (0..400).map(|i| vec![Key::new(7).fold(i).uniform()]).collect();
        let estimate = bootstrap(&Clusters(numbers), Key::new(2)).unwrap();
        let width = estimate.hi - estimate.lo;
        assert!((width - 2.0 * 1.96 * 0.01443).abs() < 0.006, "{width}");
    }

    #[test]
    fn alike_texts_of_one_prompt_widen_the_interval() {
        let alike = Clusters((0..10).map(|i| vec![f64::from(i % 2); 8]).collect());
        let spread = Clusters((0..80).map(|i| vec![f64::from(i % 2)]).collect());
        let width = |c: &Clusters| {
            let e = bootstrap(c, Key::new(3)).unwrap();
            e.hi - e.lo
        };
        assert!(width(&alike) > 2.0 * width(&spread));
    }

    #[test]
    fn the_same_key_gives_the_same_interval_and_no_numbers_give_none() {
        let clusters = Clusters(vec![vec![1.0, 2.0], vec![5.0]]);
        assert_eq!(bootstrap(&clusters, Key::new(4)), bootstrap(&clusters, Key::new(4)));
        assert_eq!(bootstrap(&Clusters::default(), Key::new(4)), None);
    }

    #[test]
    fn pairs_are_matched_by_prompt_and_continuation() {
        let a = [((0, 0), 3.0), ((0, 1), 5.0), ((1, 0), 1.0)];
        let b = [((0, 0), 1.0), ((1, 0), 0.0), ((2, 0), 9.0)];
        let comparison = paired(&a, &b, Key::new(5)).unwrap();
        assert_eq!(comparison.difference.mean, 1.5);
        assert_eq!((comparison.difference.n, comparison.prompts, comparison.p), (2, 2, 0.5));
    }

    #[test]
    fn holm_multiplies_the_smallest_most_and_stays_in_order() {
        let adjusted = holm(&[0.03, 0.01, 0.04]);
        assert!((adjusted[1] - 0.03).abs() < 1e-12);
        assert!((adjusted[0] - 0.06).abs() < 1e-12);
        assert!((adjusted[2] - 0.06).abs() < 1e-12);
    }
}
